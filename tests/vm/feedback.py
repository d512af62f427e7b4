# SPDX-License-Identifier: GPL-2.0
"""Chance that learns from what it reaches.

Whoever acts by chance makes each action from one number, and a plan is some of them that begin with nothing. The kernel
notes which places of the driver a thread comes by (KCOV, Documentation/dev-tools/kcov.rst, where only the driver is
compiled for it); if an action of a plan went from one place to another as none did before, the plan so far is kept,
and all threads of all processes follow it with changes. What is done with a number is not known here. Without KCOV,
there are no plans.
"""

import ctypes
import fcntl
import mmap
import os
import random
import struct

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]

KCOV = "/sys/kernel/debug/kcov"
KCOV_INIT_TRACE, KCOV_ENABLE, TRACE_PC = 0x80086301, 0x6364, 0
# Places of one action, of 8 bytes; what comes after that many is not seen.
PLACES = 1 << 16
# Ways that all have gone are remembered by so many bits of a hash.
WAYS = 1 << 20
# Most actions of a lesson, and the bytes of a number.
LENGTH, NUMBER = 40, 4
FORM = f"={1 + LENGTH}I"
LESSON = struct.calcsize(FORM)


class Coverage:
    """What one thread reaches. Opened by root; `begin` is for the thread itself."""

    def __init__(self):
        self.descriptor = os.open(KCOV, os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(self.descriptor, KCOV_INIT_TRACE, PLACES)
        # The file says that it has no bytes, so Python's own call would refuse.
        start = libc.mmap(None, PLACES * 8, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, self.descriptor, 0)
        if start == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "no room for what is reached")
        self.words = memoryview((ctypes.c_uint64 * PLACES).from_address(start)).cast("B").cast("Q")

    def begin(self):
        """From now on, what the calling thread reaches counts."""
        fcntl.ioctl(self.descriptor, KCOV_ENABLE, TRACE_PC)
        self.words[0] = 0

    def ways(self):
        """The pairs of places, one after the other, that the thread came by since the last call."""
        places = self.words[1:1 + self.words[0]].tolist()
        self.words[0] = 0
        return set(zip(places, places[1:]))


class Lessons:
    """What all have learnt. Processes that are forked share it, and may be killed at any time."""

    def __init__(self, used=True):
        self.used = used
        self.gone = mmap.mmap(-1, WAYS)
        # Each lesson is one write, at the end: how many numbers, and these.
        self.file = os.memfd_create("lessons")
        fcntl.fcntl(self.file, fcntl.F_SETFL, os.O_APPEND)

    def __len__(self):
        return os.fstat(self.file).st_size // LESSON

    def ways(self):
        """How many ways were gone, but for those with equal hashes."""
        return WAYS - self.gone[:].count(0)

    def one(self, chance):
        """Some lesson, rather a late one; there is one."""
        count = len(self)
        at = max(chance.randrange(count), chance.randrange(count))
        count, *numbers = struct.unpack(FORM, os.pread(self.file, LESSON, at * LESSON))
        return numbers[:count]

    def learn(self, ways, plan=None):
        """Keeps the plan if one of the ways is new."""
        fresh = [at for at in (hash(way) % WAYS for way in ways) if not self.gone[at]]
        for at in fresh:
            self.gone[at] = 1
        if fresh and plan:
            os.write(self.file, struct.pack(FORM, len(plan), *plan, *[0] * (LENGTH - len(plan))))


class Script:
    """What one thread does next."""

    def __init__(self, seed, lessons, coverage=None):
        self.chance = random.Random(seed)
        self.lessons, self.coverage = lessons, coverage
        # The ways that this thread knows.
        self.known = set()

    def number(self):
        """A new number."""
        return self.chance.getrandbits(8 * NUMBER)

    def plan(self):
        """The numbers of some actions that begin with nothing; `None`: just do something."""
        chance = self.chance
        if not self.coverage or not self.lessons.used or chance.random() < 0.3:
            return None
        if not self.lessons or chance.random() < 0.05:
            return [self.number() for _ in range(8)]
        plan = self.lessons.one(chance)
        # What has led somewhere new leads further, rather.
        if chance.random() < 0.6:
            plan += [self.number() for _ in range(chance.randrange(1, 9))]
        for _ in range(chance.choice((0, 0, 1, 2))):
            at = chance.randrange(len(plan))
            kind = chance.randrange(4)
            if kind == 0:
                plan[at] = self.number()
            elif kind == 1:
                plan[at:at] = plan[at:at + 1 + chance.randrange(3)]
            elif kind == 2:
                plan[at:] = self.lessons.one(chance)[at:]
            elif len(plan) > 1:
                del plan[at]
        return plan[:LENGTH]

    def learn(self, plan=None):
        """Looks at what was reached since the last time: by the end of `plan`, if there was one."""
        if self.coverage:
            ways = self.coverage.ways() - self.known
            self.known |= ways
            self.lessons.learn(ways, plan)
