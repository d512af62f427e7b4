# SPDX-License-Identifier: GPL-2.0
"""Shared receive queues: capacity, order, the limit event, resize, and the end of their QPs."""

import errno
import os
import struct
import time

from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QPAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR, SGE

import enums as e
import ud
from peer import Peer
from rc import FULL_ACCESS, End, async_event, context, eventually, forget_events, pair
from tap import equal, not_for_rxe, run, true
from work import OK, RXE, SEND, fill, pattern, status

SLOT = 256
# IB_USER_VERBS_CMD_DESTROY_SRQ.
DESTROY_SRQ = 35
QUICK = {"timeout": 8, "retry_cnt": 1, "rnr_retry": 1, "min_rnr_timer": 1}


class Shared:
    """An SRQ with its own memory, in slots of SLOT bytes; the wr_id is the number of the slot."""

    def __init__(self, wr=64, sge=4, limit=0, slots=64):
        self.pd = PD(context())
        self.mr = MR(self.pd, slots * SLOT, FULL_ACCESS)
        self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=wr, max_sge=sge, srq_limit=limit)))
        # Arguments of an end that uses it.
        self.user = {"srq": self.srq, "pd": self.pd}

    def post(self, *slots, pieces=1):
        """Posts a receive for each slot."""
        for slot in slots:
            part = SLOT // pieces
            list_ = [SGE(self.mr.buf + slot % 64 * SLOT + i * part, part, self.mr.lkey) for i in range(pieces)]
            self.srq.post_recv(RecvWR(wr_id=slot, num_sge=pieces, sg=list_))

    def bytes(self, slot, length):
        """Returns the bytes of a slot."""
        data = self.mr.read(length, slot % 64 * SLOT)
        return data.encode("latin-1") if isinstance(data, str) else bytes(data)

    def set_limit(self, limit):
        """Arms the limit."""
        self.srq.modify(SrqAttr(srq_limit=limit), e.IBV_SRQ_LIMIT)

    def resize(self, max_wr):
        """Resizes the queue."""
        self.srq.modify(SrqAttr(max_wr=max_wr), e.IBV_SRQ_MAX_WR)

    def __enter__(self):
        forget_events()
        return self

    def __exit__(self, *_):
        for part in (self.srq, self.mr, self.pd):
            part.close()


def refused(action, why):
    """Returns the errno with which an action fails."""
    try:
        action()
    except PyverbsError as error:
        return getattr(error, "error_code", None) or errno.EIO
    raise AssertionError(f"not refused: {why}")


def message(a, number, length=SLOT):
    """Sends a pattern derived from its number."""
    fill(a, pattern(length, number))
    a.send(SEND, wr_id=number, pieces=[a.sge(0, length)])


def capacities():
    """A queue has the requested capacity, within the limits that the device reports"""
    limits = context().query_device()
    with Shared(wr=100, sge=3, limit=7) as shared:
        attr = shared.srq.query()
        true(attr.max_wr >= 100 and attr.max_sge >= 3, "the requested capacity")
        if not RXE:  # rxe arms a limit by modify_srq only.
            equal(attr.srq_limit, 7, "limit")
    # It has no meaning yet, so programs leave anything there.
    for limit in (65, 0xFFFFFFFF):
        with Shared(wr=64, limit=limit) as shared:
            equal(shared.srq.query().srq_limit, limit if RXE else 0, "a limit beyond the queue")
    with Shared(wr=limits.max_srq_wr, sge=limits.max_srq_sge) as shared:
        true(shared.srq.query().max_wr >= limits.max_srq_wr, "the reported maximum")
    for wr, sge in ((limits.max_srq_wr + 1, 1), (1, limits.max_srq_sge + 1), (0, 1), (0xFFFFFFFF, 1)):
        equal(refused(lambda wr=wr, sge=sge: Shared(wr, sge), f"{wr} receives of {sge}"), errno.EINVAL)


def both_take():
    """Two queue pairs consume receives of one queue in posting order, and each completion names its own QP"""
    with Shared() as shared, pair(b=shared.user) as (a, b), pair(b=shared.user) as (c, d):
        shared.post(*range(20))
        for number in range(20):
            sender, receiver = ((a, b), (c, d))[number % 2]
            message(sender, number)
            status(sender, OK, "send")
            wc = status(receiver, OK, "receive")
            equal((wc.wr_id, wc.qp_num, wc.byte_len), (number, receiver.qp.qp_num, SLOT))
        for number in range(20):
            equal(shared.bytes(number, SLOT), pattern(SLOT, number), f"message {number}")


def many_pieces():
    """A receive may have the maximum number of SGEs, or none"""
    pieces = context().query_device().max_srq_sge
    length = SLOT // pieces * pieces
    with Shared(sge=pieces) as shared, pair(b=shared.user) as (a, b):
        shared.post(3, pieces=pieces)
        message(a, 3, length)
        equal(status(b, OK, "receive").wr_id, 3)
        equal(shared.bytes(3, length), pattern(length, 3))
        shared.srq.post_recv(RecvWR(wr_id=4, num_sge=1, sg=[SGE(0, 0, 0)]))
        a.send(SEND, pieces=[])
        equal(status(b, OK, "empty receive").byte_len, 0)


