# SPDX-License-Identifier: GPL-2.0
"""Queues longer than one engine run: every request completes in order, flushed or successful.

The requests of one doorbell are in the ring before the kernel reads it; see ring.py.
"""

from pyverbs.mr import MR, MW
from pyverbs.qp import QPAttr

import enums as e
import rc
from rc import async_event, forget_events, pair
from ring import Hostile
from srq import Shared
from tap import equal, not_for_rxe, run, true
from ud import QKEY
from work import FLUSHED, OK, SEND

# Not a multiple of the budget of an engine run.
COUNT = 1003
ENDS = {"wr": 1100, "cqe": 2 * 1100, "sge": 1}
SERVICES = {"RC": e.IBV_QPT_RC, "UC": e.IBV_QPT_UC, "UD": e.IBV_QPT_UD}
BIND, WRITE = 8, 0


def to_error(end):
    """Moves a QP to the error state."""
    end.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)


def in_order(end, status, *sequences):
    """All requests complete with a status, each sequence of wr_ids in its order, and no other request completes."""
    found = end.completions(sum(len(numbers) for numbers in sequences), 20)
    equal({wc.status for wc in found}, {status}, "statuses")
    for numbers in sequences:
        equal([wc.wr_id for wc in found if wc.wr_id in numbers], list(numbers), f"from {numbers[0]}")
    end.silent()


class ends:  # pylint: disable=invalid-name
    """`with ends(service) as end`: in RTS, with a peer if the service needs one. The settings are for the ends."""

    def __init__(self, service, **settings):
        self.ends = [Hostile(service=SERVICES[service], **{**ENDS, **settings}) for _ in range(2)]

    def __enter__(self):
        end, peer = self.ends
        if end.qp.qp_type == e.IBV_QPT_UD:
            attr = QPAttr(port_num=rc.PORT)
            attr.qkey = QKEY
            end.qp.to_rts(attr)
        else:
            end.to_rts(peer)
            peer.to_rts(end)
        return end

    def __exit__(self, *_):
        for end in self.ends:
            end.close()


def waiting(service):
    """{}: all waiting sends and receives are flushed in order when the QP moves to the error state"""
    not_for_rxe("does not hold requests back")
    sends, receives = range(10000, 10000 + COUNT), range(COUNT)
    with ends(service) as end:
        end.qp.modify(QPAttr(qp_state=e.IBV_QPS_SQD), e.IBV_QP_STATE)
        for number in receives:
            end.post_receive(wr_id=number)
        for number in sends:
            end.post(wr_id=number, ring_bell=False)
        end.doorbell()
        end.silent()
        to_error(end)
        in_order(end, FLUSHED, sends, receives)


def late(service):
    """{}: requests posted to a failed QP are flushed in order, with one doorbell or without"""
    not_for_rxe("polls only on other events")
    sends, receives = range(10000, 10000 + COUNT), range(COUNT)
    with ends(service) as end:
        to_error(end)
        for _ in range(2):
            for number in sends:
                end.post(wr_id=number, ring_bell=False)
            end.doorbell()
            in_order(end, FLUSHED, sends)
            # Receives have no doorbell.
            for number in receives:
                end.post_receive(wr_id=number)
            in_order(end, FLUSHED, receives)


def over_again(service):
    """{}: a QP that is reset during its flush starts anew and forgets the other requests"""
    not_for_rxe("polls only on other events")
    for _ in range(5):
        with ends(service) as end:
            for number in range(COUNT):
                end.post_receive(wr_id=number)
            to_error(end)
            end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
            count = 0
            while batch := end.cq.poll(64)[1]:
                equal([wc.wr_id for wc in batch], list(range(count, count + len(batch))))
                count += len(batch)
            end.silent()
            end.qp.modify(QPAttr(qp_state=e.IBV_QPS_INIT, port_num=rc.PORT), *INIT_MASK[service])
            end.post_receive(wr_id=7777)
            to_error(end)
            in_order(end, FLUSHED, range(7777, 7778))


def never_sent(service):
    """{}: a QP that never was in RTS flushes its requests in order, and sends once it is connected"""
    not_for_rxe("polls only on other events")
    end, peer = (Hostile(service=SERVICES[service], **ENDS) for _ in range(2))
    for _ in range(2):
        end.qp.modify(QPAttr(qp_state=e.IBV_QPS_INIT, port_num=rc.PORT), *INIT_MASK[service])
        for number in range(COUNT):
            end.post(wr_id=number, ring_bell=False)
        to_error(end)
        in_order(end, FLUSHED, range(COUNT))
        for number in range(COUNT):
            end.post(wr_id=number, ring_bell=False)
        end.doorbell()
        in_order(end, FLUSHED, range(COUNT))
        end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
    if service != "UD":
        end.to_rts(peer)
        peer.to_rts(end)
        end.post(wr_id=1, opcode=WRITE, pieces=[])
        in_order(end, OK, range(1, 2))
    for one in (end, peer):
        one.close()


