# SPDX-License-Identifier: GPL-2.0
"""The queues that a process shares with the kernel, as bytes: for a process that breaks the rules.

The rings are those that the provider library maps, found in /proc/self/maps. The doorbell is the post_send command,
without the library.

PROVIDER selects the ABI, a module with these names: ring_rxe.py, ring_direct.py.

	DRIVER                  the driver id
	CONTEXT_REQUEST         the request of get_context, and CONTEXT_ANSWER the bytes of its response
	SHAPE                   offsets of the two words of a head that say the shape of the ring
	shape(first, second)    what such words mean: bytes and number of elements
	shape_words(element, places)  the reverse
	PRODUCER, CONSUMER      offsets of the indices; DATA: that of the elements
	SEND, RECEIVE           fields of an element: {name: (offset, format)}
	SEND_BYTES              the size of an element without its list; RECEIVE_BYTES
	RESULT_SGES             how many SGEs the result of an atomic operation may have
	UNREAD, UNREAD_BYTES    fields of a send, and bytes of a datagram, that the kernel must not read
	capacity(places)        how many elements fit
	index(number, places)   the index of the element with this number
	pieces_at(opcode)       where the list of a send begins, None without one
	queues(rings)           the rings of a QP, that of receives first
	has_completion(ring, number)  whether the completion with this index is there
	next_completion(ring)   the index behind the last completion
"""

import ctypes
import os
import struct

import enums as e
import ring_direct
import ring_rxe
from rc import End, context
from ud import UdEnd

ABI = ring_direct if os.environ.get("PROVIDER") == "direct" else ring_rxe
PRODUCER, CONSUMER = ABI.PRODUCER, ABI.CONSUMER
POST_SEND = 28
# Of a completion, in both ABIs.
STATUS = 8


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
    """One mapped ring. Its copy of the shape is read before a test writes into it."""

    def __init__(self, start, end, offset):
        self.start, self.bytes, self.offset = start, end - start, offset
        self.element, self.places = ABI.shape(*(self.get(at) for at in ABI.SHAPE))

    def get(self, at):
        """Returns a u32 of the head."""
        return ctypes.c_uint32.from_address(self.start + at).value

    def put(self, at, value):
        """Sets a u32 of the head."""
        ctypes.c_uint32.from_address(self.start + at).value = value & 0xFFFFFFFF

    def put_shape(self):
        """Sets the words of the head that say the shape as the kernel has set them."""
        for at, value in zip(ABI.SHAPE, ABI.shape_words(self.element, self.places)):
            self.put(at, value)

    def place(self, index):
        """Returns the address of the element with this index."""
        return self.start + ABI.DATA + index % self.places * self.element

    def write(self, index, data):
        """Writes bytes into an element."""
        data = data[: self.element]
        ctypes.memmove(self.place(index), data, len(data))

    def produce(self, data):
        """Writes an element, and advances the producer index."""
        index = ABI.index(self.get(PRODUCER), self.places)
        self.write(index, data)
        self.put(PRODUCER, ABI.index(index + 1, self.places))

    def fill(self):
        """Advances the producer index until the ring is full."""
        self.put(PRODUCER, ABI.index(self.get(CONSUMER) + ABI.capacity(self.places), self.places))

    def take(self):
        """Takes a completion of a CQ that the library does not poll. Returns its status; None if there is none."""
        index = self.get(CONSUMER)
        if not ABI.has_completion(self, index):
            return None
        status = ctypes.c_uint32.from_address(self.place(index) + STATUS).value
        self.put(CONSUMER, ABI.index(index + 1, self.places))
        return status


def cut(layout, name, value):
    """Returns what a field holds of a value."""
    return value & (1 << 8 * struct.calcsize("=" + layout[name][1])) - 1


def put_fields(data, layout, fields):
    """Sets fields of an element. Those that only another ABI has are left out."""
    for name, value in fields.items():
        if name in layout:
            at, kind = layout[name]
            struct.pack_into("<" + kind, data, at, cut(layout, name, value))
        elif not any(name in other for abi in (ring_rxe, ring_direct) for other in (abi.SEND, abi.RECEIVE)):
            raise KeyError(name)


def put_pieces(data, at, pieces):
    """Sets the list of an element, whose SGEs are (address, length, lkey)."""
    if at is not None:
        sges = b"".join(struct.pack("<QII", *piece) for piece in pieces)
        data[at:at + len(sges)] = sges


def send_element(pieces, fields, abi=ABI):
    """Returns a send queue element with these fields and SGEs."""
    data = bytearray(abi.SEND_BYTES)
    put_pieces(data, abi.pieces_at(fields.get("opcode")), pieces)
    put_fields(data, abi.SEND, fields)
    return bytes(data)


def receive_element(pieces, fields, abi=ABI):
    """Returns a receive queue element with these fields and SGEs."""
    data = bytearray(abi.RECEIVE_BYTES)
    put_pieces(data, abi.RECEIVE_BYTES, pieces)
    put_fields(data, abi.RECEIVE, fields)
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
            self.sq_ring, self.rq_ring = self.rings[1:]
        else:
            self.rq_ring, self.sq_ring = ABI.queues(self.rings[1:])

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
        self.sq_ring.produce(send_element(pieces, {**usual, **fields}))
        if ring_bell:
            self.doorbell()

    def post_receive(self, pieces=None, **fields):
        """Posts a receive queue element with the given fields."""
        pieces = [self.piece()] if pieces is None else pieces
        total = sum(length for _, length, _ in pieces)
        usual = {"wr_id": 2, "length": total, "resid": total, "num_sge": len(pieces)}
        self.rq_ring.produce(receive_element(pieces, {**usual, **fields}))

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
        self.ring = ABI.queues(rings)[1]
        return qp

    def last_element(self):
        """Returns the element that the library posted last."""
        return ctypes.string_at(self.ring.place(self.ring.get(PRODUCER) - 1), self.ring.element)

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
