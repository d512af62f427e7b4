# SPDX-License-Identifier: GPL-2.0
"""Two processes: one registers and deregisters memory in a loop; the other one, a stranger, reads each key at once
and binds its own windows with it. The bind must fail, and its check must not keep the region busy.
"""

import ctypes
import errno
import mmap
import os
import struct
import time

from pyverbs.mr import MW
from pyverbs.pd import PD

import enums as e
from rc import PAGE, SLOWNESS, context, own_context
from ring import ABI, Hostile, send_element
from tap import equal, not_for_rxe, run, true
from uverbs import DEREG_MR, LAYOUTS, MODIFY_QP, REG_MR, command, issue
from windows import BIND_ERROR, BINDABLE, REMOTE

BIND = 8
REGIONS, BINDS = 4000, 500


class Board:
    """Memory shared by both processes: the current key, the number of refused binds, and whether the test is over."""

    def __init__(self):
        self.words = (ctypes.c_uint32 * 3).from_buffer(mmap.mmap(-1, mmap.PAGESIZE))

    key = property(lambda self: self.words[0], lambda self, value: self.words.__setitem__(0, value))
    refused = property(lambda self: self.words[1], lambda self, value: self.words.__setitem__(1, value))
    over = property(lambda self: self.words[2], lambda self, value: self.words.__setitem__(2, value))


class Binder:
    """Binds with a key repeatedly, without a library. The UC QP of a failed bind enters SQE, and one command restores
    RTS.
    """

    def __init__(self, address):
        self.end = Hostile(access=BINDABLE, service=e.IBV_QPT_UC)
        self.end.to_rts(self.end)
        self.window = MW(self.end.pd, e.IBV_MW_TYPE_2)
        key = self.window.rkey
        usual = {"wr_id": 1, "opcode": BIND, "remote": address, "mw_length": 64, "mw_rkey": key, "mw_key": key ^ 1,
                 "mw_access": REMOTE, "flags": e.IBV_SEND_SIGNALED}
        self.element = bytearray(send_element([], usual))
        # Finds the handle.
        self.end.doorbell()
        kinds = LAYOUTS[MODIFY_QP][1]
        fields = {"qp": self.end.handles[0], "mask": e.IBV_QP_STATE, "state": e.IBV_QPS_RTS, "gid": b"", "padding": b""}
        self.revival = command(MODIFY_QP, 0, *(fields.get(kind, 0) for kind in kinds))

    def bind(self, key):
        """Attempts one bind, which must fail."""
        struct.pack_into("<I", self.element, ABI.SEND["mr_lkey"][0], key)
        self.end.sq_ring.produce(bytes(self.element))
        self.end.doorbell()
        late = time.monotonic() + 20 * SLOWNESS
        while (status := self.end.cq_ring.take()) is None:
            true(time.monotonic() < late, "no completion")
        equal(status, BIND_ERROR, "a bind to a stranger's region")
        equal(issue(context().cmd_fd, self.revival), 0, "SQE to RTS")


def stranger(board, address):
    """Binds with the current key until the test is over."""
    own_context()
    binder = Binder(address)
    while not board.over:
        binder.bind(board.key)
        board.refused += 1


def strangers_bind():
    """Deregistration succeeds at once while a stranger tries to bind windows to the region"""
    not_for_rxe("trusts data written by user space")
    board, memory = Board(), mmap.mmap(-1, PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    child = os.fork()
    if not child:
        try:
            stranger(board, address)
            os._exit(0)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# stranger: {error!r}", flush=True)
            os._exit(1)
    count, late = 0, time.monotonic() + 300 * SLOWNESS
    answer = (ctypes.c_uint32 * 4)()
    try:
        with PD(context()) as domain:
            place, descriptor = ctypes.addressof(answer), context().cmd_fd
            wish = command(REG_MR, place, address, PAGE, address, domain.handle, BINDABLE)
            while count < REGIONS or board.refused < BINDS:
                equal(issue(descriptor, wish), 0, "registration")
                board.key = answer[1]
                found = issue(descriptor, command(DEREG_MR, 0, answer[0]))
                equal(errno.errorcode.get(found, found), 0, f"region {count}, after {board.refused} binds")
                count += 1
                true(os.waitpid(child, os.WNOHANG)[0] == 0, "the stranger is running")
                true(time.monotonic() < late, f"{count} regions and {board.refused} binds only")
    finally:
        board.over = 1
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    equal(code, 0, "the stranger's exit code")
    print(f"# {count} regions, {board.refused} binds", flush=True)


TESTS = [strangers_bind]

if __name__ == "__main__":
    run(TESTS)
