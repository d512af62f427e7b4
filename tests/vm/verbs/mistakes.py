# SPDX-License-Identifier: GPL-2.0
"""RC transport errors: the completion status of each mistake, at the requester and at the responder, and its time.

Two QPs of one device; one of them, or its consumer, makes the mistake.
"""

import ctypes
import time

from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QPAttr
from pyverbs.wr import SGE

import enums as e
from counters import counter
from rc import DEVICE, FULL_ACCESS, QUICK_TIMEOUT, async_event, eventually, forget_events, pair
from tap import equal, not_for_rxe, run, true
from work import FLUSHED, OK, READ, RXE, SEND, WRITE, e_name, fill, held, status


def both_failed(a, b, event=None):
    """Checks that both QPs are in the error state after a remote error, and that the responder's consumer gets the
    event.
    """
    eventually(lambda: a.state() == e.IBV_QPS_ERR, "the requester is in error")
    eventually(lambda: b.state() == e.IBV_QPS_ERR, "the responder is in error")
    if event is not None:
        equal(async_event(), event, "asynchronous event")


def counted(name, value):
    """Checks that a counter reaches a value and stays there. It may be updated after the completion is visible."""
    eventually(lambda: counter(name, DEVICE) >= value, name)
    equal(counter(name, DEVICE), value, name)


def remote_access(opcode, remote, **settings):
    """Runs one operation that the peer must refuse."""
    forget_events()
    with pair(**settings) as (a, b):
        fill(a, b"a" * 64)
        fill(b, before := b"b" * b.mr.length)
        a.send(opcode, wr_id=77, pieces=[a.sge(0, 64)], remote=remote(b))
        a.send(WRITE, wr_id=78, pieces=[a.sge(0, 8)], remote=b.remote())
        equal(status(a, e.IBV_WC_REM_ACCESS_ERR, "the refused request").wr_id, 77)
        equal(status(a, FLUSHED, "the request behind it").wr_id, 78)
        both_failed(a, b, None if RXE else e.IBV_EVENT_QP_ACCESS_ERR)
        equal((held(a, 64), held(b, b.mr.length)), (b"a" * 64, before), "bytes in memory")


def wrong_rkey():
    """An rkey that does not exist completes with a remote access error"""
    remote_access(WRITE, lambda b: (b.mr.buf, b.mr.rkey ^ 0x55))
    remote_access(READ, lambda b: (b.mr.buf, b.mr.rkey ^ 0x55))


def out_of_bounds():
    """An access one byte outside the region, at either end, completes with a remote access error"""
    size = 1 << 16
    for opcode in (WRITE, READ):
        remote_access(opcode, lambda b: (b.mr.buf + size - 63, b.mr.rkey))
        remote_access(opcode, lambda b: (b.mr.buf - 1, b.mr.rkey))
        remote_access(opcode, lambda b: ((1 << 64) - 32, b.mr.rkey))


def no_rights():
    """An access without the region's right is a remote access error, without the QP's an invalid request"""
    read_only = {"access": e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ}
    write_only = {"access": e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE}
    remote_access(WRITE, lambda b: b.remote(), b=read_only)
    remote_access(READ, lambda b: b.remote(), b=write_only)
    with pair(rights=e.IBV_ACCESS_LOCAL_WRITE) as (a, b):
        a.send(WRITE, pieces=[a.sge(0, 8)], remote=b.remote())
        # IBA 9.7.5.1, "responder error behavior": an RDMA request to a QP that is not set up for it is invalid.
        status(a, e.IBV_WC_REM_INV_REQ_ERR, "write to a queue pair without the right")


def foreign_domain():
    """A key of another protection domain completes with a remote access error"""
    with pair() as (a, b), PD(b.ctx) as other:
        region = MR(other, 4096, FULL_ACCESS)
        region.write("not yours", 9)
        a.send(WRITE, pieces=[a.sge(0, 8)], remote=(region.buf, region.rkey))
        status(a, e.IBV_WC_REM_ACCESS_ERR, "write")
        equal(ctypes.string_at(region.buf, 9), b"not yours", "bytes in memory")
        region.close()


def dead_key():
    """The key of a deregistered region completes with a remote access error"""
    with pair() as (a, b):
        region = MR(b.pd, 4096, FULL_ACCESS)
        remote = (region.buf, region.rkey)
        a.send(WRITE, pieces=[a.sge(0, 8)], remote=remote)
        status(a, OK, "before deregistration")
        region.close()
        a.send(WRITE, pieces=[a.sge(0, 8)], remote=remote)
        status(a, e.IBV_WC_REM_ACCESS_ERR, "after deregistration")