def domain():
    """Receives use memory of the SRQ's domain, not of the queue pair's"""
    not_for_rxe("uses the domain of the queue pair")
    with Shared() as shared, pair(b={"srq": shared.srq}, **QUICK) as (a, b):
        shared.post(0)
        shared.srq.post_recv(RecvWR(wr_id=1, num_sge=1, sg=[b.sge(0, SLOT)]))
        message(a, 1)
        equal(status(b, OK, "memory of the SRQ's domain").wr_id, 0)
        message(a, 2)
        status(b, e.IBV_WC_LOC_PROT_ERR, "memory of the queue pair's domain")


def empty():
    """A sender retries while the shared queue is empty, up to its retry limit"""
    with Shared() as shared, pair(b=shared.user, min_rnr_timer=12) as (a, b):
        message(a, 1)
        a.silent(0.2)
        shared.post(1)
        status(a, OK, "send")
        status(b, OK, "receive")
    with Shared() as shared, pair(b=shared.user, **QUICK) as (a, b):
        message(a, 1)
        status(a, e.IBV_WC_RNR_RETRY_EXC_ERR, "send without a receive")
        b.silent()


def too_long():
    """A receive that is too short fails only its own queue pair"""
    with Shared() as shared, pair(b=shared.user, **QUICK) as (a, b), pair(b=shared.user) as (c, d):
        shared.post(1, 2)
        message(a, 1, 2 * SLOT)
        equal(status(b, e.IBV_WC_LOC_LEN_ERR, "receive").wr_id, 1)
        message(c, 2)
        equal(status(d, OK, "the receive of the other QP").wr_id, 2)


def limit():
    """The limit event is raised once when the queue falls below the limit, and disarms it"""
    with Shared() as shared, pair(b=shared.user) as (a, b):
        shared.post(*range(10))
        shared.set_limit(7)
        equal(shared.srq.query().srq_limit, 7, "armed")
        for number in range(6):
            message(a, number)
            status(b, OK, "receive")
            if number < 3:
                equal(async_event(0.05), None, f"event after {number + 1}")
        equal(async_event(), e.IBV_EVENT_SRQ_LIMIT_REACHED)
        equal(shared.srq.query().srq_limit, 0, "disarmed")
        equal(async_event(0.2), None, "a second event")
        shared.set_limit(2)
        for number in range(3):
            message(a, number)
            status(b, OK, "receive")
        equal(async_event(), e.IBV_EVENT_SRQ_LIMIT_REACHED, "armed again")
        equal(refused(lambda: shared.set_limit(1 << 20), "an impossible limit"), errno.EINVAL)


