# SPDX-License-Identifier: GPL-2.0
"""The queues that a process shares with the kernel, as bytes: for a process that breaks the rules.

Uses the layout of rdma/rdma_user_rxe.h. The rings are those that the provider library maps, found in /proc/self/maps.
The doorbell is the post_send command, without the library.
"""

import ctypes
import os
import struct

import enums as e
from rc import End, context
from ud import UdEnd

LOG2_ELEMENT, INDEX_MASK, PRODUCER, CONSUMER, DATA = 0, 4, 128, 256, 384
# struct rxe_send_wqe and struct rxe_recv_wqe.
SEND_WQE = {"wr_id": (0, "Q"), "opcode": (12, "I"), "flags": (16, "I"), "imm": (20, "I"), "remote": (24, "Q"),
            "rkey": (32, "I"), "status": (144, "I"), "state": (148, "I"), "iova": (152, "Q"), "mask": (160, "I"),
            "first_psn": (164, "I"), "last_psn": (168, "I"), "ack_length": (172, "I"), "ssn": (176, "I"),
            "has_rd_atomic": (180, "I"), "length": (184, "I"), "resid": (188, "I"), "cur_sge": (192, "I"),
            "num_sge": (196, "I"), "sge_offset": (200, "I"),
            # The meaning of the union depends on the operation: BIND_MW, atomics, FLUSH, datagrams.
            "mw_length": (32, "Q"), "mr_lkey": (40, "I"), "mw_rkey": (44, "I"), "mw_key": (48, "I"),
            "mw_access": (52, "I"), "swap": (40, "Q"), "atomic_rkey": (48, "I"), "flush_rkey": (36, "I"),
            "flush_kind": (40, "I"), "ah_num": (36, "I")}
SEND_WQE_SIZE = 208
RECV_WQE = {"wr_id": (0, "Q"), "length": (16, "I"), "resid": (20, "I"), "cur_sge": (24, "I"),
            "num_sge": (28, "I"), "sge_offset": (32, "I")}
RECV_WQE_SIZE = 40
POST_SEND = 28


def mappings():
    """Returns {start: (end, offset)} of the mapped rings."""
    found = {}
    with open("/proc/self/maps", encoding="ascii") as file:
        for line in file:
            if "/dev/infiniband/uverbs" in line:
                span, _, offset = line.split()[:3]
                start, end = (int(part, 16) for part in span.split("-"))
                found[start] = (end, int(offset, 16))
    return found


class Ring:
    """One mapped ring. Its copy of the header is read before a test writes into it."""

    def __init__(self, start, end, offset):
        self.start, self.bytes, self.offset = start, end - start, offset
        self.element = 1 << self.get(LOG2_ELEMENT)
        self.mask = self.get(INDEX_MASK)

    def get(self, at):
        """Returns a u32 of the header."""
        return ctypes.c_uint32.from_address(self.start + at).value

    def put(self, at, value):
        """Sets a u32 of the header."""
        ctypes.c_uint32.from_address(self.start + at).value = value & 0xFFFFFFFF

    def write(self, index, data):
        """Writes bytes into a slot."""
        data = data[: self.element]
        ctypes.memmove(self.start + DATA + (index & self.mask) * self.element, data, len(data))

    def produce(self, data):
        """Writes a slot, and advances the producer index."""
        index = self.get(PRODUCER) & self.mask
        self.write(index, data)
        self.put(PRODUCER, (index + 1) & self.mask)


def element(layout, size, pieces, fields):
    """Returns a work queue element with these fields; SGEs are (address, length, lkey)."""
    data = bytearray(size)
    for name, value in fields.items():
        at, kind = layout[name]
        struct.pack_into("<" + kind, data, at, value & (2 ** (64 if kind == "Q" else 32) - 1))
    for address, length, lkey in pieces:
        data += struct.pack("<QII", address, length, lkey)
    return bytes(data)


def with_rings(maker):
    """Returns the result of maker(), and the rings mapped by it."""
    before = mappings()
    made = maker()
    return made, [Ring(start, *rest) for start, rest in mappings().items() if start not in before]


class Hostile(End):
    """An end with access to the rings of its queues; `shared` is an SRQ and its ring."""

    def __init__(self, shared=None, **options):
        self.rings = []
        super().__init__(srq=shared and shared[0], **options)
        self.handles = []
        self.cq_ring = self.rings[0]
        if shared:
            self.rings.append(shared[1])
        # The receive queue's elements are the smaller ones.
        self.rq_ring, self.sq_ring = sorted(self.rings[1:], key=lambda ring: ring.element)

    def make(self, maker):
        made, rings = with_rings(maker)
        self.rings += rings
        return made

    def piece(self, length=64):
        """Returns a valid SGE."""
        return (self.mr.buf, length, self.mr.lkey)

    def post(self, pieces=None, ring_bell=True, **fields):
        """Posts a send queue element with the given fields."""
        pieces = [self.piece()] if pieces is None else pieces
        total = sum(length for _, length, _ in pieces)
        usual = {"wr_id": 1, "opcode": e.IBV_WR_RDMA_WRITE, "flags": e.IBV_SEND_SIGNALED, "length": total,
                 "resid": total, "num_sge": len(pieces)}
        self.sq_ring.produce(element(SEND_WQE, SEND_WQE_SIZE, pieces, {**usual, **fields}))
        if ring_bell:
            self.doorbell()

    def post_receive(self, pieces=None, **fields):
        """Posts a receive queue element with the given fields."""
        pieces = [self.piece()] if pieces is None else pieces
        total = sum(length for _, length, _ in pieces)
        usual = {"wr_id": 2, "length": total, "resid": total, "num_sge": len(pieces)}
        self.rq_ring.produce(element(RECV_WQE, RECV_WQE_SIZE, pieces, {**usual, **fields}))

    def doorbell(self):
        """Rings the doorbell of every QP of this process: the kernel's handles are unknown here, but small."""
        if not self.handles:
            self.handles = [handle for handle in range(64) if command(handle)]
            return
        for handle in self.handles:
            command(handle)


class HostileUd(UdEnd):
    """A UD end with access to its send ring."""

    def make_qp(self, *args):
        qp, rings = with_rings(lambda: UdEnd.make_qp(self, *args))
        # The elements of the receive ring are the smaller ones.
        self.ring = max(rings, key=lambda ring: ring.element)
        return qp

    def last_element(self):
        """Returns the element that the library posted last."""
        index = self.ring.get(PRODUCER) - 1 & self.ring.mask
        return ctypes.string_at(self.ring.start + DATA + index * self.ring.element, self.ring.element)

    def post_element(self, data):
        """Posts an element, and rings the doorbells of all QPs of this process."""
        self.ring.produce(data)
        for handle in range(64):
            command(handle)


def command(handle, count=0, pieces=0, size=128, extra=b""):
    """Issues the post_send command itself; returns whether the kernel accepted it."""
    answer = ctypes.create_string_buffer(8)
    body = struct.pack("<QIIII", ctypes.addressof(answer), handle, count, pieces, size) + extra
    head = struct.pack("<IHH", POST_SEND, (8 + len(body)) // 4, 1)
    try:
        os.write(context().cmd_fd, head + body)
    except OSError:
        return False
    return True
