# SPDX-License-Identifier: GPL-2.0
"""Allocation failures: each verb is called repeatedly, and each time a later allocation of it fails.

A call may fail, or do without the memory. It must not be half done: the same call works right after, destroy never
fails, and the checkers of the debug kernel find neither a leak nor a use after free. With COPIES=1, copies from and
to user memory fail as well; the calling script decides whether allocations fail.
"""

import ctypes
import errno
import mmap
import os

from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

import enums as e
import uverbs
from hostile_hand import device_path
from rc import DEVICE, FULL_ACCESS, PORT, End, context, gid_index, pair
from tap import equal, run, true
from verbs import resources

COPIES = os.environ.get("COPIES") == "1"
# Errors with which a call may fail.
LACKING = (errno.ENOMEM, errno.EFAULT) if COPIES else (errno.ENOMEM,)
# Minimum number of failures in a call without allocations: it copies its arguments and its response.
COPIED = 2 if COPIES else 0
# More than any verb needs; a loop that reaches it fails.
MOST = 400


class Injection:
    """`with Injection(n)`: the n-th allocation or copy of this thread from now on fails. `happened` is whether it
    did; `left` counts the allocations still to go.
    """

    def __init__(self, number):
        self.number = number
        self.happened = False
        self.left = number

    def __enter__(self):
        self.file = open("/proc/thread-self/fail-nth", "r+b", buffering=0)  # pylint: disable=R1732
        self.file.write(b"%d" % self.number)
        return self

    def __exit__(self, *_):
        # The file has no position to set; each write starts at its beginning. Reading and writing it are copies, too;
        # if one of these fails, the failure did not happen earlier.
        try:
            self.left = int(self.file.read(16))
            self.happened = self.left == 0
        except OSError:
            self.happened = False
        for _ in range(2):
            try:
                self.file.write(b"0")
                break
            except OSError:
                self.happened = False
        self.file.close()


def attempt(action, other=()):
    """Returns the result of the action; None if memory was missing. Any error other than those of missing memory and
    `other` fails the test.
    """
    try:
        return action()
    except MemoryError:
        return None
    except OSError as error:
        # Errors of Python's own calls.
        true(error.errno in LACKING + other, f"errno {error.errno}")
        return None
    except PyverbsRDMAError as error:
        # A library reports some of its own failures without a code, or with any code; routes report ENOBUFS.
        memory = (*LACKING, errno.ENOBUFS, 0, -1, None)
        true(error.error_code in memory + other, f"error {error.error_code}: {error}")
        return None
    except PyverbsError:
        return None


def pinned():
    """Returns the amount of memory of this process that the kernel counts as pinned or locked."""
    with open("/proc/self/status", encoding="ascii") as file:
        return [line.split()[:2] for line in file if line.startswith(("VmPin", "VmLck"))]


def each_failure(make, unmake, other=()):
    """Creates an object until no allocation is left to fail; returns the number of failures. Destroys each object
    that was created, with failures too. A failed create must leave nothing behind. `other`: as for attempt.
    """
    before = pinned(), resources()
    for number in range(1, MOST):
        with Injection(number) as injection:
            made = attempt(make, other)
        if made is not None:
            # An object destroyed without a response is gone, but the library does not notice; so copies do not fail
            # here.
            with Injection(0 if COPIES else number):
                unmake(made)
        else:
            # Objects are counted at the end: what one failure leaves is still there, and the count takes two processes.
            equal(pinned(), before[0], "memory pinned after a failure")
        if not injection.happened:
            equal((pinned(), resources()), before, "memory and objects after all failures")
            true(made is not None, "nothing failed, but nothing was created")
            print(f"# {number - 1} failed", flush=True)
            true(number > 2, f"{number - 1} allocations could be made to fail")
            return number - 1
    raise AssertionError(f"still failing after {MOST} allocations")


def close(made):
    """Destroys an object."""
    made.close()


def contexts():
    """open_device survives every allocation failure"""
    if os.path.exists("/sys/kernel/debug/kmemleak"):
        # kmemleak would report memory that the core keeps for calls of the library.
        path = device_path()
        each_failure(lambda: uverbs.open_context(path), os.close)
    else:
        # The library looks the device up in sysfs, and reports that it does not exist if the lookup fails.
        each_failure(lambda: Context(name=DEVICE), close, (errno.ENOENT, errno.ENODEV))


