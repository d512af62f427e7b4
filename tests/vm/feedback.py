# SPDX-License-Identifier: GPL-2.0
"""Chance that learns from what it reaches.

Whoever acts by chance makes each action from one number. The kernel notes which places of the driver a thread comes by
(KCOV, Documentation/dev-tools/kcov.rst, where only the driver is compiled for it); if an action went from one place to
another as none did before, the numbers of the last few actions are kept, and all threads of all processes repeat
them with changes. What is done with a number is not known here. Without KCOV, all numbers are new.
"""

import collections
import ctypes
import fcntl
import mmap
import os
import random

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]

KCOV = "/sys/kernel/debug/kcov"
KCOV_INIT_TRACE, KCOV_ENABLE, TRACE_PC = 0x80086301, 0x6364, 0
# Places of one action, of 8 bytes; what comes after that many is not seen.
PLACES = 1 << 16
# Ways that all have gone are remembered by so many bits of a hash.
WAYS = 1 << 20
# How many actions a lesson has, and the bytes of a number.
LENGTH, NUMBER = 12, 4


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
        # Each lesson is one write, at the end.
        self.file = os.memfd_create("lessons")
        fcntl.fcntl(self.file, fcntl.F_SETFL, os.O_APPEND)

    def __len__(self):
        return os.fstat(self.file).st_size // (LENGTH * NUMBER)

    def ways(self):
        """How many ways were gone, but for those with equal hashes."""
        return WAYS - self.gone[:].count(0)

    def one(self, chance):
        """Some lesson, rather a late one; there is one."""
        count = len(self)
        at = max(chance.randrange(count), chance.randrange(count))
        data = os.pread(self.file, LENGTH * NUMBER, at * LENGTH * NUMBER)
        return [int.from_bytes(data[at:at + NUMBER], "little") for at in range(0, len(data), NUMBER)]

    def learn(self, ways, numbers):
        """Keeps the numbers if one of the ways is new."""
        fresh = [at for at in (hash(way) % WAYS for way in ways) if not self.gone[at]]
        for at in fresh:
            self.gone[at] = 1
        if fresh and len(numbers) == LENGTH:
            os.write(self.file, b"".join(number.to_bytes(NUMBER, "little") for number in numbers))


class Script:
    """The numbers of one thread's actions."""

    def __init__(self, seed, lessons, coverage=None):
        self.chance = random.Random(seed)
        self.lessons, self.coverage = lessons, coverage
        # What follows; what was last; and the ways that this thread knows.
        self.planned, self.recent, self.known = [], collections.deque(maxlen=LENGTH), set()

    def next(self):
        """The number of the next action."""
        if not self.planned:
            self.planned = self.plan()
        number = self.planned.pop()
        self.recent.append(number)
        return number

    def done(self):
        """Learns from the action that was the last."""
        if self.coverage:
            ways = self.coverage.ways() - self.known
            self.known |= ways
            self.lessons.learn(ways, self.recent)

    def plan(self):
        """The numbers of some actions, the last one first: new ones, or a lesson with changes."""
        chance = self.chance
        if not self.lessons.used or chance.random() < 0.3 or not self.lessons:
            return [self.number() for _ in range(LENGTH)]
        plan = self.lessons.one(chance)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(plan))
            kind = chance.randrange(4)
            if kind == 0:
                plan[at] = self.number()
            elif kind == 1:
                plan.insert(at, self.number())
            elif kind == 2:
                plan[at:at] = plan[at:at + 1 + chance.randrange(3)]
            else:
                plan[at:] = self.lessons.one(chance)[at:]
        return plan[::-1]

    def number(self):
        """A new number."""
        return self.chance.getrandbits(8 * NUMBER)
