# SPDX-License-Identifier: GPL-2.0
"""Unreliable connections as an application sees them, and a failed send of an unreliable service: its send queue
enters SQE, and returns to RTS.

Two QPs of one device are connected to each other.
"""

import os

from pyverbs.mr import MW, MWBindInfo
from pyverbs.qp import QPAttr
from pyverbs.wr import SendWR, SGE

import enums as e
import connected
import rc
from rc import async_event, eventually, forget_events, gid_index
from tap import equal, not_for_rxe, run, true
from ud import QKEY, UdEnd
from work import (FLUSHED, LENGTHS, OK, READ, RXE, SEND, SIGNALED, WRITE, WRITE_IMM, e_name, fill, held, pattern,
                  piece, status)


def pair(a=None, b=None, **settings):
    """As rc.pair, with UC."""
    ends = ({**(end or {}), "service": e.IBV_QPT_UC} for end in (a, b))
    return rc.pair(*ends, **settings)


def modify(qp, state, **settings):
    """Moves a QP to a state, with no other attributes."""
    attr, mask = QPAttr(qp_state=state), e.IBV_QP_STATE
    if settings.pop("notify", False):
        attr.en_sqd_async_notify = 1
        mask |= e.IBV_QP_EN_SQD_ASYNC_NOTIFY
    if "now" in settings:
        attr.cur_qp_state = settings.pop("now")
        mask |= e.IBV_QP_CUR_STATE
    qp.modify(attr, mask)


def writes():
    """UC: RDMA WRITE of every length places every byte, and consumes no receive"""
    with pair(a={"size": 1 << 17}, b={"size": 1 << 17}) as (a, b):
        b.receive()
        for seed, length in enumerate(LENGTHS):
            data = pattern(length, seed)
            fill(a, data, 5)
            a.send(WRITE, pieces=piece(a, length, 5), remote=b.remote(11))
            equal(status(a, OK, f"write of {length}").opcode, e.IBV_WC_RDMA_WRITE)
            eventually(lambda: held(b, length, 11) == data, f"{length} bytes arrive")  # pylint: disable=W0640
        b.silent()


def reported():
    """UC: only signaled requests complete, in order, also when the queue wraps around"""
    with pair(a={"wr": 16}, b={"wr": 16}) as (a, b):
        for lap in range(20):
            for number in range(10):
                a.send(WRITE, wr_id=number, pieces=[a.sge(0, 3000)], remote=b.remote(),
                       flags=SIGNALED if number in (4, 9) else 0)
            equal([wc.wr_id for wc in a.completions(2)], [4, 9], f"lap {lap}")
        a.silent()


def every_path():
    """UC works over IPv4 and IPv6 at every path MTU, and sequence numbers wrap within a message"""
    for family in (4, 6):
        for mtu in (e.IBV_MTU_256, e.IBV_MTU_512, e.IBV_MTU_1024, e.IBV_MTU_2048, e.IBV_MTU_4096):
            with pair(gid=gid_index(family), path_mtu=mtu, sq_psn=0xFFFFFF, rq_psn=0xFFFFFF) as (a, b):
                data = pattern(10001, mtu)
                fill(a, data)
                b.receive()
                a.send(SEND, pieces=[a.sge(0, 10001)])
                status(b, OK, f"IPv{family}, mtu {mtu}")
                equal(held(b, 10001), data)


def nobody_waits():
    """UC: a message without a receive, or too long for it, is lost; the next one is received"""
    with pair() as (a, b):
        a.send(SEND, pieces=[a.sge(0, 5000)])
        status(a, OK, "no receive")
        # Allows it to arrive.
        b.silent()
        b.receive(wr_id=1, pieces=[b.sge(0, 2000)])
        a.send(SEND, pieces=[a.sge(0, 2001)])
        status(a, OK, "too long")
        a.send(SEND, pieces=[a.sge(0, 2000)])
        got = status(b, OK, "receive")
        equal((got.wr_id, got.byte_len), (1, 2000))
        equal(b.state(), e.IBV_QPS_RTS)


def refused_memory():
    """UC: a WRITE that the peer refuses changes nothing, and does not affect the next message"""
    with pair() as (a, b):
        fill(a, b"x" * 5000)
        fill(b, b"-" * 5000)
        for remote in ((b.mr.buf, b.mr.rkey ^ 0x55), (b.mr.buf + (1 << 16) - 4999, b.mr.rkey)):
            a.send(WRITE, pieces=[a.sge(0, 5000)], remote=remote)
            status(a, OK, "UC reports no remote error")
        b.receive(pieces=[])
        a.send(WRITE_IMM, pieces=[a.sge(0, 5000)], remote=b.remote(), imm=1)
        status(b, OK, "the next one")
        equal(held(b, 5000), b"x" * 5000)
    with pair(rights=0) as (a, b):
        fill(b, b"-" * 10)
        b.receive(pieces=[b.sge(100, 8)])
        a.send(WRITE, pieces=[a.sge(0, 10)], remote=b.remote())
        a.send(SEND, pieces=[a.sge(0, 8)])
        status(b, OK, "the request behind it")
        equal(held(b, 10), b"-" * 10)


