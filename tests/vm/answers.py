# SPDX-License-Identifier: GPL-2.0
"""Answers to READs that the network of this machine does not let go of: the interface is slower than the processor, or
somebody keeps them. Nobody acknowledges them, and all the same they do not fill its queue, nor wait for ever.

	DEV over v0, which is slow ------ PEER_DEV over v1, in namespace b
"""

import contextlib
import json
import os
import socket
import subprocess
import time

import pyverbs.enums as e

from mapping import DONTNEED, PAGE, Memory
from odp import Region
from odp_races import userfault
from rc import SLOWNESS, across, readable
from tap import Skip, equal, run, true
from wire import ETH_ALL, SO_RCVBUFFORCE, Wire
from work import FLUSHED, OK, READ, WRITE, fill, held, pattern, status

# A READ takes a second or so, of 20 Mbit/s in a queue that would hold ten of them; there are slower interfaces.
LENGTH, RATE, SLOWER, LIMIT = 2 << 20, "20mbit", "2mbit", 20 << 20
# What may wait, in bytes: less than what a requester asks for at a time, which is 256 packets.
MOST = 768 << 10
# More than may wait, with a buffer around each byte, and less by some bursts.
KEPT = 768 << 10


def tc(*words):
    """What `tc` prints."""
    return subprocess.run(["tc", *words], capture_output=True, text=True, check=True).stdout


def waiting():
    """Bytes that wait in the queue."""
    return json.loads(tc("-s", "-j", "qdisc", "show", "dev", os.environ["NETDEV"], "root"))[0]["backlog"]


@contextlib.contextmanager
def slow(rate):
    """The interface takes so long for what it takes, of which a whole burst passes at once."""
    try:
        tc("qdisc", "replace", "dev", os.environ["NETDEV"], "root", "tbf", "rate", rate, "burst", "80000", "limit",
           str(LIMIT))
    except subprocess.CalledProcessError as error:
        raise Skip("no sch_tbf in this kernel") from error
    try:
        yield
    finally:
        tc("qdisc", "del", "dev", os.environ["NETDEV"], "root")


def read_slowly(rate):
    """A READ over such an interface comes whole, and little of it waits there."""
    with across({"size": LENGTH}, {"size": LENGTH}, timeout=20, path_mtu=e.IBV_MTU_4096) as (here, there):
        fill(here, pattern(LENGTH, 3))
        with slow(rate):
            there.send(READ, pieces=[there.sge()], remote=here.remote())
            end, most, found = time.monotonic() + 60 * SLOWNESS, 0, []
            while not found and time.monotonic() < end:
                most = max(most, waiting())
                found = there.cq.poll(1)[1]
        equal([wc.status for wc in found], [OK], "what the READ completes with")
        equal(held(there, LENGTH), pattern(LENGTH, 3), "what it has read")
    print(f"# at most {most} bytes waited", flush=True)
    true(0 < most < MOST, f"{most} bytes waited in the queue, of {LENGTH}")


def slow_interface():
    """Long answers over a slow interface wait in memory, not in its queue, and come whole"""
    read_slowly(RATE)


def slower_interface():
    """So do those over one that takes longer for each burst than it would take to tell that it is stuck"""
    read_slowly(SLOWER)


def late_page():
    """A page that comes late behind them is waited for: the peer, who has not asked again, hears nothing"""
    memory, most = Memory(LENGTH), LENGTH - PAGE
    memory.write(pattern(most, 7))
    # It may have come as a part of a huge one.
    memory.advise(DONTNEED, most)
    with across({}, {"size": LENGTH}, timeout=20, rnr_retry=0) as (here, there):
        region = Region(here, memory)
        # Brings all but the last page.
        there.send(READ, pieces=[there.sge(0, most)], remote=region.remote())
        equal(there.completion(60).status, OK, "what the first READ completes with")
        fault = userfault(memory)
        with slow(RATE):
            there.send(READ, pieces=[there.sge()], remote=region.remote())
            true(readable(fault.fd, 30), "nobody misses the page")
            address = fault.wanted()
            there.silent(0.3)
            fault.give(address)
            equal(there.completion(60).status, OK, "what the READ completes with")
        equal(held(there, LENGTH), pattern(most, 7) + bytes(PAGE), "what it has read")
        fault.close()
        region.close()
    memory.unmap()


def side_by_side():
    """Long answers of several connections advance side by side"""
    length, depth, count = 8 << 20, 2, 4
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(across({"size": length}, {"size": length}, timeout=0)) for _ in range(count)]
        done = [0] * count
        for here, there in ends * depth:
            there.send(READ, pieces=[there.sge()], remote=here.remote())
        end = time.monotonic() + 60 * SLOWNESS
        while sum(done) < 10 * count and time.monotonic() < end:
            for at, (here, there) in enumerate(ends):
                for wc in there.cq.poll(depth)[1]:
                    equal(wc.status, OK)
                    done[at] += 1
                    there.send(READ, pieces=[there.sge()], remote=here.remote())
        print(f"# READs that have completed: {done}", flush=True)
        true(sum(done) >= 10 * count, f"not within {60 * SLOWNESS} s: {done}")
        for _, there in ends:
            there.completions(depth, 60)
    # One that has a processor for itself may well have more than the others together.
    true(min(done) > 1, f"some connections wait for others: {done}")


@contextlib.contextmanager
def kept(most=32 << 20):
    """Somebody takes copies of what leaves by the interface and does not read them: they share the buffers."""
    with Wire.opened(os.environ["NETDEV"], ETH_ALL) as reader:
        reader.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, most)
        yield


def kept_answers():
    """Long answers of which somebody keeps copies go on, though nobody asks again"""
    with across({"size": KEPT}, {"size": KEPT}, timeout=0) as (here, there):
        fill(here, pattern(KEPT, 5))
        with kept():
            there.send(READ, pieces=[there.sge()], remote=here.remote())
            equal(there.completion(60).status, OK, "what the READ completes with")
        equal(held(there, KEPT), pattern(KEPT, 5), "what it has read")


def kept_first():
    """Where the first answers are kept, others wait for them at most once, on whatever processor they are asked for"""
    places, length = os.sched_getaffinity(0), 8192
    with across({"size": length}, {"size": length}, timeout=0) as (here, there), kept(64 << 10):
        try:
            for place in 16 * sorted(places):
                os.sched_setaffinity(0, {place})
                there.send(READ, pieces=[there.sge()], remote=here.remote())
                equal(there.completion().status, OK, "what a READ completes with")
        finally:
            os.sched_setaffinity(0, places)


def kept_failure():
    """A queue pair that fails behind them flushes its receives"""
    with across({"size": KEPT}, {"size": KEPT}, timeout=0) as (here, there), kept():
        here.receive(wr_id=7, pieces=[])
        there.send(READ, pieces=[there.sge()], remote=here.remote())
        equal(there.completion(60).status, OK, "what the READ completes with")
        # No more than the peer asks for at a time, and several bursts, each of which would wait for twice as long.
        there.send(READ, pieces=[there.sge(0, KEPT // 4)], remote=here.remote())
        there.send(WRITE, pieces=[there.sge(0, 8)], remote=(here.mr.buf, 0xBAD))
        equal(status(here, FLUSHED, "the receive").wr_id, 7)


if __name__ == "__main__":
    run([slow_interface, slower_interface, late_page, side_by_side, kept_answers, kept_first, kept_failure])