def wrong_lkey():
    """A wrong lkey completes with a local protection error, after the earlier requests complete"""
    not_for_rxe("flushes earlier requests as well")
    for opcode in (SEND, WRITE, READ):
        with pair() as (a, b):
            b.receive()
            a.send(WRITE, wr_id=1, pieces=[a.sge(0, 8)], remote=b.remote())
            a.send(opcode, wr_id=2, pieces=[SGE(a.mr.buf, 64, a.mr.lkey ^ 0x55)], remote=b.remote())
            a.send(WRITE, wr_id=3, pieces=[a.sge(0, 8)], remote=b.remote())
            equal(status(a, OK, "the request before it").wr_id, 1)
            equal(status(a, e.IBV_WC_LOC_PROT_ERR, f"opcode {opcode}").wr_id, 2)
            equal(status(a, FLUSHED, "the request behind it").wr_id, 3)


def local_bounds():
    """An SGE that exceeds its region completes with a local protection error"""
    not_for_rxe("the failing request is flushed")
    with pair() as (a, b):
        a.send(WRITE, pieces=[SGE(a.mr.buf + a.mr.length - 4, 8, a.mr.lkey)], remote=b.remote())
        status(a, e.IBV_WC_LOC_PROT_ERR, "write")


def read_into_constant():
    """A READ into memory without local write access completes with a local protection error"""
    with pair(a={"access": e.IBV_ACCESS_REMOTE_READ}) as (a, b):
        a.send(READ, pieces=[a.sge(0, 8)], remote=b.remote())
        status(a, e.IBV_WC_LOC_PROT_ERR, "read")


def short_receive():
    """A message longer than the receive is a length error there, and an invalid request at the sender"""
    not_for_rxe("LOC_QP_OP_ERR")
    forget_events()
    for length in (65, 5000):
        with pair() as (a, b):
            b.receive(wr_id=5, pieces=[b.sge(0, 64)])
            a.send(SEND, pieces=[a.sge(0, length)])
            equal(status(b, e.IBV_WC_LOC_LEN_ERR, "receive").wr_id, 5)
            status(a, e.IBV_WC_REM_INV_REQ_ERR, "send")
            both_failed(a, b)


def bad_receive():
    """A receive with a wrong key completes with a protection error, and the send with a remote operation error"""
    not_for_rxe("LOC_QP_OP_ERR")
    with pair() as (a, b):
        b.receive(wr_id=5, pieces=[SGE(b.mr.buf, 64, b.mr.lkey ^ 0x55)])
        a.send(SEND, pieces=[a.sge(0, 8)])
        equal(status(b, e.IBV_WC_LOC_PROT_ERR, "receive").wr_id, 5)
        status(a, e.IBV_WC_REM_OP_ERR, "send")


def receiver_becomes_ready():
    """A send waits for a receive that is posted late"""
    with pair(min_rnr_timer=1) as (a, b):
        fill(a, b"late")
        a.send(SEND, pieces=[a.sge(0, 4)])
        a.silent(0.05)
        b.receive(pieces=[b.sge(0, 4)])
        status(b, OK, "receive")
        status(a, OK, "send")
        equal(held(b, 4), b"late")


def receiver_never_ready():
    """A send to a peer without a receive completes with RNR retry exceeded after the configured number of retries"""
    # Timer code 14 is 1.28 ms, IBA table 45; 3 retries take at least 3 of them.
    with pair(min_rnr_timer=14, rnr_retry=3) as (a, _b):
        start, given_up = time.monotonic(), counter("retry_rnr_exceeded_err", DEVICE)
        a.send(SEND, pieces=[a.sge(0, 4)])
        status(a, e.IBV_WC_RNR_RETRY_EXC_ERR, "send")
        true(time.monotonic() - start > 3 * 0.00128, "gave up too early")
        counted("retry_rnr_exceeded_err", given_up + 1)


def peer_gone():
    """A request to a silent peer completes with retry exceeded, within the configured time"""
    for retry in (1, 3):
        with pair(timeout=QUICK_TIMEOUT, retry_cnt=retry) as (a, b):
            b.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
            start, given_up = time.monotonic(), counter("retry_exceeded_err", DEVICE)
            a.send(WRITE, wr_id=1, pieces=[a.sge(0, 4)], remote=b.remote())
            a.send(WRITE, wr_id=2, pieces=[a.sge(0, 4)], remote=b.remote())
            equal(status(a, e.IBV_WC_RETRY_EXC_ERR, "first").wr_id, 1)
            took = time.monotonic() - start
            equal(status(a, FLUSHED, "second").wr_id, 2)
            counted("retry_exceeded_err", given_up + 1)
            unit = 4.096e-6 * 2**QUICK_TIMEOUT
            # IBA C9-140: a timer may run up to four times the configured time; two seconds more for a slow machine.
            true((retry + 1) * unit <= took <= 4 * (retry + 1) * unit + 2, f"{retry} retries took {took:.3f} s")


def waits(code, retries):
    """Returns the minimum and maximum sum of the ACK timeouts for a silent peer with these settings. The timeout
    doubles at most twice (rust/roce/rc/retry.rs); IBA C9-140 allows 4 T for each.
    """
    unit = 4.096e-6 * 2**code
    return unit * sum(2 ** min(number, 2) for number in range(retries + 1)), unit * 4 * (retries + 1)


