# SPDX-License-Identifier: GPL-2.0
"""Connected QPs on their way to RTS and out of it: events, query results, requests held back in SQD, and attributes
that may change in SQD.

Two QPs of one device, of RC or UC, are connected to each other.
"""

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.qp import QPAttr

import enums as e
import rc
import unreliable
from connected import tests_of
from rc import PORT, End, async_event, eventually, forget_events, gid_index
from tap import equal, not_for_rxe, true
from unreliable import modify
from verbs import RTS_MASK, refused, rts_attr
from work import OK, READ, SEND, fill, held, pattern, status

SERVICES = {rc.pair: e.IBV_QPT_RC, unreliable.pair: e.IBV_QPT_UC}


def established(pair):
    """A packet that arrives before RTS raises COMM_EST once, and a later one raises no event"""
    not_for_rxe("raises no event")
    forget_events()
    service = SERVICES[pair]
    a, b = End(service=service), End(service=service)
    for life in range(2):
        for end, peer in ((a, b), (b, a)):
            attr = end.attr(peer)
            end.qp.to_init(attr)
            end.receive(pieces=[end.sge(0, 64)])
            end.receive(pieces=[end.sge(0, 64)])
            end.qp.to_rtr(attr)
        mask = RTS_MASK if service == e.IBV_QPT_RC else e.IBV_QP_STATE | e.IBV_QP_SQ_PSN
        a.qp.modify(rts_attr(a.attr(b)), mask)
        for _ in range(2):
            a.send(SEND, pieces=[a.sge(0, 8)])
            status(a, OK, "send")
            status(b, OK, "receive")
        equal(async_event(), e.IBV_EVENT_COMM_EST, f"life {life}")
        b.qp.modify(rts_attr(b.attr(a)), mask)
        b.send(SEND, pieces=[b.sge(0, 8)])
        status(b, OK, "send")
        status(a, OK, "receive")
        equal(async_event(0.2), None, "another event")
        for end in (a, b):
            modify(end.qp, e.IBV_QPS_RESET)
    for end in (a, b):
        end.close()


def positions(pair):
    """query_qp returns the next PSN in both directions"""
    with pair(sq_psn=0xFFFFFE, rq_psn=0xFFFFFE) as (a, b):
        for length, packets in ((1, 1), (1024, 1), (5000, 5)):
            before = a.qp.query(e.IBV_QP_SQ_PSN)[0].sq_psn
            b.receive()
            a.send(SEND, pieces=[a.sge(0, length)])
            status(a, OK, "send")
            status(b, OK, "receive")
            after = (before + packets) & 0xFFFFFF
            equal(a.qp.query(e.IBV_QP_SQ_PSN)[0].sq_psn, after, f"sent {length} bytes")
            equal(b.qp.query(e.IBV_QP_RQ_PSN)[0].rq_psn, after, f"received {length} bytes")


def drained():
    """RC, SQD: begun requests complete, later ones wait, and SQ_DRAINED is raised if it was requested"""
    not_for_rxe("does not hold requests back")
    for notify in (True, False):
        forget_events()
        with rc.pair() as (a, b):
            # There is no receive, so the sender retries.
            a.send(SEND, wr_id=1, pieces=[a.sge(0, 8)])
            modify(a.qp, e.IBV_QPS_SQD, notify=notify)
            a.send(SEND, wr_id=2, pieces=[a.sge(0, 8)])
            attr = a.qp.query(e.IBV_QP_STATE)[0]
            equal((attr.qp_state, attr.sq_draining), (e.IBV_QPS_SQD, 1), "state and sq_draining")
            equal(async_event(0), None, "an event")
            for number in (1, 2):
                b.receive(wr_id=number)
            equal(status(a, OK, "the request before SQD").wr_id, 1)
            equal(async_event(5 if notify else 0.2), e.IBV_EVENT_SQ_DRAINED if notify else None, "after it has drained")
            attr = a.qp.query(e.IBV_QP_STATE)[0]
            equal((attr.qp_state, attr.sq_draining), (e.IBV_QPS_SQD, 0), "state and sq_draining")
            a.silent()
            modify(a.qp, e.IBV_QPS_RTS)
            equal(status(a, OK, "the request posted in SQD").wr_id, 2)
            b.completions(2)
            equal(async_event(0.1), None, "another event")


