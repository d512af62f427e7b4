# SPDX-License-Identifier: GPL-2.0
"""The counters of devices, as the kernel shows them now."""

import time

# The clock that goes by ticks, which may be late where processors are busy. Python has no name for it.
_CLOCK_MONOTONIC_COARSE = 6
_TWO_TICKS = 2 * time.clock_getres(_CLOCK_MONOTONIC_COARSE)
_read = {}


def counter(name, device):
    """A counter of a device's port. The core keeps what it read for 10 ms, unless it is told not to, and until the next
    tick in any case."""
    folder = f"/sys/class/infiniband/{device}/ports/1/hw_counters"
    with open(f"{folder}/lifespan", "w", encoding="ascii") as file:
        file.write("0")
    while time.clock_gettime(_CLOCK_MONOTONIC_COARSE) < _read.get(device, 0) + _TWO_TICKS:
        time.sleep(0.002)
    with open(f"{folder}/{name}", encoding="ascii") as file:
        value = int(file.read())
    _read[device] = time.clock_gettime(_CLOCK_MONOTONIC_COARSE)
    return value
