# SPDX-License-Identifier: GPL-2.0
"""Unreliable connections as an application sees them, and what happens when a send of an unreliable service
fails: its send queue goes to SQE, and comes back.

Two QPs of one device talk to each other.
"""

import os

import pyverbs.enums as e
from pyverbs.qp import QPAttr
from pyverbs.wr import SendWR, SGE

import rc
from rc import async_event, eventually, forget_events, gid_index
from tap import equal, run, true
from ud import QKEY, UdEnd
from work import (FLUSHED, INLINE, LENGTHS, OK, READ, RXE, SEND, SEND_IMM, SIGNALED, SOLICITED, WRITE, WRITE_IMM,
                  e_name, fill, held, not_for_rxe, pattern, piece, status)


def pair(a=None, b=None, **settings):
    """As rc.pair, of UC."""
    ends = ({**(end or {}), "service": e.IBV_QPT_UC} for end in (a, b))
    return rc.pair(*ends, **settings)


def modify(qp, state, **settings):
    """Takes a queue pair to a state, and nothing else."""
    attr, mask = QPAttr(qp_state=state), e.IBV_QP_STATE
    if settings.pop("notify", False):
        attr.en_sqd_async_notify = 1
        mask |= e.IBV_QP_EN_SQD_ASYNC_NOTIFY
    if "now" in settings:
        attr.cur_qp_state = settings.pop("now")
        mask |= e.IBV_QP_CUR_STATE
    qp.modify(attr, mask)


def sends():
    """SEND delivers every byte, at every length"""
    with pair(a={"size": 1 << 17}, b={"size": 1 << 17}) as (a, b):
        for seed, length in enumerate(LENGTHS):
            data = pattern(length, seed)
            fill(a, data)
            b.receive(wr_id=100 + seed, pieces=piece(b, length))
            a.send(SEND, wr_id=seed, pieces=piece(a, length))
            sent = status(a, OK, f"send of {length}")
            equal((sent.wr_id, sent.opcode), (seed, e.IBV_WC_SEND))
            got = status(b, OK, f"receive of {length}")
            equal((got.wr_id, got.byte_len, got.opcode), (100 + seed, length, e.IBV_WC_RECV))
            equal(got.qp_num, b.qp.qp_num, "qp_num")
            equal(held(b, length), data, f"{length} bytes")


def writes():
    """RDMA WRITE places every byte, at every length, and takes no receive"""
    with pair(a={"size": 1 << 17}, b={"size": 1 << 17}) as (a, b):
        b.receive()
        for seed, length in enumerate(LENGTHS):
            data = pattern(length, seed)
            fill(a, data, 5)
            a.send(WRITE, pieces=piece(a, length, 5), remote=b.remote(11))
            equal(status(a, OK, f"write of {length}").opcode, e.IBV_WC_RDMA_WRITE)
            eventually(lambda: held(b, length, 11) == data, f"{length} bytes are there")  # pylint: disable=W0640
        b.silent()


def immediate():
    """Immediate data arrives with SEND and with WRITE, behind the data"""
    with pair() as (a, b):
        for seed, length in enumerate((0, 7, 3000)):
            fill(a, pattern(length, seed))
            b.receive(pieces=piece(b, 4096))
            a.send(SEND_IMM, pieces=piece(a, length), imm=0x01020304)
            got = status(b, OK, "receive")
            true(got.wc_flags & e.IBV_WC_WITH_IMM, "IBV_WC_WITH_IMM")
            equal(got.imm_data, 0x01020304, "immediate data of a send")
            status(a, OK, "send")
            b.receive(wr_id=9, pieces=[])
            a.send(WRITE_IMM, pieces=piece(a, length), remote=b.remote(100), imm=0xFFEEDDCC)
            got = status(b, OK, "receive")
            equal((got.wr_id, got.opcode, got.byte_len), (9, e.IBV_WC_RECV_RDMA_WITH_IMM, length))
            equal(got.imm_data, 0xFFEEDDCC, "immediate data of a write")
            status(a, OK, "write")
            equal(held(b, length, 100), pattern(length, seed))


def pieces_and_inline():
    """Pieces are gathered and scattered; inline data is taken when it is posted"""
    with pair(a={"inline": 64}) as (a, b):
        data = pattern(3000, 1)
        fill(a, data[:1], 10)
        fill(a, data[1:1025], 1001)
        fill(a, data[1025:], 5000)
        b.receive(pieces=[b.sge(3, 999), b.sge(8000, 1), b.sge(2000, 4000)])
        a.send(SEND, pieces=[a.sge(10, 1), a.sge(1001, 1024), a.sge(5000, 1975)])
        equal(status(b, OK, "receive").byte_len, 3000)
        status(a, OK, "send")
        equal(held(b, 999, 3) + held(b, 1, 8000) + held(b, 2000, 2000), data)
        fill(a, b"inline data!")
        b.receive(pieces=[b.sge(0, 64)])
        a.send(SEND, pieces=[SGE(a.mr.buf, 12, 0xDEAD)], flags=SIGNALED | INLINE)
        fill(a, b"overwritten!")
        status(b, OK, "receive")
        equal(held(b, 12), b"inline data!")


def solicited():
    """A solicited SEND wakes who waits for such, another does not"""
    with pair(b={"events": True}) as (a, b):
        b.receive(1, [b.sge(0, 8)])
        b.receive(2, [b.sge(0, 8)])
        b.cq.req_notify(True)
        a.send(SEND, pieces=[a.sge(0, 8)])
        status(b, OK, "receive")
        true(not b.event(0.2), "no event")
        a.send(SEND, pieces=[a.sge(0, 8)], flags=SIGNALED | SOLICITED)
        true(b.event(), "an event")