def receive_fails():
    """UC: a receive without valid memory moves its QP to the error state"""
    with pair() as (a, b):
        b.receive(wr_id=1, pieces=[SGE(b.mr.buf, 100, 0xBAD00)])
        b.receive(wr_id=2)
        a.send(SEND, pieces=[a.sge(0, 100)])
        equal(status(b, e.IBV_WC_LOC_PROT_ERR, "receive").wr_id, 1)
        equal(status(b, FLUSHED, "the receive behind it").wr_id, 2)
        equal(b.state(), e.IBV_QPS_ERR)
        status(a, OK, "the sender gets no error")
        equal(a.state(), e.IBV_QPS_RTS)


def send_fails():
    """UC: a failed send moves its QP to SQE: sends are flushed, receives continue, and RTS can be restored"""
    not_for_rxe("goes to the error state")
    for bad in (lambda a: a.send(SEND, 1, [SGE(a.mr.buf, 5000, 0xBAD00)]),
                lambda a: a.send(READ, 1, [a.sge(0, 8)], remote=(a.mr.buf, a.mr.rkey))):
        with pair() as (a, b):
            a.receive(wr_id=5)
            bad(a)
            wrong = a.completion()
            equal(wrong.wr_id, 1)
            true(wrong.status in (e.IBV_WC_LOC_PROT_ERR, e.IBV_WC_LOC_QP_OP_ERR), e_name(wrong.status))
            equal(a.state(), e.IBV_QPS_SQE)
            a.send(SEND, wr_id=2, pieces=[a.sge(0, 8)], flags=0)
            equal(status(a, FLUSHED, "while in SQE").wr_id, 2)
            b.send(SEND, pieces=[b.sge(0, 8)])
            equal(status(a, OK, "receives continue").wr_id, 5)
            modify(a.qp, e.IBV_QPS_RTS, now=e.IBV_QPS_SQE)
            equal(a.state(), e.IBV_QPS_RTS)
            b.receive(wr_id=6)
            a.send(SEND, wr_id=3, pieces=[a.sge(0, 3000)])
            equal(status(a, OK, "after SQE").wr_id, 3)
            b.completions(1)
            equal(status(b, OK, "after SQE").byte_len, 3000)


def windows():
    """UC: windows are bound and invalidated; a WRITE through an invalid one changes nothing"""
    not_for_rxe("checks the bounds of the region only")
    with pair(b={"access": rc.FULL_ACCESS | e.IBV_ACCESS_MW_BIND}) as (a, b):
        fill(a, b"one!two!")
        fill(b, bytes(16), 100)
        for kind, at in ((e.IBV_MW_TYPE_1, 0), (e.IBV_MW_TYPE_2, 4)):
            with MW(b.pd, kind) as window:
                request = SendWR(wr_id=1, opcode=e.IBV_WR_BIND_MW)
                request.set_bind_wr(window, MWBindInfo(b.mr, b.mr.buf + 100 + at, 4, e.IBV_ACCESS_REMOTE_WRITE))
                b.qp.post_send(request)
                equal(status(b, OK, "bind").opcode, e.IBV_WC_BIND_MW)
                key = request.rkey
                a.send(WRITE, pieces=[a.sge(at, 4)], remote=(b.mr.buf + 100 + at, key))
                a.send(WRITE, pieces=[a.sge(at, 4)], remote=(b.mr.buf + 101 + at, key))
                a.completions(2)
                eventually(lambda: held(b, 4, 100 + at) == held(a, 4, at), "written")  # pylint: disable=W0640
                if kind == e.IBV_MW_TYPE_2:
                    request = SendWR(wr_id=2, opcode=e.IBV_WR_LOCAL_INV)
                    request.imm_data = key
                    b.qp.post_send(request)
                    equal(status(b, OK, "invalidation").opcode, e.IBV_WC_LOCAL_INV)
            fill(a, b"----", 50)
            a.send(WRITE, pieces=[a.sge(50, 4)], remote=(b.mr.buf + 100 + at, key))
            b.receive(wr_id=9, pieces=[])
            a.send(SEND, pieces=[])
            a.completions(2)
            equal(status(b, OK, "the message behind it").wr_id, 9)
        equal(held(b, 9, 100), b"one!two!" + bytes(1), "bytes written through the windows")


