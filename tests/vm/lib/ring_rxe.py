# SPDX-License-Identifier: GPL-2.0
"""The rings of rdma_rxe's ABI (rdma/rdma_user_rxe.h). ring.py says what each name is."""

# enum rdma_driver_id.
DRIVER = 14
CONTEXT_REQUEST, CONTEXT_ANSWER = b"", 0

LOG2_ELEMENT, INDEX_MASK = SHAPE = (0, 4)
PRODUCER, CONSUMER, DATA = 128, 256, 384
SEND_BYTES, RECEIVE_BYTES = 208, 40
# No limit of the ABI's.
RESULT_SGES = 32

# struct rxe_send_wqe and struct rxe_recv_wqe.
SEND = {"wr_id": (0, "Q"), "opcode": (12, "I"), "flags": (16, "I"), "imm": (20, "I"), "remote": (24, "Q"),
        "rkey": (32, "I"), "status": (144, "I"), "state": (148, "I"), "iova": (152, "Q"), "mask": (160, "I"),
        "first_psn": (164, "I"), "last_psn": (168, "I"), "ack_length": (172, "I"), "ssn": (176, "I"),
        "has_rd_atomic": (180, "I"), "length": (184, "I"), "inline_length": (184, "I"), "resid": (188, "I"),
        "cur_sge": (192, "I"), "num_sge": (196, "I"), "sge_offset": (200, "I"),
        # The meaning of the union depends on the operation: BIND_MW, atomics, FLUSH, datagrams.
        "mw_length": (32, "Q"), "mr_lkey": (40, "I"), "mw_rkey": (44, "I"), "mw_key": (48, "I"),
        "mw_access": (52, "I"), "swap": (40, "Q"), "atomic_rkey": (48, "I"), "flush_rkey": (36, "I"),
        "flush_kind": (40, "I"), "ah_num": (36, "I")}
RECEIVE = {"wr_id": (0, "Q"), "length": (16, "I"), "resid": (20, "I"), "cur_sge": (24, "I"), "num_sge": (28, "I"),
           "sge_offset": (32, "I")}
# Where rdma_rxe keeps its progress.
UNREAD = ("status", "state", "mask", "first_psn", "last_psn", "ack_length", "ssn", "has_rd_atomic", "iova")
# The address vector of a datagram.
UNREAD_BYTES = slice(40, 144)


def shape(first, second):
    """See ring.py."""
    return 1 << (first & 15), (second & 0xFFFFFF) + 1


def shape_words(element, places):
    """See ring.py."""
    return element.bit_length() - 1, places - 1


def capacity(places):
    """See ring.py: one place stays empty."""
    return places - 1


def index(number, places):
    """See ring.py: an index is a place."""
    return number & places - 1


def pieces_at(_opcode):
    """See ring.py: the list follows, whatever the operation is."""
    return SEND_BYTES


def queues(rings):
    """See ring.py: the elements of the receive queue are the smaller ones."""
    return sorted(rings, key=lambda ring: ring.element)


def has_completion(ring, number):
    """See ring.py."""
    return ring.get(PRODUCER) != index(number, ring.places)


def next_completion(ring):
    """See ring.py."""
    return ring.get(PRODUCER)
