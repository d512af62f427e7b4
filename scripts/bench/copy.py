# SPDX-License-Identifier: GPL-2.0
"""How fast the processor copies: memmove over two buffers, as `memcpy` of the C library does it."""

import time


def _seconds(size, count):
    """Of so many copies, the same buffers again and again."""
    to, source = memoryview(bytearray(size)), memoryview(bytearray(b"x") * size)
    began = time.perf_counter()
    for _ in range(count):
        to[:] = source
    return time.perf_counter() - began


def speed(size, seconds=0.3):
    """Bytes per second. What the interpreter needs for a copy of one byte is taken off."""
    _seconds(size, 100)
    count = max(100, int(100 * seconds / _seconds(size, 100)))
    return size * count / (_seconds(size, count) - _seconds(1, count))
