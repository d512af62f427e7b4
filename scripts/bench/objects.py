# SPDX-License-Identifier: GPL-2.0
"""What objects cost: kernel memory of a queue pair and of a memory region, and the time to register memory.

Runs in the guest, as a program: `objects.py RUN DEVICE`, where the run is `memory` or one of `SIZES`. Its last line is
a JSON object. Uses pyverbs; what does not fit into the machine's memory is left out of the result.
"""

import ctypes
import json
import mmap
import statistics
import sys
import time

import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
QPS = 400
#: The queues of a connection as perftest makes them.
DEPTH = 128
REGION = 256 * MIB
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
#: The sizes to register, by run and the name of its figure.
SIZES = {
    "register": {"k4": 4 * KIB, "k64": 64 * KIB, "m1": MIB, "m16": 16 * MIB},
    "register_256mib": {"m256": 256 * MIB},
    "register_1gib": {"g1": GIB},
    "register_4gib": {"g4": 4 * GIB},
}
#: Seconds to spend on one size, and the most and the fewest times.
SECONDS, MOST, FEWEST = 0.3, 50, 2


def _meminfo():
    """/proc/meminfo in bytes."""
    found = {}
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            name, amount = line.split(":")
            found[name] = int(amount.split()[0]) * KIB
    return found


def kernel_memory():
    """Bytes that the kernel has for itself: neither free, nor of a program, nor a cached file."""
    info = _meminfo()
    return info["MemTotal"] - info["MemFree"] - info["AnonPages"] - info["Cached"] - info["Buffers"]


class Touched:
    """Memory of a program, every page of it there."""

    def __init__(self, size):
        self.map = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
        self.bytes = ctypes.c_char.from_buffer(self.map)
        self.address = ctypes.addressof(self.bytes)

    def close(self):
        """Frees it."""
        del self.bytes
        self.map.close()


def per_qp(context):
    """Kernel memory of one queue pair with all its queues, bytes."""
    with PD(context) as domain, CQ(context, DEPTH) as queue:
        caps = QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH, max_send_sge=1, max_recv_sge=1)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=queue, rcq=queue, cap=caps)
        # The first ones make what all share.
        held = [QP(domain, init) for _ in range(8)]
        before = kernel_memory()
        held += [QP(domain, init) for _ in range(QPS)]
        after = kernel_memory()
        for qp in held:
            qp.close()
    return (after - before) / QPS


def per_gib(context):
    """Kernel memory of a region of one GiB, bytes."""
    held = Touched(REGION)
    with PD(context) as domain:
        MR(domain, REGION, ACCESS, address=held.address).close()
        before = kernel_memory()
        region = MR(domain, REGION, ACCESS, address=held.address)
        after = kernel_memory()
        region.close()
    held.close()
    return (after - before) * (GIB // REGION)


def register(context, size):
    """Microseconds to register memory whose pages are there."""
    held = Touched(size)
    taken, end = [], time.monotonic() + SECONDS
    with PD(context) as domain:
        while len(taken) < FEWEST or (len(taken) < MOST and time.monotonic() < end):
            began = time.perf_counter()
            region = MR(domain, size, ACCESS, address=held.address)
            taken.append(time.perf_counter() - began)
            region.close()
    held.close()
    return statistics.median(taken) * 1e6


def main():
    what, device = sys.argv[1:]
    with Context(name=device) as context:
        if what == "memory":
            found = {"per_qp": per_qp(context) / KIB, "per_gib": per_gib(context) / MIB}
        else:
            room = _meminfo()["MemAvailable"] * 9 // 10
            found = {name: register(context, size) for name, size in SIZES[what].items() if size < room}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
