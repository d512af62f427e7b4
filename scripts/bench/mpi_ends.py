# SPDX-License-Identifier: GPL-2.0
"""Two ranks of MPI, one at each end: how long a ping-pong and a sum over both take. The first prints a JSON object: its
keys are those of the run `mpi` in bench.work.

Runs in the guest, without the rest of the package.
"""

import array
import json
import statistics
import time

from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
MIB = 1 << 20


def there_and_back(block):
    """Sends a block to the other rank, which returns it."""
    for sender in (0, 1):
        if RANK == sender:
            WORLD.Send(block, dest=1 - RANK)
        else:
            WORLD.Recv(block, source=1 - RANK)


def durations(times, function, *arguments):
    """Microseconds of so many calls, without those of the first tenth, which make connections and touch memory."""
    taken = []
    WORLD.Barrier()
    for _ in range(times):
        began = time.perf_counter()
        function(*arguments)
        taken.append((time.perf_counter() - began) * 1e6)
    return taken[times // 10 :]


def main():
    small = durations(1000, there_and_back, bytearray(8))
    large = durations(40, there_and_back, bytearray(MIB))
    found = {
        # One way, as the other latencies.
        "median": statistics.median(small) / 2,
        "p99": statistics.quantiles(small, n=100)[98] / 2,
        "mb": 2 * MIB / statistics.median(large),
    }
    for name, count, times in (("sum8", 1, 500), ("sum1m", MIB // 8, 20)):
        mine, total = array.array("d", [1.0] * count), array.array("d", [0.0] * count)
        found[name] = statistics.median(durations(times, WORLD.Allreduce, mine, total))
        assert total[-1] == 2.0, f"the sum of {count} is wrong: {total[-1]}"
    if RANK == 0:
        print(json.dumps(found))


main()
