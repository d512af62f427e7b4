# SPDX-License-Identifier: GPL-2.0
"""Flushes of persistent memory, as an application sees them, and their effect on the processor's caches: a kprobe
reports the bytes that are written back.
"""

import contextlib
import errno
import os

from pyverbs.mr import MR

import enums as e
import mapping
import memory
import verbs
from atomics import ATOMIC, EXTENDED, OPS
from mapping import Memory
from memory import REREG_ACCESS, rereg
from mistakes import both_failed
from rc import PAGE, End, context, forget_events, pair
from tap import Skip, equal, not_for_rxe, run, true
from work import OK, READ, WRITE, fill, pattern, status
from work import held as bytes_held

DAX = "/dev/dax0.0"
TRACING = "/sys/kernel/tracing"
GLOBAL, PERSISTENT = e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_PERSISTENT
RANGE, WHOLE = e.IBV_FLUSH_RANGE, e.IBV_FLUSH_MR
RIGHTS = ATOMIC | e.IBV_ACCESS_FLUSH_GLOBAL | e.IBV_ACCESS_FLUSH_PERSISTENT
# More than one write-back step.
LARGE = 32 << 20


class lasting:  # pylint: disable=invalid-name
    """`with lasting() as (a, b, memory, region)`: a pair, and b's region of persistent memory."""

    def __init__(self, length=1 << 20, access=RIGHTS, rights=RIGHTS):
        not_for_rxe("supports only persistent memory of the firmware")
        if not os.path.exists(DAX):
            raise Skip("persistent memory (nd_e820, device DAX) in this kernel")
        self.pair = pair(**{**EXTENDED, "a": {"access": ATOMIC, "ops": OPS}, "rights": rights})
        self.length, self.access = length, access

    def __enter__(self):
        a, b = self.pair.__enter__()
        file = os.open(DAX, os.O_RDWR)
        self.memory = Memory(mapping.HUGE * 16, flags=mapping.SHARED, fd=file)
        os.close(file)
        self.region = MR(b.pd, self.length, self.access, address=self.memory.address)
        return a, b, self.memory, self.region

    def __exit__(self, *_):
        self.region.close()
        self.memory.unmap()
        self.pair.__exit__()


def setting(name, text):
    """Writes a file of the kernel's tracing, replacing its contents."""
    with open(f"{TRACING}/{name}", "w", encoding="ascii") as file:
        file.write(text)


@contextlib.contextmanager
def written_back():
    """Yields a list that receives (kernel address, bytes) of each write-back."""
    found = []
    try:
        setting("kprobe_events", "p:kprobes/lasting arch_wb_cache_pmem at=%di:u64 bytes=%si:u64\n")
    except OSError as error:
        raise Skip("probes in the kernel (CONFIG_KPROBE_EVENTS)") from error
    try:
        setting("events/kprobes/lasting/enable", "1")
        yield found
        setting("events/kprobes/lasting/enable", "0")
        with open(f"{TRACING}/trace", encoding="ascii") as file:
            for line in file:
                if " lasting: " in line:
                    found.append(tuple(int(word.split("=")[1]) for word in line.split()[-2:]))
    finally:
        setting("events/kprobes/lasting/enable", "0")
        setting("trace", "")
        setting("kprobe_events", "")


def flush(a, region, offset, length, placement=PERSISTENT, scope=RANGE, wanted=OK):
    """Sends one FLUSH, and checks its status."""
    a.order("flush", region.rkey, region.buf + offset, length, placement, scope)
    status(a, wanted, "the flush", 60)


def ordinary():
    """Registration of volatile memory for persistent flushes fails"""
    true(context().query_device_ex().device_cap_flags_ex & 1 << 39, "the device claims persistent flushes")
    end = End()
    try:
        for flags, code in ((RIGHTS, errno.EINVAL), (RIGHTS | e.IBV_ACCESS_ON_DEMAND, errno.EOPNOTSUPP)):
            if flags & e.IBV_ACCESS_ON_DEMAND:
                not_for_rxe("does not check memory on demand")
            verbs.refused(lambda flags=flags: MR(end.pd, PAGE, flags), code)
        not_for_rxe("reregisters it without a check")
        for flags in (0, e.IBV_ACCESS_ON_DEMAND):
            region = MR(end.pd, PAGE, ATOMIC | flags)
            code = errno.EOPNOTSUPP if flags else errno.EINVAL
            memory.refused(code, lambda region=region, flags=flags: rereg(region, REREG_ACCESS, access=RIGHTS | flags))
            region.close()
    finally:
        end.close()


