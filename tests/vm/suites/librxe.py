# SPDX-License-Identifier: GPL-2.0
"""Faults of librxe, the provider of rdma-core for both drivers, that a program would take for the driver's. Each is
looked for in the release that is installed: releases that have it must show it, over any driver, and others must not.
"""

import errno
import os
import resource
import signal

from pyverbs.cq import CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import DataBuffer
from pyverbs.wr import SGE

import enums as e
from rc import SLOWNESS, End, own_context, pair
from tap import equal, run
from work import INLINE, OK, RXE, SEND, SIGNALED, WRITE, fill, pattern

RELEASE = int(os.environ["RELEASE"].split(".")[0])
# How long a process waits for a lock before the lock counts as taken.
PATIENCE_SECONDS = 5
OPS = e.IBV_QP_EX_WITH_SEND


def sent(post, length, flags=SIGNALED):
    """Returns the length of a SEND whose data post(end) sets, from the memory of an end; or that it fails."""
    with pair(a={"ops": OPS, "inline": 64}, b={}) as (a, b):
        data = pattern(length, 3)
        fill(a, data)
        b.receive()
        a.qp.wr_start()
        a.qp.wr_id, a.qp.wr_flags = 2, flags
        a.qp.wr_send()
        post(a)
        a.qp.wr_complete()
        return b.completion().byte_len if a.completion().status == OK else "failure"


def sge_list():
    """ibv_wr_set_sge_list sets the sum of the lengths (before release 64: a wrong one, which ferroce does not need)"""
    found = sent(lambda a: a.qp.wr_set_sge_list(2, [a.sge(0, 8), a.sge(8, 24)]), 32)
    equal(found, 16 if RELEASE < 64 and RXE else 32, "bytes")


def two_buffers(end):
    """Sets two buffers of 8 bytes as inline data."""
    end.qp.wr_set_inline_data_list(2, [DataBuffer(end.mr.buf + at, 8) for at in (0, 8)])


def inline_list():
    """ibv_wr_set_inline_data_list sends all buffers (before release 64: no byte)"""
    equal(sent(two_buffers, 16, SIGNALED | INLINE), 0 if RELEASE < 64 else 16, "bytes")


def inline_by_flag():
    """ibv_wr_set_inline_data without IBV_SEND_INLINE sends the data over ferroce, and fails over rdma_rxe"""
    for flags, wanted in ((SIGNALED | INLINE, 16), (SIGNALED, "failure" if RXE else 16)):
        equal(sent(lambda a: a.qp.wr_set_inline_data(a.mr.buf, 16), 16, flags), wanted, f"bytes with flags {flags}")


class Extended(End):
    """An end whose CQ is polled by ibv_start_poll, ibv_next_poll and ibv_end_poll; the memory is its own peer's."""

    def make(self, maker):
        if not hasattr(self, "cq"):
            return CQEX(self.ctx, CqInitAttrEx(cqe=8, wc_flags=0))
        return maker()

    def one_completion(self):
        """Waits for the completion of one WRITE, and begins to poll."""
        self.to_rts(self)
        self.send(WRITE, pieces=[self.sge(0, 8)], remote=self.remote(8))
        while self.cq.start_poll(PollCqAttr()):
            pass


def polled_again():
    """A poll that ended at an empty queue leaves it empty (before release 55: it returns an old completion)"""
    end = Extended()
    end.one_completion()
    equal(end.cq.poll_next(), errno.ENOENT, "ibv_next_poll")
    end.cq.end_poll()
    again = end.cq.start_poll(PollCqAttr())
    equal(again, 0 if RELEASE < 55 else errno.ENOENT, "ibv_start_poll")
    if not again:
        end.cq.end_poll()


def outcome(action):
    """Runs an action on a context in a process of its own; returns how it ended."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(PATIENCE_SECONDS * SLOWNESS)
        try:
            action(own_context())
        except PyverbsError:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return "refused" if os.WEXITSTATUS(status) else "returned"


def locked():
    """ibv_next_poll keeps the lock of the queue until ibv_end_poll (before release 59: another thread may poll)"""
    def poll_twice(ctx):
        end = Extended(ctx=ctx)
        end.one_completion()
        end.cq.poll_next()
        end.cq.start_poll(PollCqAttr())
    equal(outcome(poll_twice), "returned" if RELEASE < 59 else "SIGALRM")


def inline_beyond_4_gib():
    """Inline data of 4 GiB is refused (before release 64: it is copied over the queue, and the process dies)"""
    def post(ctx):
        end = End(ctx=ctx, inline=64)
        end.to_rts(end)
        end.send(SEND, pieces=[SGE(end.mr.buf, 1 << 31, end.mr.lkey)] * 2, flags=INLINE | SIGNALED)
    equal(outcome(post), "SIGSEGV" if RELEASE < 64 else "refused")


run([sge_list, inline_list, inline_by_flag, inline_beyond_4_gib, polled_again, locked])
