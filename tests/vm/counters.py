# SPDX-License-Identifier: GPL-2.0
"""The counters of devices, as the kernel shows them now."""

import time

# Longer than two ticks of any kernel that is used here.
_TICKS = 0.03
_read = {}


def counter(name, device):
    """A counter of a device's port. The core keeps what it read for 10 ms, unless it is told not to, and until the next
    tick in any case."""
    folder = f"/sys/class/infiniband/{device}/ports/1/hw_counters"
    with open(f"{folder}/lifespan", "w", encoding="ascii") as file:
        file.write("0")
    time.sleep(max(0, _read.get(device, 0) + _TICKS - time.monotonic()))
    with open(f"{folder}/{name}", encoding="ascii") as file:
        value = int(file.read())
    _read[device] = time.monotonic()
    return value
