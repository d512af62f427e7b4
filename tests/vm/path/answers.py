# SPDX-License-Identifier: GPL-2.0
"""READ responses that stay in the local stack, because the interface is slower than the CPU or another socket keeps
them. Nothing acknowledges them, yet they must neither fill the queue of the interface nor wait forever.

	DEV over v0, which is slow ------ PEER_DEV over v1, in namespace b
"""

import contextlib
import json
import os
import socket
import subprocess
import time

import enums as e
from counters import counter
from mapping import DONTNEED, PAGE, Memory
from odp import Region
from odp_races import userfault
from rc import DEVICE, SLOWNESS, across, readable
from tap import Skip, equal, run, true
from wire import ETH_ALL, SO_RCVBUFFORCE, Wire
from work import FLUSHED, OK, READ, WRITE, fill, held, pattern, status

# At 20 Mbit/s a READ takes about a second; the queue has room for ten. The second interface is slower.
LENGTH, RATE, SLOWER, LIMIT = 2 << 20, "20mbit", "2mbit", 20 << 20
# Limit of the bytes in the queue: less than one READ request of a requester, which is 256 packets.
MOST = 768 << 10
# More than may be in flight, counted with the buffer around each byte, but only by a few bursts.
KEPT = 768 << 10
# net.core.rmem_default. The option counts half.
DEFAULT_BUFFER = 212992


def tc(*words):
    """The output of `tc`."""
    return subprocess.run(["tc", *words], capture_output=True, text=True, check=True).stdout


def waiting():
    """Bytes in the queue."""
    return json.loads(tc("-s", "-j", "qdisc", "show", "dev", os.environ["NETDEV"], "root"))[0]["backlog"]


@contextlib.contextmanager
def slow(rate):
    """Limits the rate of the interface. A whole burst passes at once."""
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
    """A READ over a slow interface is complete, and few of its bytes are in the queue."""
    with across({"size": LENGTH}, {"size": LENGTH}, timeout=20, path_mtu=e.IBV_MTU_4096) as (here, there):
        fill(here, pattern(LENGTH, 3))
        with slow(rate):
            there.send(READ, pieces=[there.sge()], remote=here.remote())
            end, most, found = time.monotonic() + 60 * SLOWNESS, 0, []
            while not found and time.monotonic() < end:
                most = max(most, waiting())
                found = there.cq.poll(1)[1]
        equal([wc.status for wc in found], [OK], "status of the READ")
        equal(held(there, LENGTH), pattern(LENGTH, 3), "payload of the READ")
    print(f"# at most {most} bytes in the queue", flush=True)
    true(0 < most < MOST, f"{most} bytes in the queue, of {LENGTH}")


def slow_interface():
    """Long READ responses over a slow interface wait in memory, not in its queue, and arrive complete"""
    read_slowly(RATE)


def slower_interface():
    """Long READ responses over an interface slower than the stall timeout arrive complete"""
    read_slowly(SLOWER)


def late_page():
    """The responder faults in a page of a long READ without a NAK, and the requester does not retransmit"""
    memory, most = Memory(LENGTH), LENGTH - PAGE
    memory.write(pattern(most, 7))
    # The page may be resident as a part of a huge page.
    memory.advise(DONTNEED, most)
    with across({}, {"size": LENGTH}, timeout=20, rnr_retry=0) as (here, there):
        region = Region(here, memory)
        # Faults in all pages but the last.
        there.send(READ, pieces=[there.sge(0, most)], remote=region.remote())
        equal(there.completion(60).status, OK, "status of the first READ")
        # A fault brings in some memory behind what was asked for.
        memory.advise(DONTNEED, most)
        fault = userfault(memory)
        with slow(RATE):
            there.send(READ, pieces=[there.sge()], remote=region.remote())
            true(readable(fault.fd, 30), "no page fault")
            address = fault.wanted()
            there.silent(0.3)
            fault.give(address)
            equal(there.completion(60).status, OK, "status of the READ")
        equal(held(there, LENGTH), pattern(most, 7) + bytes(PAGE), "payload of the READ")
        fault.close()
        region.close()
    memory.unmap()


def side_by_side():
    """Long READ responses of several connections advance side by side"""
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
    # A connection with a CPU of its own may get more than all others together.
    true(min(done) > 1, f"some connections starve: {done}")


@contextlib.contextmanager
def kept(most=32 << 20):
    """A packet socket copies the packets that leave the interface and does not read them: the copies share the
    buffers."""
    with Wire.opened(os.environ["NETDEV"], ETH_ALL) as reader:
        reader.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, most)
        yield


def kept_answers():
    """Long READ responses continue although copies are kept"""
    with across({"size": KEPT}, {"size": KEPT}, timeout=0) as (here, there):
        fill(here, pattern(KEPT, 5))
        with kept():
            there.send(READ, pieces=[there.sge()], remote=here.remote())
            equal(there.completion(60).status, OK, "status of the READ")
        equal(held(there, KEPT), pattern(KEPT, 5), "payload of the READ")


def kept_first():
    """When copies of the first responses are kept, later responses wait at most once, on any CPU"""
    places, length = os.sched_getaffinity(0), 8192
    with across({"size": length}, {"size": length}, timeout=0) as (here, there), kept(64 << 10):
        try:
            for place in 16 * sorted(places):
                os.sched_setaffinity(0, {place})
                there.send(READ, pieces=[there.sge()], remote=here.remote())
                equal(there.completion().status, OK, "status of a READ")
        finally:
            os.sched_setaffinity(0, places)


def kept_always():
    """A socket with a buffer of the default size, full of copies, does not slow later responses down"""
    length, count = 4 << 20, 8
    with across({"size": length}, {"size": length}, timeout=0, path_mtu=e.IBV_MTU_4096) as (here, there), \
            kept(DEFAULT_BUFFER // 2):
        before = counter("wake_local_stack", DEVICE)
        for _ in range(count):
            there.send(READ, pieces=[there.sge()], remote=here.remote())
        there.completions(count, 120)
        waits = counter("wake_local_stack", DEVICE) - before
    print(f"# {waits} waits", flush=True)
    true(waits < 4 * count, f"{waits} waits for {count} READs")


def kept_failure():
    """A QP that fails while copies of its responses are kept flushes its receives"""
    with across({"size": KEPT}, {"size": KEPT}, timeout=0) as (here, there), kept():
        here.receive(wr_id=7, pieces=[])
        there.send(READ, pieces=[there.sge()], remote=here.remote())
        equal(there.completion(60).status, OK, "status of the READ")
        # At most one request of the peer, in several bursts, each of which would wait for twice as long.
        there.send(READ, pieces=[there.sge(0, KEPT // 4)], remote=here.remote())
        there.send(WRITE, pieces=[there.sge(0, 8)], remote=(here.mr.buf, 0xBAD))
        equal(status(here, FLUSHED, "the receive").wr_id, 7)


if __name__ == "__main__":
    run([slow_interface, slower_interface, late_page, side_by_side, kept_answers, kept_first, kept_always,
         kept_failure])
