# SPDX-License-Identifier: GPL-2.0
"""Queues created by `ioctl` with attributes (rdma/ib_user_ioctl_cmds.h), which librxe does not use: attributes that the
driver supports, and those that it must refuse.

A process may request a queue in its own memory. Queues of this ABI are in kernel memory and are mapped, so the driver
must refuse: otherwise the process would look for elements where the driver writes none.
"""

import ctypes
import errno
import functools

import enums as e
import uverbs
from rc import own_context
from tap import core_has, equal, not_for_rxe, run
from verbs import resources

# struct ib_uverbs_qp_cap, and a size sufficient for any response.
CAPS, ANSWER = (ctypes.c_uint32 * 5), 64
# Attributes that place a queue in user memory: {name: (number, length)}.
BUFFERS = {
    "cq": {"BUFFER_VA": (8, 8), "BUFFER_LENGTH": (9, 8), "BUFFER_FD": (10, 0), "BUFFER_OFFSET": (11, 8),
           "BUF_UMEM": (12, 32)},
    "qp": {"BUF_UMEM": (15, 32), "RQ_BUF_UMEM": (16, 32), "SQ_BUF_UMEM": (17, 32)},
    "srq": {"BUF_UMEM": (14, 32)},
}

# A function of the core that came with the attributes.
KNOWN_SINCE = "ib_umem_get_attr_or_va"


class Caller:
    """A process's context, and the attributes that each kind of queue needs."""

    def __init__(self):
        self.ctx = own_context()
        self.caps = CAPS(4, 4, 1, 1, 0)
        self.room = [ctypes.create_string_buffer(ANSWER) for _ in range(4)]
        # Not a PD of pyverbs, which would destroy it before the queues.
        equal(uverbs.issue(self.ctx.cmd_fd, uverbs.command(uverbs.ALLOC_PD, self.answer(0))), 0, "error of ALLOC_PD")
        self.pd = ctypes.c_uint32.from_address(self.answer(0)).value
        error, self.queue = self.create("cq")
        equal(error, 0, "error of the CQ for QPs")

    def create(self, kind, more=()):
        """Creates a queue; returns 0 or the error, and its handle."""
        attributes = uverbs.required([*getattr(self, kind)(), *self.drivers(), *more])
        error, found = uverbs.attributes_of(self.ctx.cmd_fd, uverbs.OBJECTS[kind], uverbs.CREATING, attributes)
        return error, found[0]

    def answer(self, at):
        """Address of a response buffer."""
        return ctypes.addressof(self.room[at])

    def drivers(self):
        """The driver's own input, which is empty, and response."""
        return [(uverbs.UHW_IN, 16, self.answer(3)), (uverbs.UHW_OUT, ANSWER, self.answer(0))]

    def cq(self):
        """Entries, user handle, vector, and the response: the number of entries."""
        return [(0, 0, 0), (1, 4, 16), (2, 8, 0), (4, 4, 0), (6, 4, self.answer(1))]

    def qp(self):
        """PD, queues, user handle, sizes, type, and the responses: sizes and number."""
        size = ctypes.sizeof(self.caps)
        return [(0, 0, 0), (2, 0, self.pd), (4, 0, self.queue), (5, 0, self.queue), (7, 8, 0),
                (8, size, ctypes.addressof(self.caps)), (9, 8, e.IBV_QPT_RC), (13, size, self.answer(1)),
                (14, 4, self.answer(2))]

    def srq(self):
        """PD, user handle, sizes, limit, type, and the responses: sizes."""
        return [(0, 0, 0), (1, 0, self.pd), (4, 8, 0), (5, 4, 16), (6, 4, 1), (7, 4, 0), (9, 8, 0),
                (11, 4, self.answer(1)), (12, 4, self.answer(2))]


def served(kind):
    """creation by attributes succeeds"""
    error, _ = Caller().create(kind)
    equal(error, 0, "error")


def elsewhere(kind):
    """creation in user memory is refused, and leaves nothing"""
    not_for_rxe("ignores these attributes")
    caller = Caller()
    before, where = resources(), ctypes.create_string_buffer(ANSWER)
    for name, (number, length) in BUFFERS[kind].items():
        datum = ctypes.addressof(where) if length > 8 else 0
        error, _ = caller.create(kind, [(number, length, datum)])
        # An older core refuses attributes that it does not know, before it asks the driver.
        known = core_has(KNOWN_SINCE)
        equal(error, errno.EOPNOTSUPP if known else errno.EPROTONOSUPPORT, f"error with {name}")
    equal(resources(), before, "resources afterwards")
    error, _ = caller.create(kind)
    equal(error, 0, "error without these attributes")


def test_of(what, kind):
    """A test for one kind of queue."""
    def test():
        what(kind)
    test.__doc__ = f"{kind.upper()} {what.__doc__}"
    return functools.update_wrapper(test, what, assigned=("__name__",))


if __name__ == "__main__":
    run([test_of(what, kind) for what in (served, elsewhere) for kind in BUFFERS])
