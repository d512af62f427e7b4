# SPDX-License-Identifier: GPL-2.0
"""The rings of the ABI of ferroce's own provider (rdma/ferroce-abi.h). ring.py says what each name is."""

import ctypes
import struct

# FERROCE_MAGIC, which is the driver id, too; FERROCE_ABI_VERSION; enum ferroce_feature.
DRIVER = MAGIC = 0x46455252
VERSION, FEATURES = 1, 1
# struct ferroce_get_context_req, and the bytes of its response.
CONTEXT_REQUEST, CONTEXT_ANSWER = struct.pack("=IHHQ", MAGIC, VERSION, VERSION, FEATURES), 16

ENTRIES, STRIDE = SHAPE = (0, 4)
PRODUCER, CONSUMER, NO_DOORBELL, DATA = 64, 128, 132, 192
SEND_BYTES, RECEIVE_BYTES = 64, 16
RESULT_SGES = 1

# struct ferroce_send_wqe and struct ferroce_recv_wqe.
SEND = {"wr_id": (0, "Q"), "opcode": (8, "B"), "flags": (9, "B"), "num_sge": (10, "H"), "inline_length": (10, "H"),
        "imm": (12, "I"), "remote": (16, "Q"), "rkey": (24, "I"), "remote_srqn": (28, "I"),
        # What is in the place of the list: BIND_MW, atomics, FLUSH; and datagrams.
        "mw_length": (32, "Q"), "mr_lkey": (40, "I"), "mw_rkey": (24, "I"), "mw_key": (44, "I"),
        "mw_access": (48, "I"), "swap": (40, "Q"), "atomic_rkey": (24, "I"), "flush_rkey": (24, "I"),
        "flush_kind": (36, "H"), "ah_num": (24, "I"), "reserved": (28, "I")}
RECEIVE = {"wr_id": (0, "Q"), "num_sge": (8, "I"), "reserved": (12, "I")}
UNREAD = ("remote_srqn",)
# The reserved field of a datagram.
UNREAD_BYTES = slice(28, 32)
# Operations without a list, and where others have it; the result of an atomic operation is behind its operands.
ATOMICS, WITHOUT_LIST, LIST, RESULT = (5, 6), (7, 8, 14, 15), 32, 48
# Place of the turn in a completion.
TURN = 60


def shape(first, second):
    """See ring.py."""
    return 1 << max(second.bit_length() - 1, 0) % 16, 1 << max(first.bit_length() - 1, 0) % 24


def shape_words(element, places):
    """See ring.py."""
    return places, element


def capacity(places):
    """See ring.py."""
    return places


def index(number, _places):
    """See ring.py: indices count elements, and wrap around."""
    return number & 0xFFFFFFFF


def pieces_at(opcode):
    """See ring.py."""
    if opcode in WITHOUT_LIST:
        return None
    return RESULT if opcode in ATOMICS else LIST


def queues(rings):
    """See ring.py: the kernel has given the ring of sends its offset first."""
    return sorted(rings, key=lambda ring: ring.offset)[::-1]


def turn(ring, number):
    """Returns the turn of the element with this index."""
    return ctypes.c_uint32.from_address(ring.place(number) + TURN).value


def has_completion(ring, number):
    """See ring.py."""
    return turn(ring, number) == index(number + 1, ring.places)


def next_completion(ring):
    """See ring.py: before the indices wrap around."""
    return max(turn(ring, number) for number in range(ring.places))