def ranges():
    """A FLUSH writes back exactly its bytes, and completes after earlier writes"""
    with lasting() as (a, _, held, region):
        held.write(bytes(region.length))
        fill(a, pattern(4096, 1))
        places = ((0, 64), (100, 1), (4000, 4096), (region.length - 8, 8), (0, region.length))
        starts = []
        for offset, length in places:
            with written_back() as found:
                a.order("rdma_write", region.rkey, region.buf + offset, pieces=[a.sge(0, min(length, 4096))], flags=0)
                flush(a, region, offset, length)
                equal(held.read(min(length, 4096), offset), pattern(4096, 1)[:length])
            # A range of more than one step starts again from its beginning.
            starts.append(min(at for at, _ in found))
            equal(max(at + count for at, count in found) - starts[-1], length, f"bytes from {offset}")
        equal([start - starts[0] for start in starts], [offset for offset, _ in places])


def whole():
    """A FLUSH of a region writes all of it back, however large"""
    with lasting(LARGE) as (a, _, held, region):
        held.write(bytes(LARGE))
        with written_back() as found:
            a.order("flush", region.rkey, 0, 0, PERSISTENT, WHOLE)
            # The request behind it waits.
            a.order("rdma_write", region.rkey, region.buf, pieces=[a.sge(0, 8)])
            status(a, OK, "the flush", 60)
            status(a, OK, "the request behind it", 60)
        places = sorted(set(found))
        equal(sum(count for _, count in places), LARGE, "bytes, each once")
        equal([at for at, _ in places[1:]], [at + count for at, count in places[:-1]], "places")
        # The first step runs before the rest is deferred, and again in the deferred work.
        again = len(found) - len(places)
        true(again <= 2, f"{again} steps were repeated")


def placements():
    """Only a FLUSH with persistent placement writes bytes back"""
    with lasting() as (a, _, _, region):
        for placement, count in ((GLOBAL, 0), (PERSISTENT, 64), (GLOBAL | PERSISTENT, 64)):
            with written_back() as found:
                flush(a, region, 0, 64, placement)
            equal(sum(count for _, count in found), count, f"placement {placement}")
        with written_back() as found:
            flush(a, region, 0, 0)
        equal(found, [], "of no bytes")


def refusals():
    """A FLUSH without the right, or outside its region, is refused and writes nothing back"""
    access, invalid = e.IBV_WC_REM_ACCESS_ERR, e.IBV_WC_REM_INV_REQ_ERR
    less = RIGHTS & ~e.IBV_ACCESS_FLUSH_PERSISTENT
    for wanted, settings, offset, placement in (
            (access, {"access": less}, 0, PERSISTENT), (access, {"access": less}, 0, GLOBAL | PERSISTENT),
            (invalid, {"rights": less}, 0, PERSISTENT), (access, {}, (1 << 20) - 63, PERSISTENT)):
        forget_events()
        with lasting(**settings) as (a, b, _, region), written_back() as found:
            flush(a, region, offset, 64, placement, wanted=wanted)
            both_failed(a, b)
        equal(found, [], "bytes written back")
    forget_events()


def reregistered():
    """A region of persistent memory can gain the flush right by reregistration"""
    with lasting(access=ATOMIC) as (a, _, _, region):
        rereg(region, REREG_ACCESS, access=RIGHTS)
        with written_back() as found:
            flush(a, region, 0, 128)
        equal(sum(count for _, count in found), 128)


def destroyed():
    """A queue pair and its region can be destroyed during a long FLUSH"""
    for _ in range(5):
        with lasting(LARGE) as (a, _, _, region):
            for _ in range(4):
                a.order("flush", region.rkey, 0, 0, PERSISTENT, WHOLE)


def sources():
    """Persistent memory can be sent and read like any other"""
    with lasting() as (a, b, held, region):
        held.write(pattern(200000, 3)[:1 << 16])
        a.send(READ, pieces=[a.sge(0, 1 << 16)], remote=(region.buf, region.rkey))
        status(a, OK, "read")
        equal(bytes_held(a, 1 << 16), pattern(200000, 3)[:1 << 16])
        fill(a, bytes(1 << 16))
        b.send(WRITE, pieces=[b.sge(0, 1 << 16, mr=region)], remote=a.remote())
        status(b, OK, "write")
        equal(bytes_held(a, 1 << 16), pattern(200000, 3)[:1 << 16])


run((ordinary, ranges, whole, placements, refusals, reregistered, destroyed, sources))