def reported():
    """Only what asked for it completes, in order, lap after lap"""
    with pair(a={"wr": 16}, b={"wr": 16}) as (a, b):
        for lap in range(20):
            for number in range(10):
                a.send(WRITE, wr_id=number, pieces=[a.sge(0, 3000)], remote=b.remote(),
                       flags=SIGNALED if number in (4, 9) else 0)
            equal([wc.wr_id for wc in a.completions(2)], [4, 9], f"lap {lap}")
        a.silent()


def every_path():
    """IPv4 and IPv6 carry it at every path MTU, and sequence numbers wrap within a message"""
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
    """A message without a receive, or too long for it, is lost; the next one is not"""
    with pair() as (a, b):
        a.send(SEND, pieces=[a.sge(0, 5000)])
        status(a, OK, "nobody waits for it")
        # Time to arrive.
        b.silent()
        b.receive(wr_id=1, pieces=[b.sge(0, 2000)])
        a.send(SEND, pieces=[a.sge(0, 2001)])
        status(a, OK, "too long")
        a.send(SEND, pieces=[a.sge(0, 2000)])
        got = status(b, OK, "receive")
        equal((got.wr_id, got.byte_len), (1, 2000))
        equal(b.state(), e.IBV_QPS_RTS)


def refused_memory():
    """A WRITE to what it may not write changes nothing, and costs only itself"""
    with pair() as (a, b):
        fill(a, b"x" * 5000)
        fill(b, b"-" * 5000)
        for remote in ((b.mr.buf, b.mr.rkey ^ 0x55), (b.mr.buf + (1 << 16) - 4999, b.mr.rkey)):
            a.send(WRITE, pieces=[a.sge(0, 5000)], remote=remote)
            status(a, OK, "nobody tells")
        b.receive(pieces=[])
        a.send(WRITE_IMM, pieces=[a.sge(0, 5000)], remote=b.remote(), imm=1)
        status(b, OK, "the next one")
        equal(held(b, 5000), b"x" * 5000)
    with pair(rights=0) as (a, b):
        fill(b, b"-" * 10)
        b.receive(pieces=[b.sge(100, 8)])
        a.send(WRITE, pieces=[a.sge(0, 10)], remote=b.remote())
        a.send(SEND, pieces=[a.sge(0, 8)])
        status(b, OK, "the one behind it")
        equal(held(b, 10), b"-" * 10)


def receive_fails():
    """A receive whose memory is not there takes its QP to the error state"""
    with pair() as (a, b):
        b.receive(wr_id=1, pieces=[SGE(b.mr.buf, 100, 0xBAD00)])
        b.receive(wr_id=2)
        a.send(SEND, pieces=[a.sge(0, 100)])
        equal(status(b, e.IBV_WC_LOC_PROT_ERR, "receive").wr_id, 1)
        equal(status(b, FLUSHED, "the one behind it").wr_id, 2)
        equal(b.state(), e.IBV_QPS_ERR)
        status(a, OK, "the sender knows nothing")
        equal(a.state(), e.IBV_QPS_RTS)


def send_fails():
    """UC: a send that fails takes its QP to SQE: sends are flushed, receiving goes on, RTS comes back"""
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
            equal(status(a, OK, "receiving goes on").wr_id, 5)
            modify(a.qp, e.IBV_QPS_RTS, now=e.IBV_QPS_SQE)
            equal(a.state(), e.IBV_QPS_RTS)
            b.receive(wr_id=6)
            a.send(SEND, wr_id=3, pieces=[a.sge(0, 3000)])
            equal(status(a, OK, "after SQE").wr_id, 3)
            b.completions(1)
            equal(status(b, OK, "after SQE").byte_len, 3000)


def datagram_fails():
    """UD: a send that fails takes its QP to SQE, in the same way"""
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
            equal(a.completion(lambda wc: wc.wr_id == 0).status, OK, "receiving goes on")
            modify(a.qp, e.IBV_QPS_RTS, now=e.IBV_QPS_SQE)
            equal(a.send(handle, qpn=b.qp.qp_num), OK, "after SQE")
            equal(b.completion(lambda wc: wc.wr_id == 0).status, OK)
    a.close()
    b.close()


def drained():
    """SQD: nothing is begun, the consumer hears when what was begun is done, and RTS goes on"""
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
    """RESET forgets; the same queue pair works again, and ERR flushes what is posted"""
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
    """What was set is what query_qp tells"""
    with pair(sq_psn=0x123, rq_psn=0x456, path_mtu=e.IBV_MTU_2048) as (a, b):
        attr, init = a.qp.query(0xFFFFF)
        equal((attr.qp_state, attr.sq_psn, attr.rq_psn), (e.IBV_QPS_RTS, 0x123, 0x456))
        equal((attr.path_mtu, attr.dest_qp_num), (e.IBV_MTU_2048, b.qp.qp_num))
        if not RXE:
            equal(init.qp_type, e.IBV_QPT_UC)


TESTS = [sends, writes, immediate, pieces_and_inline, solicited, reported, every_path, nobody_waits, refused_memory,
         receive_fails, send_fails, datagram_fails, drained, begun_again, told]

if __name__ == "__main__":
    run(TESTS)
