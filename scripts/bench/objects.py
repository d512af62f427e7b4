# SPDX-License-Identifier: GPL-2.0
"""What objects cost: kernel memory of a queue pair and of a memory region, and the time to make them and to give them
back.

Runs in the guest, as a program: `objects.py RUN DEVICE`, where the run is `memory`, `give_back` or one of `SIZES`. Its
last line is a JSON object. Uses pyverbs; what does not fit into the machine's memory is left out of the result.
"""

import ctypes
import json
import mmap
import os
import signal
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
#: Regions of a process that is killed, and how often one is.
REGIONS, KILLED = 3000, 3


def _meminfo():
    """/proc/meminfo in bytes."""
    found = {}
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            name, amount = line.split(":")
            found[name] = int(amount.split()[0]) * KIB
    return found


def kernel_memory():
    """Bytes of the kernel's allocators. What is not free is no measure: pages also wait in lists of each processor,
    from which hundreds of queue pairs were partly served."""
    info = _meminfo()
    return info["Slab"] + info["VmallocUsed"] + info["PageTables"] + info["Percpu"]


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


def make(domain, queue):
    """A queue pair. Its attributes are its own: the library returns the granted depths in them, which are larger."""
    caps = QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH, max_send_sge=1, max_recv_sge=1)
    return QP(domain, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=queue, rcq=queue, cap=caps))


def per_qp(context):
    """Kernel memory of one queue pair with all its queues, before it is connected, bytes."""
    with PD(context) as domain, CQ(context, DEPTH) as queue:
        # The first ones make what all share.
        held = [make(domain, queue) for _ in range(8)]
        before = kernel_memory()
        held += [make(domain, queue) for _ in range(QPS)]
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


def median(once):
    """The median of what `once` returns: seconds, as microseconds."""
    taken, end = [], time.monotonic() + SECONDS
    while len(taken) < FEWEST or (len(taken) < MOST and time.monotonic() < end):
        taken.append(once())
    return statistics.median(taken) * 1e6


def register(context, size, both=False):
    """Microseconds to register memory whose pages are there, or to register and deregister it."""
    held = Touched(size)
    with PD(context) as domain:

        def once():
            began = time.perf_counter()
            region = MR(domain, size, ACCESS, address=held.address)
            registered = time.perf_counter()
            region.close()
            return (time.perf_counter() if both else registered) - began

        found = median(once)
    held.close()
    return found


def queue_pair(context):
    """Microseconds to create and destroy a queue pair."""
    with PD(context) as domain, CQ(context, DEPTH) as queue:

        def once():
            began = time.perf_counter()
            make(domain, queue).close()
            return time.perf_counter() - began

        return median(once)


def hold_regions(device, ready):
    """Registers many regions, says so, and sleeps until it is killed."""
    held = Touched(REGIONS * mmap.PAGESIZE)
    domain = PD(Context(name=device))
    at = range(held.address, held.address + REGIONS * mmap.PAGESIZE, mmap.PAGESIZE)
    regions = [MR(domain, mmap.PAGESIZE, ACCESS, address=address) for address in at]
    os.write(ready, b"%d" % len(regions))
    signal.pause()


def killed(device):
    """Milliseconds until a process with many regions is gone after it was killed."""
    taken = []
    for _ in range(KILLED):
        end, ready = os.pipe()
        child = os.fork()
        if not child:
            try:
                hold_regions(device, ready)
            finally:
                os._exit(1)
        os.close(ready)
        if int(os.read(end, 8) or b"0") != REGIONS:
            raise RuntimeError("the regions could not be registered")
        os.close(end)
        began = time.perf_counter()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e3


def give_back(device):
    """What it takes to give objects back, and to make them before that."""
    with Context(name=device) as context:
        found = {
            "k4": register(context, 4 * KIB, both=True),
            "m64": register(context, 64 * MIB, both=True),
            "qp": queue_pair(context),
        }
    return {**found, "killed": killed(device)}


def main():
    what, device = sys.argv[1:]
    if what == "give_back":
        found = give_back(device)
    else:
        with Context(name=device) as context:
            if what == "memory":
                found = {"per_qp": per_qp(context) / KIB, "per_gib": per_gib(context) / MIB}
            else:
                room = _meminfo()["MemAvailable"] * 9 // 10
                found = {name: register(context, size) for name, size in SIZES[what].items() if size < room}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
