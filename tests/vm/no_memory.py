# SPDX-License-Identifier: GPL-2.0
"""Memory runs out: each verb is called again and again, and each time a later allocation of it fails.

A call may fail, or do without what it did not get. It must not do half of it: the same call works
right after, destroying never fails, and the checkers of the debug kernel find neither a leak nor a use of
something that is gone. With COPIES=1, copies from and to the memory of the process fail as well; the script decides
whether memory does.
"""

import ctypes
import errno
import mmap
import os

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

import uverbs
from hostile_hand import device_path
from rc import DEVICE, FULL_ACCESS, PORT, End, context, gid_index, pair
from tap import equal, run, true
from verbs import resources

COPIES = os.environ.get("COPIES") == "1"
# What a call may fail with.
LACKING = (errno.ENOMEM, errno.EFAULT) if COPIES else (errno.ENOMEM,)
# How many failures there are at least in what allocates nothing: it copies its arguments and its answer.
COPIED = 2 if COPIES else 0
# More than any verb needs; a loop that gets there fails.
MOST = 400


class Injection:
    """`with Injection(n)`: the n-th allocation or copy of this thread from now on fails; tells whether there was
    one, and how many were left before."""

    def __init__(self, number):
        self.number = number
        self.happened = False
        self.left = number

    def __enter__(self):
        self.file = open("/proc/thread-self/fail-nth", "r+b", buffering=0)  # pylint: disable=R1732
        self.file.write(b"%d" % self.number)
        return self

    def __exit__(self, *_):
        # The file has no position to be set; each write counts from its beginning. To read and to write it are
        # copies, too; what fails for that has not failed before.
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
    """What the action makes; None if memory was missing. An error that is neither memory's nor one of the `other`
    is a fault."""
    try:
        return action()
    except MemoryError:
        return None
    except OSError as error:
        # Python's own calls.
        true(error.errno in LACKING + other, f"errno {error.errno}")
        return None
    except PyverbsRDMAError as error:
        # A library reports some of its own failures without a code, or as it likes; routes lack buffers.
        memory = (*LACKING, errno.ENOBUFS, 0, -1, None)
        true(error.error_code in memory + other, f"error {error.error_code}: {error}")
        return None
    except PyverbsError:
        return None


def pinned():
    """How much memory of this process the kernel counts as held in its place."""
    with open("/proc/self/status", encoding="ascii") as file:
        return [line.split()[:2] for line in file if line.startswith(("VmPin", "VmLck"))]


def each_failure(make, unmake, other=()):
    """Makes something until no allocation is left to fail; returns how many failed. What was made goes again,
    with failures of its own. Of what was not made, nothing is left. `other`: as for attempt."""
    before = pinned(), resources()
    for number in range(1, MOST):
        with Injection(number) as injection:
            made = attempt(make, other)
        if made is not None:
            # What goes without an answer is gone, but the library does not know; so copies do not fail here.
            with Injection(0 if COPIES else number):
                unmake(made)
        else:
            equal(pinned(), before[0], "memory that is held after a failure")
            if COPIES:
                # There are few; and this takes its time.
                equal(resources(), before[1], "objects after a failure")
        if not injection.happened:
            equal((pinned(), resources()), before, "what is held after all failures")
            true(made is not None, "nothing failed, and yet nothing was made")
            print(f"# {number - 1} failed", flush=True)
            true(number > 2, f"{number - 1} allocations could be made to fail")
            return number - 1
    raise AssertionError(f"still failing after {MOST} allocations")


def close(made):
    """Destroys something."""
    made.close()


def contexts():
    """open_device"""
    if os.path.exists("/sys/kernel/debug/kmemleak"):
        # It would tell of what the core keeps for a library's call.
        path = device_path()
        each_failure(lambda: uverbs.open_context(path), os.close)
    else:
        # The library looks for the device in sysfs, and says that there is none if it cannot look.
        each_failure(lambda: Context(name=DEVICE), close, (errno.ENOENT, errno.ENODEV))


def domains():
    """alloc_pd"""
    each_failure(lambda: PD(context()), close)


def regions():
    """reg_mr, small, large and for atomics"""
    pd = PD(context())
    for size in (4096, 4 << 20):
        # It is there before: that is not what shall fail.
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        each_failure(lambda size=size, start=start: MR(pd, size, FULL_ACCESS | e.IBV_ACCESS_REMOTE_ATOMIC,
                                                       address=start), close)
    pd.close()


def windows():
    """alloc_mw"""
    pd = PD(context())
    each_failure(lambda: MW(pd, e.IBV_MW_TYPE_1), close)
    pd.close()


def completion_queues():
    """create_cq, with and without a channel"""
    each_failure(lambda: CQ(context(), 100), close)
    channel = CompChannel(context())
    each_failure(lambda: CQ(context(), 5000, None, channel, 0), close)
    channel.close()


def shared_queues():
    """create_srq"""
    pd = PD(context())
    init = SrqInitAttr(SrqAttr(max_wr=100, max_sge=2))
    each_failure(lambda: SRQ(pd, init), close)
    pd.close()


def queue_pairs():
    """create_qp of every service"""
    pd, cq = PD(context()), CQ(context(), 100)
    cap = QPCap(max_send_wr=64, max_recv_wr=64, max_send_sge=4, max_recv_sge=4, max_inline_data=64)
    for service in (e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD):
        init = QPInitAttr(qp_type=service, scq=cq, rcq=cq, cap=cap)
        each_failure(lambda init=init: QP(pd, init), close)
    cq.close()
    pd.close()


def address_handles():
    """create_ah"""
    pd = PD(context())
    route = GlobalRoute(dgid=context().query_gid(PORT, gid_index()), sgid_index=gid_index(), hop_limit=64)
    each_failure(lambda: AH(pd, attr=AHAttr(gr=route, is_global=1, port_num=PORT)), close)
    pd.close()


def connections():
    """modify_qp to RTS: the queue pair is as before, or one step on"""
    peer = End()
    before = pinned(), resources()

    def connect():
        end = End()
        try:
            with Injection(connect.number) as injection:
                attempt(lambda: end.to_rts(peer) or end)
            connect.happened = injection.happened
            if end.state() != e.IBV_QPS_RTS:
                # Whatever state it stopped in, it must be one that it can be reset from.
                end.qp.modify(reset(), e.IBV_QP_STATE)
                end.to_rts(peer)
            equal(end.state(), e.IBV_QPS_RTS, "state")
        finally:
            end.close()

    for connect.number in range(1, MOST):
        connect()
        equal(pinned(), before[0], "memory that is held afterwards")
        if not connect.happened:
            break
    else:
        raise AssertionError(f"still failing after {MOST} allocations")
    equal(resources(), before[1], "objects afterwards")
    true(connect.number > 2, f"{connect.number - 1} allocations could be made to fail")
    peer.close()


def reset():
    """The attributes of a queue pair that goes back to the beginning."""
    attr = QPAttr()
    attr.qp_state = e.IBV_QPS_RESET
    return attr


def transfers():
    """post_send: what could not be sent is sent again"""
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
                    # It is in the ring, but nobody was told. The next one tells of both.
                    posted = 1 + send()
                for _ in range(posted):
                    equal(a.completion(20).status, e.IBV_WC_SUCCESS, "status")
    true(all(failed.values()), f"how many could be made to fail, by opcode: {failed}")


if __name__ == "__main__":
    # Opened before something is made to fail.
    context()
    run([contexts, domains, regions, windows, completion_queues, shared_queues, queue_pairs, address_handles,
         connections, transfers])
