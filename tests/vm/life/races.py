# SPDX-License-Identifier: GPL-2.0
"""Objects are destroyed while others use them: several processes at once, at random, for a limited time.

The status of a single request depends on timing and is not checked. Every process must end, nothing must hang, and an
undisturbed pair of QPs must work afterwards.
"""

import contextlib
import ctypes
import math
import mmap
import os
import random
import signal
import sys
import time

from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR

import enums as e
from rc import DEVICE, FULL_ACCESS, SLOWNESS, End, async_event, context, forget_events, own_context, pair
from tap import equal, run, true

SECONDS = float(os.environ.get("RACE_SECONDS", "6")) * SLOWNESS
SEED = int(os.environ.get("SEED", "4791"))
# Actions that a process still begins once the device is gone: all fail, so more would only take a processor.
FAREWELL = 50
QUICK = {"timeout": 8, "retry_cnt": 1, "rnr_retry": 1, "min_rnr_timer": 1}


def post_some(chance, a, b):
    """Posts requests in both directions, and does not wait for all of them."""
    for _ in range(chance.randrange(1, 12)):
        end, peer = chance.choice(((a, b), (b, a)))
        size = chance.choice((0, 8, 1000, 5000, 60000))
        opcode = chance.choice((e.IBV_WR_SEND, e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ))
        if chance.random() < 0.5:
            peer.receive(pieces=[peer.sge()])
        end.send(opcode, pieces=[end.sge(0, size)], remote=peer.remote())


def region_goes(chance):
    """Deregisters a region while requests read and write it."""
    with pair(a={"size": 1 << 16}, b={"size": 1 << 16}, **QUICK) as (a, b):
        post_some(chance, a, b)
        chance.choice((a, b)).mr.close()
        for end in (a, b):
            end.cq.poll(16)


def pair_goes(chance):
    """Destroys, resets or fails QPs with requests in flight."""
    with pair(**QUICK) as (a, b):
        post_some(chance, a, b)
        victim = chance.choice((a, b))
        state = chance.choice((e.IBV_QPS_ERR, e.IBV_QPS_RESET, e.IBV_QPS_SQD, None))
        if state is not None:
            victim.qp.modify(QPAttr(qp_state=state), e.IBV_QP_STATE)
            with contextlib.suppress(PyverbsError):
                post_some(chance, a, b)


def queue_goes(chance):
    """Arms a CQ of many QPs, overruns it, and destroys it."""
    end = End(events=True, cqe=8)
    others = []
    for _ in range(chance.randrange(1, 5)):
        cap = QPCap(max_send_wr=16, max_recv_wr=16, max_send_sge=1, max_recv_sge=1)
        others.append(QP(end.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=end.cq, rcq=end.cq, cap=cap)))
    end.cq.req_notify(chance.random() < 0.5)
    end.to_rts(end, **QUICK)
    for other in others:
        other.to_rts(end.attr(other.qp_num, **QUICK))
    for _ in range(20):
        end.send(e.IBV_WR_RDMA_WRITE, pieces=[end.sge(0, 8)], remote=end.remote())
    for other in others:
        other.close()
    end.close()


def resized(chance, srq, cq):
    """Resizes the SRQ, the CQ, both or none. Returns whether that succeeded: librxe has no ring left if the device
    went away before it could map the new one, and any use of it would end with SIGSEGV.
    """
    try:
        if chance.random() < 0.2:
            srq.modify(SrqAttr(max_wr=chance.choice((1, 9, 500))), e.IBV_SRQ_MAX_WR)
        if chance.random() < 0.2:
            cq.resize(chance.choice((1, 20, 5000)))
    except PyverbsError:
        return False
    return True