INIT_MASK = {
    "UD": [e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_QKEY],
    **{name: [e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS] for name in ("RC", "UC")},
}


def shared():
    """RC with an SRQ: the sends are flushed, and one event reports that the receives are left to others"""
    not_for_rxe("does not hold requests back")
    with Shared(wr=COUNT) as srq, pair(a=dict(srq.user, wr=1100, cqe=2200), b=srq.user) as (a, b):
        srq.post(*range(COUNT))
        a.qp.modify(QPAttr(qp_state=e.IBV_QPS_SQD), e.IBV_QP_STATE)
        numbers = range(10000, 10000 + COUNT)
        for number in numbers:
            a.send(SEND, wr_id=number, pieces=[a.sge(0, 8)], flags=0)
        to_error(a)
        in_order(a, FLUSHED, numbers)
        equal(async_event(), e.IBV_EVENT_QP_LAST_WQE_REACHED)
        equal(async_event(0.2), None, "a second event")
        to_error(b)
        equal(async_event(), e.IBV_EVENT_QP_LAST_WQE_REACHED, "event of the other end")
        b.silent()


def by_one_doorbell(service):
    """{}: all requests of one doorbell execute in order, signaled or not"""
    not_for_rxe("has other bounds")
    with ends(service) as end:
        for signals in (e.IBV_SEND_SIGNALED, 0):
            for number in range(COUNT):
                flags = e.IBV_SEND_SIGNALED if number == COUNT - 1 else signals
                end.post(wr_id=number, opcode=WRITE, pieces=[], flags=flags, ring_bell=False)
            end.doorbell()
            in_order(end, OK, range(COUNT) if signals else range(COUNT - 1, COUNT))


def drained():
    """RC: all completions precede the event SQ_DRAINED"""
    not_for_rxe("does not hold requests back")
    for _ in range(10):
        forget_events()
        with ends("RC") as end:
            for number in range(COUNT):
                end.post(wr_id=number, opcode=WRITE, pieces=[], ring_bell=False)
            end.doorbell()
            attr = QPAttr(qp_state=e.IBV_QPS_SQD)
            attr.en_sqd_async_notify = 1
            end.qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_EN_SQD_ASYNC_NOTIFY)
            equal(async_event(), e.IBV_EVENT_SQ_DRAINED)
            # The CQ now holds the completions that the event covers.
            found = []
            while batch := end.cq.poll(COUNT)[1]:
                found += batch
            end.silent()
            end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RTS), e.IBV_QP_STATE)
            if len(found) < COUNT:
                found += end.completions(COUNT - len(found), 20)
            equal([(wc.wr_id, wc.status) for wc in found], [(number, OK) for number in range(COUNT)])


def binds(service):
    """{}: binds of one window by one doorbell complete one by one"""
    not_for_rxe("has other bounds")
    with ends(service, access=rc.FULL_ACCESS | e.IBV_ACCESS_MW_BIND) as end:
        region, window = MR(end.pd, 4096, rc.FULL_ACCESS | e.IBV_ACCESS_MW_BIND), MW(end.pd, e.IBV_MW_TYPE_1)
        key = window.rkey
        for number in range(COUNT):
            new = key & ~0xFF | (key + 1) & 0xFF
            end.post(wr_id=number, opcode=BIND, pieces=[], ring_bell=False, remote=region.buf, mw_length=4096,
                     mr_lkey=region.lkey, mw_rkey=key, mw_key=new, mw_access=e.IBV_ACCESS_REMOTE_WRITE)
            key = new
        end.doorbell()
        in_order(end, OK, range(COUNT))
        true(key != window.rkey, "the key has not changed")
        window.close()
        region.close()


def of(test, service):
    """The test for one service."""
    def wrapped():
        test(service)
    wrapped.__name__, wrapped.__doc__ = f"{test.__name__}_{service.lower()}", test.__doc__.format(service)
    return wrapped


TESTS = [
    *(of(test, service) for test in (waiting, late, over_again, never_sent) for service in SERVICES),
    shared,
    *(of(test, service) for test in (by_one_doorbell, binds) for service in ("RC", "UC")),
    drained,
]

if __name__ == "__main__":
    run(TESTS)
