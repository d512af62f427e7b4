# SPDX-License-Identifier: GPL-2.0
"""The current counters of devices."""

import time

# CLOCK_MONOTONIC_COARSE advances by ticks, which may be late on busy CPUs. Python has no name for it.
_CLOCK_MONOTONIC_COARSE = 6
_TWO_TICKS = 2 * time.clock_getres(_CLOCK_MONOTONIC_COARSE)
_read = {}


def counter(name, device):
    """Returns a counter of a device's port. The core caches counters for 10 ms unless lifespan is 0, and until the next
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