def local_fails():
    """UC: SEND_WITH_INV, LOCAL_INV of a region and a refused bind move the QP to SQE"""
    not_for_rxe("goes to the error state")
    for opcode, wanted in ((e.IBV_WR_SEND_WITH_INV, e.IBV_WC_LOC_QP_OP_ERR),
                           (e.IBV_WR_LOCAL_INV, e.IBV_WC_LOC_QP_OP_ERR)):
        with pair() as (a, _):
            request = SendWR(wr_id=1, opcode=opcode, num_sge=1, sg=[a.sge(0, 8)])
            request.imm_data = a.mr.rkey
            a.qp.post_send(request)
            equal(status(a, wanted, "the request").wr_id, 1)
            equal(a.state(), e.IBV_QPS_SQE)
    with pair() as (_, b), MW(b.pd, e.IBV_MW_TYPE_2) as window:
        request = SendWR(wr_id=1, opcode=e.IBV_WR_BIND_MW)
        request.set_bind_wr(window, MWBindInfo(b.mr, b.mr.buf, 4, e.IBV_ACCESS_REMOTE_WRITE))
        b.qp.post_send(request)
        status(b, e.IBV_WC_MW_BIND_ERR, "a region without IBV_ACCESS_MW_BIND")
        equal(b.state(), e.IBV_QPS_SQE)


def datagram_fails():
    """UD: a failed send moves its QP to SQE, and RTS can be restored"""
    not_for_rxe("goes to the error state")
    a, b = UdEnd(), UdEnd()
    with a.handle_for(os.environ["ADDR"], gid_index(4)) as handle:
        a.receive(1)
        b.receive(2)
        with b.handle_for(os.environ["ADDR"], gid_index(4)) as back:
            for wr_id, key in ((1, 0xBAD00), (2, a.mr.lkey)):
                request = SendWR(wr_id=wr_id, num_sge=1, sg=[SGE(a.mr.buf, 8, key)])
                request.set_wr_ud(handle, b.qp.qp_num, QKEY)
                a.qp.post_send(request)
            equal(a.completion(lambda wc: wc.wr_id == 1).status, e.IBV_WC_LOC_PROT_ERR)
            equal(a.completion(lambda wc: wc.wr_id == 2).status, FLUSHED)
            equal(a.qp.query(e.IBV_QP_STATE)[0].qp_state, e.IBV_QPS_SQE)
            equal(b.send(back, qpn=a.qp.qp_num), OK)
            equal(a.completion(lambda wc: wc.wr_id == 0).status, OK, "receives continue")
            modify(a.qp, e.IBV_QPS_RTS, now=e.IBV_QPS_SQE)
            equal(a.send(handle, qpn=b.qp.qp_num), OK, "after SQE")
            equal(b.completion(lambda wc: wc.wr_id == 0).status, OK)
    a.close()
    b.close()


def drained():
    """UC, SQD: no request begins, SQ_DRAINED is raised, and RTS continues"""
    not_for_rxe("does not hold requests back")
    forget_events()
    with pair() as (a, b):
        for number in (1, 2):
            b.receive(wr_id=number)
        modify(a.qp, e.IBV_QPS_SQD, notify=True)
        equal(async_event(), e.IBV_EVENT_SQ_DRAINED)
        a.send(SEND, pieces=[a.sge(0, 8)])
        a.silent()
        b.send(SEND, wr_id=7, pieces=[b.sge(0, 8)], flags=0)
        modify(a.qp, e.IBV_QPS_RTS)
        status(a, OK, "after SQD")
        equal(status(b, OK, "after SQD").wr_id, 1)


def begun_again():
    """UC: a QP works again after RESET, and ERR flushes its posted requests"""
    with pair() as (a, b):
        b.receive(wr_id=1)
        modify(b.qp, e.IBV_QPS_ERR)
        equal(status(b, FLUSHED, "receive").wr_id, 1)
        b.send(SEND, wr_id=2, pieces=[b.sge(0, 8)], flags=0)
        equal(status(b, FLUSHED, "send").wr_id, 2)
        for end in (a, b):
            modify(end.qp, e.IBV_QPS_RESET)
        a.to_rts(b, sq_psn=77, rq_psn=88)
        b.to_rts(a, sq_psn=88, rq_psn=77)
        b.receive(wr_id=3)
        a.send(SEND, pieces=[a.sge(0, 3000)])
        equal(status(b, OK, "receive").wr_id, 3)


def told():
    """UC: query_qp returns the values that modify_qp set"""
    with pair(sq_psn=0x123, rq_psn=0x456, path_mtu=e.IBV_MTU_2048) as (a, b):
        attr, init = a.qp.query(0xFFFFF)
        equal((attr.qp_state, attr.sq_psn, attr.rq_psn), (e.IBV_QPS_RTS, 0x123, 0x456))
        equal((attr.path_mtu, attr.dest_qp_num), (e.IBV_MTU_2048, b.qp.qp_num))
        if not RXE:
            equal(init.qp_type, e.IBV_QPT_UC)


TESTS = connected.tests(pair) + [
    writes, reported, every_path, nobody_waits, refused_memory, receive_fails, send_fails, windows, local_fails,
    datagram_fails, drained, begun_again, told,
]

if __name__ == "__main__":
    run(TESTS)
