# SPDX-License-Identifier: GPL-2.0
"""Commands that fail after the driver has done its part: the core cannot write its own response, while the driver can
write its part. The core then destroys the new object with the udata of the create, and the process has made the
driver's response overlap the driver's input.

No object may be left, and the core must not complain.
"""

import ctypes
import errno

from pyverbs.pd import PD

import enums as e
import uverbs
from mapping import PAGE, READ, Memory
from rc import own_context
from tap import equal, run, true
from verbs import resources

# Bytes of the core's response before the driver's part, which starts with the first ring.
CORES = {number: uverbs.RINGS[number][0] for number in (uverbs.CREATE_CQ, uverbs.CREATE_QP, uverbs.CREATE_SRQ)}
# Attributes of the `ioctl` that creates a CQ (rdma/ib_user_ioctl_cmds.h).
HANDLE, CQE, USER_HANDLE, CHANNEL, VECTOR, FLAGS, RESP_CQE, EVENT = range(8)


def refused(ctx, number, *fields):
    """Issues a command whose response begins in read-only memory, so that its end is the driver's part. The command
    fails and leaves the objects of the process as they were."""
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
    equal((written, ctypes.get_errno()), (-1, errno.EFAULT), "result of the command")
    true(any(pages.read(drivers, PAGE)), "the driver was not called")
    pages.unmap()
    equal(resources(), before, "resources after the failed command")


def completion_queue():
    """A CQ is destroyed if the core cannot write its response"""
    ctx = own_context()
    for _ in range(3):
        refused(ctx, uverbs.CREATE_CQ, 0, 16, 0, -1, 0)


def queue_pair():
    """A QP is destroyed if the core cannot write its response"""
    ctx = own_context()
    pd, answer = PD(ctx), (ctypes.c_uint32 * 6)()
    made = uverbs.command(uverbs.CREATE_CQ, ctypes.addressof(answer), 0, 16, 0, -1, 0)
    equal(uverbs.issue(ctx.cmd_fd, made), 0, "error of a valid command")
    queue = answer[0]
    for kind in (e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD):
        refused(ctx, uverbs.CREATE_QP, 0, pd.handle, queue, queue, 0, 4, 4, 1, 1, 0, 0, kind, 0, 0)


def shared_queue():
    """An SRQ is destroyed if the core cannot write its response"""
    ctx = own_context()
    pd = PD(ctx)
    for _ in range(3):
        refused(ctx, uverbs.CREATE_SRQ, 0, pd.handle, 16, 1, 0)


def other_way():
    """A CQ is destroyed if its size cannot be written"""
    ctx = own_context()
    before = resources()
    # Longer than data that fits into the attribute itself.
    both = ctypes.create_string_buffer(16)
    closed = Memory(PAGE, READ)
    given = [(HANDLE, 0, 0), (CQE, 4, 16), (USER_HANDLE, 8, 0), (VECTOR, 4, 0), (RESP_CQE, 4, closed.address),
             (uverbs.UHW_IN, len(both), ctypes.addressof(both)),
             (uverbs.UHW_OUT, len(both), ctypes.addressof(both))]
    error = uverbs.ioctl(ctx.cmd_fd, uverbs.OBJECTS["cq"], uverbs.CREATING, uverbs.required(given))
    closed.unmap()
    equal(error, errno.EFAULT, "result of the command")
    true(any(both.raw), "the driver was not called")
    equal(resources(), before, "resources after the failed command")


if __name__ == "__main__":
    run([completion_queue, queue_pair, shared_queue, other_way])