def shared_goes(chance):
    """QPs that share an SRQ fail and are destroyed while others receive, and the queues are resized."""
    pd = PD(context())
    srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=chance.choice((4, 64)), max_sge=2)))
    with pair(b={"srq": srq, "pd": pd, "cqe": 8}, **QUICK) as (a, b), pair(b={"srq": srq, "pd": pd}, **QUICK) as (c, d):
        for _ in range(chance.randrange(1, 20)):
            with contextlib.suppress(PyverbsError):
                srq.post_recv(RecvWR(wr_id=1, num_sge=1, sg=[d.sge()]))
                end = chance.choice((a, c))
                end.send(e.IBV_WR_SEND, pieces=[end.sge(0, chance.choice((0, 8, 5000, 60000)))])
                if chance.random() < 0.2:
                    srq.modify(SrqAttr(srq_limit=chance.randrange(9)), e.IBV_SRQ_LIMIT)
                if chance.random() < 0.1:
                    state = chance.choice((e.IBV_QPS_ERR, e.IBV_QPS_RESET))
                    chance.choice((a, b, d)).qp.modify(QPAttr(qp_state=state), e.IBV_QP_STATE)
            if not resized(chance, srq, b.cq):
                break
    srq.close()
    pd.close()


def many_regions(chance):
    """Registers and deregisters regions while requests are in flight."""
    with pair(**QUICK) as (a, b):
        for _ in range(10):
            region = MR(b.pd, 4096, FULL_ACCESS)
            a.send(e.IBV_WR_RDMA_WRITE, pieces=[a.sge(0, 4096)], remote=(region.buf, region.rkey))
            if chance.random() < 0.5:
                a.cq.poll(4)
            region.close()


ACTIONS = (region_goes, pair_goes, queue_goes, shared_goes, many_regions)


def is_there():
    """Returns whether the device still exists."""
    return os.path.exists(f"/sys/class/infiniband/{DEVICE}")


def play(number, stop, done):
    """Body of one process; `done` counts the actions that completed."""
    chance, opened, left = random.Random(SEED + number), False, FAREWELL
    while time.monotonic() < stop and left:
        at = chance.randrange(len(ACTIONS))
        try:
            if not opened:
                own_context()
                opened = True
            ACTIONS[at](chance)
            done[number * len(ACTIONS) + at] += 1
        except PyverbsError:
            # A full queue, a QP that has already failed, or a removed device.
            left -= not is_there()


def races():
    """Regions, queues and QPs are destroyed while four processes use theirs"""
    stop = time.monotonic() + SECONDS
    children, done = [], (ctypes.c_uint32 * (4 * len(ACTIONS))).from_buffer(mmap.mmap(-1, mmap.PAGESIZE))
    for number in range(4):
        child = os.fork()
        if not child:
            try:
                play(number, stop if number < 3 else math.inf, done)
                if number == 3:
                    signal.pause()
                os._exit(0)
            except BaseException as error:  # pylint: disable=broad-except
                print(f"# process {number}: {error!r}", flush=True)
                os._exit(1)
        children.append(child)
    # One process is killed in the middle of any action.
    while time.monotonic() < stop - SECONDS / 2 and is_there():
        time.sleep(0.1)
    os.kill(children[3], 9)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    ended = {action.__name__: sum(done[at::len(ACTIONS)]) for at, action in enumerate(ACTIONS)}
    print(f"# {ended}", flush=True)
    equal(codes, [0, 0, 0, -9], "exit codes")
    # Removal of the device ends the processes early.
    true(min(ended.values()) > 0 or not is_there(), f"some never ended: {ended}")


def undisturbed():
    """An undisturbed pair works after the races"""
    own_context()
    with pair() as (a, b):
        b.receive()
        a.send(e.IBV_WR_SEND)
        equal((a.completion().status, b.completion().status), (0, 0))


def removed():
    """Removal of a device raises an event in its contexts, and destroys their objects"""
    with pair() as (a, b):
        forget_events()
        equal(os.spawnlp(os.P_WAIT, "rdma", "rdma", "link", "del", DEVICE), 0, "rdma link del")
        # The core destroys the QPs first, and reports the event last.
        equal(async_event(), e.IBV_EVENT_DEVICE_FATAL, "asynchronous event")
        for end, peer in ((a, b), (b, a)):
            with contextlib.suppress(PyverbsError):
                end.to_rts(peer)
                raise AssertionError("a queue pair of a removed device")


# This test needs a separate device.
TESTS = [races, undisturbed] + [test for test in (removed,) if test.__name__ in sys.argv]

if __name__ == "__main__":
    print(f"# seed {SEED}, {SECONDS} s")
    run(TESTS)
