# SPDX-License-Identifier: GPL-2.0
"""Work requests and their completions, for the transport tests: bytes to send, statuses to expect."""

import os

import enums as e
from tap import equal

RXE = os.environ["DRIVER"] == "rxe"
SEND, WRITE, READ = e.IBV_WR_SEND, e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ
SEND_IMM, WRITE_IMM = e.IBV_WR_SEND_WITH_IMM, e.IBV_WR_RDMA_WRITE_WITH_IMM
SIGNALED, SOLICITED, FENCE, INLINE = e.IBV_SEND_SIGNALED, e.IBV_SEND_SOLICITED, e.IBV_SEND_FENCE, e.IBV_SEND_INLINE
OK = e.IBV_WC_SUCCESS
FLUSHED = e.IBV_WC_WR_FLUSH_ERR
# Lengths around a packet of 1024 bytes, and more than the initial window.
LENGTHS = (0, 1, 2, 3, 4, 1023, 1024, 1025, 2048, 4097, 65536)


# What follows from the first byte of a row of 251, for each place in it.
_ROWS = bytes(index * 7 & 0xFF for index in range(256 + 251))


def pattern(length, seed):
    """Returns bytes that depend on their place: (index * 7 + seed + index // 251) & 0xFF."""
    # A row begins with the byte 7 * 251 * row + seed + row; 183 * 7 & 0xFF is 1.
    starts = ((1758 * row + seed) * 183 & 0xFF for row in range(-(-length // 251)))
    return b"".join(_ROWS[start:start + 251] for start in starts)[:length]


def fill(end, data, offset=0):
    """Writes bytes into an end's memory."""
    if data:
        end.mr.write(data, len(data), offset)


def held(end, length, offset=0):
    """Returns bytes of an end's memory."""
    data = end.mr.read(length, offset) if length else b""
    return data.encode("latin-1") if isinstance(data, str) else bytes(data)


def piece(end, length, offset=0):
    """Returns a scatter/gather list for a length; an empty one for zero bytes."""
    return [end.sge(offset, length)] if length else []


def status(end, wanted, what, seconds=5):
    """Checks the status of the next completion, and returns the completion."""
    found = end.completion(seconds)
    equal(e_name(found.status), e_name(wanted), what)
    return found


_NAMES = {getattr(e, name): name for name in dir(e) if name.startswith("IBV_WC_")
          and (name.endswith("_ERR") or name == "IBV_WC_SUCCESS")}


def e_name(number):
    """Returns the name of a status, for messages."""
    return _NAMES.get(number, number)
