# SPDX-License-Identifier: GPL-2.0
"""Many queue pairs of every service run for a long time over a wire that may be bad, and every byte is checked.

Several processes share the connections between DEV and PEER_DEV; soak_ends.py implements the connections.
SOAK_SECONDS is the duration, SOAK_QPS the number of queue pairs, SEED the seed of the random choices.
"""

import ctypes
import os
import random
import struct
import time
import traceback

from pyverbs.device import Context

from soak_ends import Datagrams, Pool, Reliable, Unreliable
from tap import equal, run, true

SECONDS = float(os.environ.get("SOAK_SECONDS", "20"))
PAIRS = int(os.environ.get("SOAK_QPS", "40")) // 2
SEED = int(os.environ.get("SEED", "4791"))
PROCESSES = 4
# Result of a connection: its number, and the numbers of messages begun, arrived and lost.
RESULT = struct.Struct("=IQQQ")
# Makes the memory of an end a mapping of its own, which goes away with it. In the heap, small long-lived objects
# would surround it, and the next end's memory would be placed behind it: half a KiB for each message. User-mode Linux
# maps every page of a process on its host; once the host allows no more mappings (vm.max_map_count), the process
# hangs.
M_MMAP_THRESHOLD, THRESHOLD = -3, 32 << 10


def made(numbers, chance, contexts):
    """Returns the connections with these numbers."""
    pool = Pool(contexts[1])
    found = {}
    for number in numbers:
        if number >= PAIRS * 9 // 10:
            found[number] = Datagrams(chance, contexts)
        elif number % 10 == 6:
            found[number] = Unreliable(chance, contexts)
        else:
            found[number] = Reliable(chance, contexts, pool if number % 10 > 6 else None)
    return found


def work(process, out):
    """Body of one process: its connections run side by side until the time is up and something has arrived over each
    of them; then all begun messages finish.
    """
    contexts = [Context(name=os.environ[name]) for name in ("DEV", "PEER_DEV")]
    connections = made(range(process, PAIRS, PROCESSES), random.Random(SEED + process), contexts)
    stop = time.monotonic() + SECONDS
    begin = True
    while begin or not all(one.idle() for one in connections.values()):
        busy = [one.step(begin) for one in connections.values()]
        if not any(busy):
            time.sleep(0.001)
        begin = begin and (time.monotonic() < stop or not all(one.arrived for one in connections.values()))
    for number, one in connections.items():
        true(not isinstance(one, Reliable) or one.arrived == one.number, f"{one.arrived} of {one.number} completed")
        os.write(out, RESULT.pack(number, one.number, one.arrived, one.lost))


def begun(process, out):
    """Starts a process; returns its PID."""
    child = os.fork()
    if child:
        return child
    try:
        work(process, out)
        os._exit(0)
    except BaseException:  # pylint: disable=broad-except
        print("".join(f"# {line}\n" for line in traceback.format_exc(limit=-4).splitlines()), end="", flush=True)
        os._exit(1)


def soak():
    """All messages of reliable queue pairs arrive, and those of other services arrive whole"""
    equal(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, THRESHOLD), 1, "mallopt() supports the parameter")
    back, out = os.pipe()
    children = [begun(process, out) for process in range(PROCESSES)]
    os.close(out)
    results = []
    while data := os.read(back, RESULT.size):
        results.append(RESULT.unpack(data))
    equal([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], [0] * PROCESSES, "exit codes")
    equal(sorted(number for number, *_ in results), list(range(PAIRS)), "connections")
    done, arrived, lost = (sum(column) for column in list(zip(*results))[1:])
    print(f"# seed {SEED}: {done} messages over {PAIRS} connections, {arrived} arrived, {lost} of unreliable ones "
          "were lost", flush=True)


if __name__ == "__main__":
    run([soak])