def resize():
    """resize keeps the posted receives in order, and fails below their number"""
    with Shared(wr=8) as shared, pair(b=shared.user) as (a, b):
        shared.post(*range(8))
        posted = 8
        for number in range(40):
            if number % 8 == 0:
                shared.resize((60, 9, 31)[number // 8 % 3])
            if number % 8 == 4:
                equal(refused(lambda: shared.resize(3), "less than the posted receives"), errno.EINVAL)
            message(a, number)
            wc = status(b, OK, "receive")
            equal(wc.wr_id, number, "order")
            equal(shared.bytes(number, SLOT), pattern(SLOT, number))
            shared.post(posted)
            posted += 1
        equal(refused(lambda: shared.resize(context().query_device().max_srq_wr + 1), "too large"), errno.EINVAL)
        equal(refused(lambda: shared.resize(0), "nothing"), errno.EINVAL)
        true(shared.srq.query().max_wr >= 9, "the last size")


def resize_under_traffic():
    """Repeated resizes while a peer sends neither lose nor duplicate a message"""
    with Peer(5) as peer, Shared(wr=40) as shared:
        end = End(**shared.user)
        peer.connect(end, min_rnr_timer=1)
        shared.post(*range(32))
        peer.start()
        posted, taken, sizes, wanted = 32, 0, 0, None
        while wanted is None or taken < wanted:
            true(time.monotonic() < peer.stop + 60, f"{taken} of {wanted} received, {sizes} sizes")
            for wc in end.cq.poll(16)[1]:
                equal((wc.wr_id, wc.status), (taken, OK), "the next one")
                taken += 1
            shared.post(*range(posted, taken + 32))
            posted = taken + 32
            if peer.running():
                shared.resize((40, 500, 33, 4000)[sizes % 4])
                sizes += 1
            elif wanted is None:
                wanted = peer.count()
        print(f"# {taken} messages, {sizes} sizes")
        end.close()


def last_wqe():
    """A queue pair that fails raises LAST_WQE_REACHED, and leaves the receives to others"""
    with Shared() as shared, pair(b=shared.user) as (a, b), pair(b=shared.user, **QUICK) as (c, d):
        shared.post(*range(4))
        message(c, 0)
        status(d, OK, "receive")
        d.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        equal(async_event(), e.IBV_EVENT_QP_LAST_WQE_REACHED)
        equal(async_event(0.2), None, "a second event")
        d.silent()
        for number in range(1, 4):
            message(a, number)
            equal(status(b, OK, "receive").wr_id, number, "no receive is missing")
        # Again after a reset.
        d.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        d.to_rts(c)
        equal(async_event(0.2), None, "an event of a working queue pair")
        d.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        equal(async_event(), e.IBV_EVENT_QP_LAST_WQE_REACHED, "after a reset")


def interrupted():
    """A receive that fails within a message completes with the error, and the next receive stays posted"""
    with Shared(slots=4096) as shared, pair(b=shared.user, a={"size": 1 << 20}, **QUICK) as (a, b):
        # The second packet of the message cannot be placed, so the receive fails.
        shared.srq.post_recv(RecvWR(wr_id=7, num_sge=2, sg=[SGE(shared.mr.buf, 2048, shared.mr.lkey),
                                                          SGE(shared.mr.buf, 4096, 0x12345678)]))
        shared.post(8)
        a.send(SEND, pieces=[a.sge(0, 5000)])
        wc = b.completion()
        equal((wc.wr_id, wc.status), (7, e.IBV_WC_LOC_PROT_ERR))
        eventually(lambda: b.state() == e.IBV_QPS_ERR, "the queue pair fails")
        b.silent()
        with pair(b=shared.user) as (c, d):
            message(c, 8)
            equal(status(d, OK, "the next").wr_id, 8)


def in_use():
    """A shared queue in use cannot be destroyed, and stays usable"""
    with Shared() as shared, pair(b=shared.user) as (a, b):
        # The raw command: pyverbs would first close the users of the queue. Handles are small numbers.
        found = set()
        for handle in range(200):
            try:
                os.write(context().cmd_fd, struct.pack("=IHHQII", DESTROY_SRQ, 6, 1, 0, handle, 0))
            except OSError as error:
                found.add(error.errno)
            else:
                raise AssertionError("a queue in use was destroyed")
        true(errno.EBUSY in found, f"{found} for a queue in use")
        shared.post(1)
        message(a, 1)
        status(b, OK, "receive")


def datagrams():
    """Datagrams consume receives of a shared queue, and are lost if there is none"""
    with Shared() as shared, pair(b=shared.user) as (c, d):
        a, b = ud.UdEnd(ctx=context()), ud.UdEnd(ctx=context(), srq=shared.srq, pd=shared.pd)
        to_b = a.handle_for(os.environ["ADDR"], int(os.environ["GID4"]))
        equal(a.send(to_b, b"lost", b.qp.qp_num), OK)
        b.silent()
        shared.post(1, 2, 3)
        equal(a.send(to_b, b"to the first", b.qp.qp_num), OK)
        wc = b.completion()
        equal((wc.wr_id, wc.status, wc.byte_len), (1, OK, ud.GRH + 12))
        equal(shared.bytes(1, ud.GRH + 12)[ud.GRH:], b"to the first")
        message(c, 2)
        equal(status(d, OK, "a connection's receive").wr_id, 2)
        equal(a.send(to_b, b"to the third", b.qp.qp_num), OK)
        equal(b.completion().wr_id, 3)
        to_b.close()
        b.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        equal(async_event(), e.IBV_EVENT_QP_LAST_WQE_REACHED)
        for end in (a, b):
            end.close()


def long_datagrams():
    """Datagrams that do not fit consume no receive, on any queue pair of the shared queue"""
    not_for_rxe("a datagram that does not fit consumes a receive")
    with Shared() as shared:
        a = ud.UdEnd(ctx=context())
        ends = [ud.UdEnd(ctx=context(), srq=shared.srq, pd=shared.pd) for _ in range(3)]
        to_all = a.handle_for(os.environ["ADDR"], int(os.environ["GID4"]))
        shared.post(1, 2)
        for end in ends:
            equal(a.send(to_all, bytes(SLOT - ud.GRH + 1), end.qp.qp_num), OK)
            end.silent()
        for number, end in zip((1, 2), reversed(ends)):
            equal(a.send(to_all, bytes(SLOT - ud.GRH), end.qp.qp_num), OK)
            equal((wc := end.completion()).wr_id, number)
            equal((wc.status, wc.byte_len), (OK, SLOT))
        to_all.close()
        for end in (a, *ends):
            end.close()


TESTS = [capacities, both_take, many_pieces, domain, empty, too_long, limit, resize, resize_under_traffic,
         last_wqe, interrupted, in_use, datagrams, long_datagrams]

if __name__ == "__main__":
    run(TESTS)
