# SPDX-License-Identifier: GPL-2.0
"""A process whose commands fail after the driver's part of them was done: the core's own answer goes to where it
cannot be written, while the driver's can. The core then takes the new object back, with the command that made it still
at hand; and what the driver has answered stands where it asks for more, because the process has chosen the same memory
for both.

Nothing of the object may be left, and the core has nothing to complain of.
"""

import ctypes
import errno

import pyverbs.enums as e
from pyverbs.pd import PD

import uverbs
from mapping import PAGE, READ, Memory
from rc import own_context
from tap import equal, run, true
from verbs import resources

# What the core answers beside the driver's part, in bytes: where the first ring is told of.
CORES = {number: uverbs.RINGS[number][0] for number in (uverbs.CREATE_CQ, uverbs.CREATE_QP, uverbs.CREATE_SRQ)}
# Attributes of `ioctl` of a queue's creation (rdma/ib_user_ioctl_cmds.h).
HANDLE, CQE, USER_HANDLE, CHANNEL, VECTOR, FLAGS, RESP_CQE, EVENT = range(8)


def refused(ctx, number, *fields):
    """Issues a command whose answer begins in memory that cannot be written, so that the driver's part of it is what
    the command ends with; it fails, and leaves the process with what it had."""
    before, cores = resources(), CORES[number]
    pages = Memory(2 * PAGE)
    first = Memory(PAGE, at=pages.address)
    plain = uverbs.command(number, pages.address + PAGE - cores, *fields)
    drivers = uverbs.COMMANDS[number][0] - cores
    asked = uverbs.request(number, plain[8:] + bytes(drivers), 0)
    start = PAGE - len(plain)
    pages.write(asked, start)
    first.protect(READ)
    ctypes.set_errno(0)
    written = uverbs.libc.write(ctx.cmd_fd, ctypes.c_void_p(pages.address + start), ctypes.c_size_t(len(asked)))
    equal((written, ctypes.get_errno()), (-1, errno.EFAULT), "what the command ends with")
    true(any(pages.read(drivers, PAGE)), "the driver was not asked")
    pages.unmap()
    equal(resources(), before, "what there is after a command that failed")


def completion_queue():
    """A completion queue that the core cannot tell of is taken back"""
    ctx = own_context()
    for _ in range(3):
        refused(ctx, uverbs.CREATE_CQ, 0, 16, 0, -1, 0)


def queue_pair():
    """A queue pair that the core cannot tell of is taken back"""
    ctx = own_context()
    pd, answer = PD(ctx), (ctypes.c_uint32 * 6)()
    made = uverbs.command(uverbs.CREATE_CQ, ctypes.addressof(answer), 0, 16, 0, -1, 0)
    equal(uverbs.issue(ctx.cmd_fd, made), 0, "error of a queue that can be told of")
    queue = answer[0]
    for kind in (e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD):
        refused(ctx, uverbs.CREATE_QP, 0, pd.handle, queue, queue, 0, 4, 4, 1, 1, 0, 0, kind, 0, 0)


def shared_queue():
    """A shared receive queue that the core cannot tell of is taken back"""
    ctx = own_context()
    pd = PD(ctx)
    for _ in range(3):
        refused(ctx, uverbs.CREATE_SRQ, 0, pd.handle, 16, 1, 0)


def other_way():
    """A completion queue whose size cannot be told of is taken back"""
    ctx = own_context()
    before = resources()
    # Not to be put into the attribute itself, as what fits there is.
    both = ctypes.create_string_buffer(16)
    closed = Memory(PAGE, READ)
    given = [(HANDLE, 0, 0), (CQE, 4, 16), (USER_HANDLE, 8, 0), (VECTOR, 4, 0), (RESP_CQE, 4, closed.address),
             (uverbs.UHW_IN, len(both), ctypes.addressof(both)),
             (uverbs.UHW_OUT, len(both), ctypes.addressof(both))]
    error = uverbs.ioctl(ctx.cmd_fd, uverbs.OBJECTS["cq"], uverbs.CREATING, uverbs.required(given))
    closed.unmap()
    equal(error, errno.EFAULT, "what the command ends with")
    true(any(both.raw), "the driver was not asked")
    equal(resources(), before, "what there is after a command that failed")


if __name__ == "__main__":
    run([completion_queue, queue_pair, shared_queue, other_way])