def waits_grow():
    """The ACK timeouts for a silent peer are exactly T, then 2 T, then 4 T, and never longer"""
    not_for_rxe("waits as long each time")
    code, retries = 16, 3
    # 11 T, 2.95 s, so late timers of a busy machine matter little. A stall of a machine for the margin of 1.3 s is
    # rarely repeated.
    least, most = waits(code, retries)
    for _ in range(3):
        with pair(timeout=code, retry_cnt=retries) as (a, b):
            b.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
            timeouts, start = counter("ack_timeouts", DEVICE), time.monotonic()
            a.send(WRITE, pieces=[a.sge(0, 4)], remote=b.remote())
            status(a, e.IBV_WC_RETRY_EXC_ERR, "write", 60)
            took = time.monotonic() - start
            counted("ack_timeouts", timeouts + retries + 1)
        true(took >= least, f"gave up after {took:.3f} s, wanted {least:.3f} s")
        if took <= most:
            return
    raise AssertionError(f"{retries} retries took {took:.3f} s, at most {most:.3f} s, three times")


def seven_retries():
    """A retry_cnt of 7 means seven retries, not infinitely many"""
    not_for_rxe("7 is unlimited")
    with pair(timeout=QUICK_TIMEOUT, retry_cnt=7) as (a, b):
        b.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        a.send(WRITE, pieces=[a.sge(0, 4)], remote=b.remote())
        status(a, e.IBV_WC_RETRY_EXC_ERR, "write")


def flush():
    """The error state flushes all posted requests, in order"""
    with pair() as (a, b):
        for number in range(10):
            a.receive(wr_id=number)
        # The peer has no receive, so these wait.
        for number in range(10):
            a.send(SEND, wr_id=100 + number, pieces=[a.sge(0, 8)], flags=0)
        a.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        found = a.completions(20)
        true(all(wc.status == FLUSHED for wc in found), [e_name(wc.status) for wc in found])
        equal([wc.wr_id for wc in found if wc.wr_id < 100], list(range(10)))
        equal([wc.wr_id for wc in found if wc.wr_id >= 100], list(range(100, 110)))
        # Requests posted later are flushed too.
        a.send(SEND, wr_id=200, pieces=[a.sge(0, 8)])
        equal(status(a, FLUSHED, "posted in the error state").wr_id, 200)


def flush_receives():
    """A receive posted to a failed QP is flushed without a doorbell"""
    not_for_rxe("flushes only after another event")
    with pair() as (a, _b):
        a.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        for number in range(3):
            a.silent(0.3)
            a.receive(wr_id=number)
            equal(status(a, FLUSHED, "posted in the error state").wr_id, number)


def reuse_after_error():
    """A QP that failed can be reset and used again"""
    with pair() as (a, b):
        for _ in range(3):
            a.send(WRITE, pieces=[a.sge(0, 8)], remote=(0, 0xBAD))
            status(a, e.IBV_WC_REM_ACCESS_ERR, "write")
            for end, peer in ((a, b), (b, a)):
                end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
                end.to_rts(peer)
            a.send(WRITE, pieces=[a.sge(0, 8)], remote=b.remote())
            status(a, OK, "after the reset")
    forget_events()


def no_read_depth():
    """With max_rd_atomic 0 a READ fails at once; with max_dest_rd_atomic 0 the peer refuses it"""
    not_for_rxe("waits forever")
    with pair(max_rd_atomic=0) as (a, b):
        a.send(WRITE, wr_id=1, pieces=[a.sge(0, 8)], remote=b.remote())
        a.send(READ, wr_id=2, pieces=[a.sge(0, 8)], remote=b.remote())
        a.send(WRITE, wr_id=3, pieces=[a.sge(0, 8)], remote=b.remote())
        status(a, OK, "the write before it")
        equal(status(a, e.IBV_WC_LOC_QP_OP_ERR, "read").wr_id, 2)
        status(a, FLUSHED, "the write behind it")
        equal(b.state(), e.IBV_QPS_RTS, "state of the peer, which received no READ")
    with pair(max_dest_rd_atomic=0) as (a, b):
        a.send(READ, pieces=[a.sge(0, 8)], remote=b.remote())
        status(a, e.IBV_WC_REM_INV_REQ_ERR, "read")
    forget_events()


def overrun():
    """A CQ overrun raises an asynchronous event"""
    forget_events()
    with pair(a={"cqe": 4, "wr": 64}) as (a, b):
        for _ in range(a.cq.cqe + 8):
            a.send(WRITE, pieces=[a.sge(0, 8)], remote=b.remote())
        equal(async_event(), e.IBV_EVENT_CQ_ERR, "asynchronous event")
    forget_events()


TESTS = [
    wrong_rkey, out_of_bounds, no_rights, foreign_domain, dead_key, wrong_lkey, local_bounds,
    read_into_constant, short_receive, bad_receive, receiver_becomes_ready, receiver_never_ready,
    peer_gone, waits_grow, seven_retries, flush, flush_receives, reuse_after_error, no_read_depth,
    overrun,
]

if __name__ == "__main__":
    run(TESTS)
