# SPDX-License-Identifier: GPL-2.0
"""Answers to READs over an interface that is slower than the processor: nobody acknowledges them, and all the same they
do not fill its queue.

	DEV over v0, which is slow ------ PEER_DEV over v1, in namespace b
"""

import json
import os
import subprocess
import time

from rc import SLOWNESS, across
from tap import Skip, equal, run, true
from work import OK, READ, fill, held, pattern

# A READ takes a second or so, of 20 Mbit/s in a queue that would hold ten of them.
LENGTH, RATE, LIMIT = 2 << 20, "20mbit", 20 << 20
# What may wait, in bytes: a part of what a READ asks for.
MOST = LENGTH * 3 // 4


def tc(*words):
    """What `tc` prints."""
    return subprocess.run(["tc", *words], capture_output=True, text=True, check=True).stdout


def waiting():
    """Bytes that wait in the queue."""
    return json.loads(tc("-s", "-j", "qdisc", "show", "dev", os.environ["NETDEV"], "root"))[0]["backlog"]


def slow_interface():
    """Long answers over a slow interface wait in memory, not in its queue, and come whole"""
    with across({"size": LENGTH}, {"size": LENGTH}, timeout=20) as (here, there):
        fill(here, pattern(LENGTH, 3))
        try:
            # A whole burst passes at once.
            tc("qdisc", "replace", "dev", os.environ["NETDEV"], "root", "tbf", "rate", RATE, "burst", "80000", "limit",
               str(LIMIT))
        except subprocess.CalledProcessError as error:
            raise Skip("no sch_tbf in this kernel") from error
        there.send(READ, pieces=[there.sge()], remote=here.remote())
        end, most, found = time.monotonic() + 60 * SLOWNESS, 0, []
        while not found and time.monotonic() < end:
            most = max(most, waiting())
            found = there.cq.poll(1)[1]
        tc("qdisc", "del", "dev", os.environ["NETDEV"], "root")
        equal([wc.status for wc in found], [OK], "what the READ completes with")
        equal(held(there, LENGTH), pattern(LENGTH, 3), "what it has read")
    print(f"# at most {most} bytes waited", flush=True)
    true(0 < most < MOST, f"{most} bytes waited in the queue, of {LENGTH}")


if __name__ == "__main__":
    run([slow_interface])
