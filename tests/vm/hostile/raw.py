# SPDX-License-Identifier: GPL-2.0
"""Contexts and queue pairs of ferroce's own ABI without a library, on any device of ferroce: for a process that takes
the kernel's promise to look at its send queue (ferroce_ring.no_doorbell), and does what it likes.

The promise is given to a stream of doorbells, each within microseconds of the one before. Requests that are flushed are
the cheapest, so that it is given to them on a debug kernel, too. A UC queue pair in SQE that has the promise keeps it
when it goes back to RTS.
"""

import ctypes
import mmap
import os
import struct

import ring_direct as abi
import uverbs
from hostile_hand import MAP_SHARED, PROT_READ, PROT_WRITE, RC, STEPS, UC, UD, device_path, libc
from tap import true
from ud import QKEY, gid_bytes

RESET, RTS, SQE, ERR = 0, 3, 5, 6
WRITE, SEND, NONE = 0, 2, 0xEE
SIGNALED = 2
PSN = 0x1000
# Doorbells that are rung for the promise at most. Another task may take the CPU at any time, and ends the stream. RC
# also looks at its receives at each doorbell in ERR, so a debug kernel is too slow most of the time.
PATIENCE, LITTLE_PATIENCE = 1000000, 2000


class RawContext:
    """An open device, whose objects are named by handles."""

    def __init__(self, descriptor=None):
        self.descriptor = uverbs.open_context(device_path(), abi) if descriptor is None else descriptor
        self.answers = mmap.mmap(-1, mmap.PAGESIZE)
        self.answer = ctypes.addressof(ctypes.c_char.from_buffer(self.answers))

    def call(self, command, **given):
        """Issues a command with the given fields, by kind; others are zero. Returns the response."""
        _, kinds, sizes = uverbs.LAYOUTS[command]
        fields = [given.get(kind, b"" if kind in ("gid", "group", "padding", "noise") else 0)
                  for kind, size in zip(kinds, sizes) if kind != "answer"]
        os.write(self.descriptor, uverbs.command(command, self.answer, *fields))
        return self.answers[:128]

    def create(self, kind, /, **given):
        """Creates an object. Returns its handle, and the response."""
        answer = self.call(uverbs.CREATE[kind], **given)
        return struct.unpack_from("=I", answer)[0], answer

    def map(self, answer, at):
        """Returns the ring whose offset and size are at a place of a response."""
        offset, size = struct.unpack_from("=QI", answer, at)
        return RawRing(self.descriptor, offset, size)

    def close(self):
        """Closes it, with all objects left in it."""
        os.close(self.descriptor)


class RawRing:
    """A mapped ring. Python's own mmap would keep a copy of the descriptor, and with it the context."""

    def __init__(self, descriptor, offset, size):
        self.offset, self.size = offset, size
        self.start = libc.mmap(None, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset)
        if self.start == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "mmap of a ring")
        self.places, self.element = (self.word(at).value for at in abi.SHAPE)

    def unmap(self):
        """Unmaps it."""
        libc.munmap(self.start, self.size)

    def word(self, at):
        """Returns a word of the memory."""
        return ctypes.c_uint32.from_address(self.start + at)

    def place(self, index):
        """Returns the address of the element with this index."""
        return self.start + abi.DATA + index % self.places * self.element


def send(opcode, flags=0):
    """Returns a send element without a message."""
    return struct.pack("<QBBHI", 7, opcode, flags, 0, 0).ljust(abi.SEND_BYTES, b"\0")


class RawQueue:
    """A queue pair of a context, connected to itself, and its rings. Each of its elements is the same."""

    def __init__(self, kind=UC, context=None, entries=64, completions=2048):
        self.context, self.kind = context or RawContext(), kind
        self.pd, _ = self.context.create("pd")
        self.cq, answer = self.context.create("cq", count=completions, channel=-1)
        self.completions = self.context.map(answer, uverbs.RINGS[uverbs.CREATE_CQ][0])
        self.qp, answer = self.context.create("qp", pd=self.pd, cq=self.cq, count=entries, pieces=1, kind=kind)
        self.qpn = struct.unpack_from("=I", answer, 4)[0]
        self.receives, self.sends = (self.context.map(answer, at) for at in uverbs.RINGS[uverbs.CREATE_QP])
        self.producer, self.promise = self.sends.word(abi.PRODUCER), self.sends.word(abi.NO_DOORBELL)
        self.bell = struct.pack("=IHHQIIII", uverbs.POST_SEND, 8, 1, self.context.answer, self.qp, 0, 0, 128)
        self.connect()

    def close(self):
        """Closes the context, and unmaps the rings."""
        self.context.close()
        for ring in (self.sends, self.receives, self.completions):
            ring.unmap()

    def modify(self, state, mask=1):
        """Moves the queue pair to a state."""
        self.context.call(uverbs.MODIFY_QP, qp=self.qp, mask=mask, state=state, qpn=self.qpn, mtu=3, access=15, one=1,
                          gid=gid_bytes(os.environ["ADDR"]), gid_index=int(os.environ["GID4"]), hops=64, psn=PSN,
                          few=7, qkey=QKEY)

    def connect(self):
        """Moves it from any state to RTS."""
        self.modify(0)
        for state, mask in STEPS[self.kind]:
            self.modify(state, mask)

    def state(self):
        """Returns its state."""
        # struct ib_uverbs_query_qp_resp: behind two address vectors, and ten words.
        return self.context.call(uverbs.QUERY_QP, qp=self.qp, mask=1)[108]

    def fill(self, data):
        """Writes an element into each place of the send queue."""
        for place in range(self.sends.places):
            ctypes.memmove(self.sends.place(place), data, len(data))

    def post(self, count=1):
        """Posts elements that are there already, and rings no doorbell."""
        self.producer.value = self.producer.value + count & 0xFFFFFFFF

    def ring(self):
        """Rings the doorbell."""
        os.write(self.context.descriptor, self.bell)

    def poll(self):
        """Takes all completions."""
        at = self.completions.word(abi.CONSUMER)
        while abi.has_completion(self.completions, at.value):
            at.value = at.value + 1 & 0xFFFFFFFF

    def stream(self, limit=PATIENCE):
        """Posts, and rings the doorbell each time, until the kernel promises to look. Returns whether it does."""
        descriptor, bell, producer, promise = self.context.descriptor, self.bell, self.producer, self.promise
        at_once = self.completions.places // 2
        for _ in range(0, limit, at_once):
            at = producer.value
            for number in range(at + 1, at + at_once + 1):
                producer.value = number & 0xFFFFFFFF
                os.write(descriptor, bell)
                if promise.value:
                    return True
            self.poll()
        return False

    def fail(self):
        """Makes the queue flush all requests: in SQE, or in ERR if that is a state of RC only."""
        if self.kind == RC:
            self.modify(ERR)
            return
        self.fill(send(NONE))
        self.post()
        self.ring()
        self.poll()

    def promised(self, sending=False):
        """Takes the promise, which RC may not get. `sending`: and goes back to RTS, with empty messages to post.
        Returns the queue.
        """
        self.fail()
        given = self.stream(LITTLE_PATIENCE if self.kind == RC else PATIENCE)
        true(given or self.kind == RC, "the kernel promises nothing to a stream of doorbells")
        if sending:
            self.fill(send(SEND if self.kind == UD else WRITE))
            self.modify(RTS)
        return self
