# SPDX-License-Identifier: GPL-2.0
"""Coverage-guided random actions.

A caller derives each random action from one number. A plan is a list of numbers whose actions start with no objects.
The kernel records the code addresses of the driver that a thread executes (KCOV, Documentation/dev-tools/kcov.rst; only
the driver is compiled for it). If an action of a plan takes a transition between two addresses that no action took
before, the plan up to this action is kept, and all threads of all processes mutate it. The meaning of a number is up to
the caller. Without KCOV there are no plans.
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
# Recorded addresses of one action, 8 bytes each; further ones are lost.
PLACES = 1 << 16
# Bits of the hash of a transition, in a table that all processes share.
WAYS = 1 << 20
# Maximum of actions in a lesson, and the bytes of a number.
LENGTH, NUMBER = 40, 4
FORM = f"={1 + LENGTH}I"
LESSON = struct.calcsize(FORM)


class Coverage:
    """The coverage of one thread. Opened by root; the thread itself calls `begin`."""

    def __init__(self):
        self.descriptor = os.open(KCOV, os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(self.descriptor, KCOV_INIT_TRACE, PLACES)
        # The file reports a size of zero, so Python's own mmap would refuse.
        start = libc.mmap(None, PLACES * 8, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, self.descriptor, 0)
        if start == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "cannot map the coverage buffer")
        self.words = memoryview((ctypes.c_uint64 * PLACES).from_address(start)).cast("B").cast("Q")

    def begin(self):
        """Starts the recording for the calling thread."""
        fcntl.ioctl(self.descriptor, KCOV_ENABLE, TRACE_PC)
        self.words[0] = 0

    def ways(self):
        """The transitions of the thread since the last call: pairs of consecutive addresses."""
        places = self.words[1:1 + self.words[0]].tolist()
        self.words[0] = 0
        return set(zip(places, places[1:]))


class Lessons:
    """The lessons of all processes. Forked processes share them and may be killed at any time."""

    def __init__(self, used=True):
        self.used = used
        self.gone = mmap.mmap(-1, WAYS)
        # Each lesson is one appended write: the number of actions, and their numbers.
        self.file = os.memfd_create("lessons")
        fcntl.fcntl(self.file, fcntl.F_SETFL, os.O_APPEND)

    def __len__(self):
        return os.fstat(self.file).st_size // LESSON

    def ways(self):
        """Number of different transitions, except for hash collisions."""
        return WAYS - self.gone[:].count(0)

    def one(self, chance):
        """Returns a random lesson, later ones more often. There must be one."""
        count = len(self)
        at = max(chance.randrange(count), chance.randrange(count))
        count, *numbers = struct.unpack(FORM, os.pread(self.file, LESSON, at * LESSON))
        return numbers[:count]

    def learn(self, ways, plan=None):
        """Keeps the plan if one of the transitions is new."""
        fresh = [at for at in (hash(way) % WAYS for way in ways) if not self.gone[at]]
        for at in fresh:
            self.gone[at] = 1
        if fresh and plan:
            os.write(self.file, struct.pack(FORM, len(plan), *plan, *[0] * (LENGTH - len(plan))))


class Script:
    """Selects the next actions of one thread."""

    def __init__(self, seed, lessons, coverage=None):
        self.chance = random.Random(seed)
        self.lessons, self.coverage = lessons, coverage
        # The transitions that this thread has taken.
        self.known = set()

    def number(self):
        """A new number."""
        return self.chance.getrandbits(8 * NUMBER)

    def plan(self):
        """The numbers of actions that start with no objects, or `None` for a single random action."""
        chance = self.chance
        if not self.coverage or not self.lessons.used or chance.random() < 0.3:
            return None
        if not self.lessons or chance.random() < 0.05:
            return [self.number() for _ in range(8)]
        plan = self.lessons.one(chance)
        # A lesson that reached new code is more likely to lead to further code.
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
        """Evaluates the coverage since the last call: at the end of `plan`, if there is one."""
        if self.coverage:
            ways = self.coverage.ways() - self.known
            self.known |= ways
            self.lessons.learn(ways, plan)