def domains():
    """alloc_pd survives every allocation failure"""
    each_failure(lambda: PD(context()), close)


def regions():
    """reg_mr, small, large and for atomics, survives every allocation failure"""
    pd = PD(context())
    for size in (4096, 4 << 20):
        # Populated in advance, so that page faults do not fail.
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        each_failure(lambda size=size, start=start: MR(pd, size, FULL_ACCESS | e.IBV_ACCESS_REMOTE_ATOMIC,
                                                       address=start), close)
    pd.close()


def windows():
    """alloc_mw survives every allocation failure"""
    pd = PD(context())
    each_failure(lambda: MW(pd, e.IBV_MW_TYPE_1), close)
    pd.close()


def completion_queues():
    """create_cq, with and without a channel, survives every allocation failure"""
    each_failure(lambda: CQ(context(), 100), close)
    channel = CompChannel(context())
    each_failure(lambda: CQ(context(), 5000, None, channel, 0), close)
    channel.close()


def shared_queues():
    """create_srq survives every allocation failure"""
    pd = PD(context())
    init = SrqInitAttr(SrqAttr(max_wr=100, max_sge=2))
    each_failure(lambda: SRQ(pd, init), close)
    pd.close()


def queue_pairs():
    """create_qp of every service survives every allocation failure"""
    pd, cq = PD(context()), CQ(context(), 100)
    cap = QPCap(max_send_wr=64, max_recv_wr=64, max_send_sge=4, max_recv_sge=4, max_inline_data=64)
    for service in (e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD):
        init = QPInitAttr(qp_type=service, scq=cq, rcq=cq, cap=cap)
        each_failure(lambda init=init: QP(pd, init), close)
    cq.close()
    pd.close()


def address_handles():
    """create_ah survives every allocation failure"""
    pd = PD(context())
    route = GlobalRoute(dgid=context().query_gid(PORT, gid_index()), sgid_index=gid_index(), hop_limit=64)
    each_failure(lambda: AH(pd, attr=AHAttr(gr=route, is_global=1, port_num=PORT)), close)
    pd.close()


def connections():
    """modify_qp that fails for memory leaves the queue pair in the old or the next state"""
    peer = End()
    before = pinned(), resources()

    def connect():
        end = End()
        try:
            with Injection(connect.number) as injection:
                attempt(lambda: end.to_rts(peer) or end)
            connect.happened = injection.happened
            if end.state() != e.IBV_QPS_RTS:
                # A queue pair can be reset from any state in which it stopped.
                end.qp.modify(reset(), e.IBV_QP_STATE)
                end.to_rts(peer)
            equal(end.state(), e.IBV_QPS_RTS, "state")
        finally:
            end.close()

    for connect.number in range(1, MOST):
        connect()
        equal(pinned(), before[0], "memory pinned afterwards")
        if not connect.happened:
            break
    else:
        raise AssertionError(f"still failing after {MOST} allocations")
    equal(resources(), before[1], "objects afterwards")
    true(connect.number > 2, f"{connect.number - 1} allocations could be made to fail")
    peer.close()


def reset():
    """Returns the attributes that move a queue pair to RESET."""
    attr = QPAttr()
    attr.qp_state = e.IBV_QPS_RESET
    return attr


def transfers():
    """A post_send that failed for memory can be repeated"""
    failed = {e.IBV_WR_RDMA_WRITE: 0, e.IBV_WR_RDMA_READ: 0}
    with pair() as (a, b):
        for number in range(1, 40):
            for opcode in failed:
                def send(opcode=opcode):
                    a.send(opcode, pieces=[a.sge(0, 20000)], remote=b.remote())
                    return 1

                with Injection(number) as injection:
                    posted = attempt(send)
                failed[opcode] += injection.happened
                if not posted:
                    # The WR is in the ring without a doorbell. The next doorbell covers both.
                    posted = 1 + send()
                for _ in range(posted):
                    equal(a.completion(20).status, e.IBV_WC_SUCCESS, "status")
    true(all(failed.values()), f"how many could be made to fail, by opcode: {failed}")


if __name__ == "__main__":
    # Opened before failures are injected.
    context()
    run([contexts, domains, regions, windows, completion_queues, shared_queues, queue_pairs, address_handles,
         connections, transfers])