def drained_again(pair):
    """SQ_DRAINED is raised only for the modify that requested it"""
    not_for_rxe("raises it always")
    forget_events()
    with pair() as (a, b):
        for notify in (True, False, True, False):
            modify(a.qp, e.IBV_QPS_SQD, notify=notify)
            equal(async_event(5 if notify else 0.2), e.IBV_EVENT_SQ_DRAINED if notify else None, "after it has drained")
            modify(a.qp, e.IBV_QPS_RTS)
        modify(a.qp, e.IBV_QPS_SQD, notify=True)
        equal(async_event(), e.IBV_EVENT_SQ_DRAINED, "before the reset")
        modify(a.qp, e.IBV_QPS_RESET)
        a.to_rts(b)
        modify(a.qp, e.IBV_QPS_SQD)
        equal(async_event(0.2), None, "after the reset")


def turn(end, peer, family):
    """Changes the path to the peer in SQD, and returns to RTS."""
    modify(end.qp, e.IBV_QPS_SQD)
    eventually(lambda: not end.qp.query(e.IBV_QP_STATE)[0].sq_draining, "drained")
    attr = end.attr(peer, gid=gid_index(family))
    end.qp.modify(attr, e.IBV_QP_AV)
    equal(end.qp.query(e.IBV_QP_AV)[0].ah_attr.sgid_index, gid_index(family), "the reported GID index")
    modify(end.qp, e.IBV_QPS_RTS)


def another_way(pair):
    """A queue pair gets another path in SQD, sends its packets there and accepts the peer's only from there"""
    with pair(timeout=16, gid=gid_index(4)) as (a, b):
        for family in (6, 4):
            data = pattern(3000, family)
            fill(a, data)
            turn(a, b, family)
            b.receive(wr_id=1)
            a.send(SEND, wr_id=1, pieces=[a.sge(0, 3000)])
            b.silent()
            turn(b, a, family)
            if pair is unreliable.pair:
                # The first message is lost.
                status(a, OK, "send on a path that the peer does not accept")
                a.send(SEND, wr_id=2, pieces=[a.sge(0, 3000)])
            status(a, OK, "send")
            status(b, OK, "receive")
            equal(held(b, 3000), data)


def no_other_way(pair):
    """A path that is invalid, or set in another state, changes nothing"""
    not_for_rxe("accepts it at any time")
    with pair(gid=gid_index(4)) as (a, b):
        attr = a.attr(b, gid=gid_index(6))
        refused(lambda: a.qp.modify(attr, e.IBV_QP_AV))
        modify(a.qp, e.IBV_QPS_SQD)
        attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=a.ctx.query_gid(PORT, gid_index(6)), sgid_index=gid_index(4)),
                              is_global=1, port_num=PORT)
        refused(lambda: a.qp.modify(attr, e.IBV_QP_AV))
        modify(a.qp, e.IBV_QPS_RTS)
        b.receive()
        a.send(SEND, pieces=[a.sge(0, 8)])
        status(a, OK, "send")
        status(b, OK, "receive")


def another_depth():
    """RC, SQD: a responder changes from zero READs to the number that modify_qp sets"""
    not_for_rxe("rounds up to a power of two")
    with rc.pair(max_dest_rd_atomic=0, max_rd_atomic=1) as (a, b):
        for end in (a, b):
            modify(end.qp, e.IBV_QPS_SQD)
        for depth in (1, 16, 128, 3):
            attr = QPAttr()
            attr.max_dest_rd_atomic = attr.max_rd_atomic = depth
            b.qp.modify(attr, e.IBV_QP_MAX_DEST_RD_ATOMIC)
            a.qp.modify(attr, e.IBV_QP_MAX_QP_RD_ATOMIC)
            equal(b.qp.query(e.IBV_QP_MAX_DEST_RD_ATOMIC)[0].max_dest_rd_atomic, depth)
            for end in (a, b):
                modify(end.qp, e.IBV_QPS_RTS)
            for number in range(40):
                a.send(READ, wr_id=number, pieces=[a.sge(number * 8, 8)], remote=b.remote(number * 8))
            equal([status(a, OK, f"read, depth {depth}").wr_id for _ in range(40)], list(range(40)))
            for end in (a, b):
                modify(end.qp, e.IBV_QPS_SQD)
                eventually(lambda: not end.qp.query(e.IBV_QP_STATE)[0].sq_draining, "drained")  # pylint: disable=W0640
        true(b.state() == e.IBV_QPS_SQD, "nothing has failed")


TESTS = [test for pair in SERVICES for test in tests_of(pair, established, positions, drained_again, another_way,
                                                        no_other_way)]
TESTS += [drained, another_depth]
