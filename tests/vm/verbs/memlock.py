# SPDX-License-Identifier: GPL-2.0
"""RLIMIT_MEMLOCK: how much memory a user without capabilities may register at a time, in sum and to the page.

Each test runs in its own process. verbs.py tests the error of one attempt beyond the limit; flood.py and bounded.py
test to which cgroup kernel memory is charged.
"""

import ctypes
import errno
import os
import random
import resource
import struct
import threading

from pyverbs.mr import MR
from pyverbs.pd import PD

import uverbs
from hostile_hand import device_path
from isolation import nobody
from memory import REREG_TRANS, locked, rereg
from memory import refused as memory_refused
from rc import FULL_ACCESS, PAGE, context, own_context, pair
from tap import equal, not_for_rxe, run, true
from verbs import mmap_of, refused
from work import OK, WRITE, fill, pattern, status

PAGES = 256
SEED = int(os.environ.get("SEED", "1"))
THREADS, TURNS = 4, 400


def as_user(body):
    """Returns a test: runs the body in a process of another user, whose limit is PAGES."""
    def test():
        if body in NOT_FOR_RXE:
            not_for_rxe(NOT_FOR_RXE[body])
        child = os.fork()
        if child:
            equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "exit code of the user's process")
            return
        try:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (PAGES * PAGE, PAGES * PAGE))
            nobody()
            own_context()
            equal(locked(), 0, "KiB pinned at first")
            body()
            equal(locked(), 0, "KiB pinned in the end")
            os._exit(0)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# {error!r}", flush=True)
            os._exit(1)
    test.__name__, test.__doc__ = body.__name__, body.__doc__
    return test


def pinned(pages, what):
    """Checks the amount of pinned memory that the kernel reports."""
    equal(locked(), pages * PAGE >> 10, f"KiB pinned: {what}")


def region(domain, memory, first, count=1):
    """Registers some pages of memory as a region."""
    return MR(domain, count * PAGE, FULL_ACCESS, address=memory.start + first * PAGE)


def full(domain, memory, start=0):
    """Registers one-page regions up to the limit; the next one is refused, and changes nothing."""
    made = [region(domain, memory, at) for at in range(start, PAGES)]
    for _ in range(3):
        pinned(PAGES, "at the limit")
        refused(lambda: region(domain, memory, PAGES), errno.ENOMEM)
        # A page that is already registered counts again.
        refused(lambda: region(domain, memory, PAGES - 1), errno.ENOMEM)
    pinned(PAGES, "after the refusal")
    return made


def sum_of_small():
    """Regions of a page reach RLIMIT_MEMLOCK in sum, and no page more; deregistration frees as much"""
    with PD(context()) as domain, mmap_of((PAGES + 1) * PAGE) as memory:
        made = full(domain, memory)
        for count in (1, 2, PAGES // 3):
            for one in made[-count:]:
                one.close()
            pinned(PAGES - count, f"{count} deregistered")
            refused(lambda count=count: region(domain, memory, 0, count + 1), errno.ENOMEM)
            made[-count:] = [region(domain, memory, at) for at in range(count)]
            pinned(PAGES, f"{count} registered")
        for one in made:
            one.close()
        pinned(0, "all deregistered")
        region(domain, memory, 0, PAGES).close()
        refused(lambda: region(domain, memory, 0, PAGES + 1), errno.ENOMEM)


def by_pages():
    """A few bytes count as the pages that they touch"""
    with PD(context()) as domain, mmap_of((PAGES + 2) * PAGE) as memory:
        most = region(domain, memory, 0, PAGES - 1)
        edge = memory.start + PAGES * PAGE
        refused(lambda: MR(domain, 2, FULL_ACCESS, address=edge - 1), errno.ENOMEM)
        one = MR(domain, 1, FULL_ACCESS, address=edge - 1)
        pinned(PAGES, "a byte more")
        refused(lambda: MR(domain, 1, FULL_ACCESS, address=edge - 1), errno.ENOMEM)
        one.close()
        most.close()


def works(a, place, key):
    """Writes bytes to a region and checks them."""
    data = pattern(64, place >> 12 & 0xFF)
    fill(a, data)
    a.send(WRITE, pieces=[a.sge(0, 64)], remote=(place, key))
    status(a, OK, "a write")
    equal(ctypes.string_at(place, 64), data, "bytes at the target")


def registered_again():
    """Reregistration beyond the limit leaves the region unchanged and usable; within the limit the region grows"""
    with mmap_of(2 * PAGES * PAGE) as memory, pair(a={"size": PAGE}, b={"size": PAGE}) as (a, b):
        # During reregistration both old and new pages count.
        most = (PAGES - 2) // 2
        one = region(b.pd, memory, 0, most)
        far = memory.start + PAGES * PAGE
        for length in (most + 1, PAGES, 2 * PAGES):
            memory_refused(errno.ENOMEM, lambda length=length: rereg(one, REREG_TRANS, memory.start, length * PAGE,
                                                                     memory.start))
            pinned(most + 2, f"{length} pages were refused")
            for place in (memory.start, memory.start + most * PAGE - 64):
                works(a, place, one.rkey)
        _, key = rereg(one, REREG_TRANS, far, most * PAGE, far)
        pinned(most + 2, "moved")
        works(a, far + most * PAGE - 64, key)
        _, key = rereg(one, REREG_TRANS, far, PAGE, far)
        pinned(1 + 2, "made small")
        _, key = rereg(one, REREG_TRANS, far, 2 * most * PAGE - PAGE, far)
        pinned(2 * most - 1 + 2, "and large")
        works(a, far + (2 * most - 1) * PAGE - 64, key)
        one.close()


class Counted:
    """Regions that threads register and deregister with raw commands; their sum must not exceed the limit."""

    def __init__(self, domain, memory):
        self.domain, self.memory = domain, memory
        self.lock, self.sum, self.most, self.refusals, self.strange = threading.Lock(), 0, 0, 0, []

    def make(self, count):
        """Returns the handle; None if refused."""
        answer = ctypes.create_string_buffer(16)
        place, start = ctypes.addressof(answer), self.memory.start
        wish = uverbs.command(uverbs.REG_MR, place, start, count * PAGE, start, self.domain.handle, FULL_ACCESS)
        error = uverbs.issue(context().cmd_fd, wish)
        with self.lock:
            if error:
                self.refusals += 1
                if error != errno.ENOMEM:
                    self.strange.append(f"register: {errno.errorcode[error]}")
                return None
            self.sum += count
            self.most = max(self.most, self.sum)
        return struct.unpack_from("=I", answer)[0]

    def end(self, handle, count):
        """Deregisters a region, after its pages are subtracted from the sum."""
        with self.lock:
            self.sum -= count
        error = uverbs.issue(context().cmd_fd, uverbs.command(uverbs.DEREG_MR, 0, handle))
        if error:
            self.strange.append(f"deregister: {errno.errorcode[error]}")

    def live(self, seed):
        """Body of a thread: registers regions until one is refused, then deregisters some."""
        chance, made = random.Random(seed), []
        for _ in range(TURNS):
            count = chance.randrange(1, PAGES // 8)
            handle = self.make(count)
            if handle is not None:
                made.append((handle, count))
                continue
            chance.shuffle(made)
            for _ in range(min(len(made), chance.randrange(1, 4))):
                self.end(*made.pop())
        for one in made:
            self.end(*one)


def threads():
    """Threads that register and deregister concurrently never exceed the limit in sum"""
    with PD(context()) as domain, mmap_of((PAGES + 1) * PAGE) as memory:
        counted = Counted(domain, memory)
        workers = [threading.Thread(target=counted.live, args=(SEED * THREADS + at,)) for at in range(THREADS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print(f"# seed {SEED}: {counted.most} of {PAGES} pages at a time, {counted.refusals} refusals", flush=True)
        equal(counted.strange, [], "unexpected errors")
        true(PAGES * 3 // 4 < counted.most <= PAGES, f"{counted.most} pages at a time")
        true(counted.refusals > THREADS, f"{counted.refusals} refusals")
        # All of it is released: there is room for as many pages as at first.
        pinned(0, "threads have ended")
        for one in full(domain, memory):
            one.close()


NOT_FOR_RXE = {registered_again: "changes no addresses"}

if __name__ == "__main__":
    os.chmod(device_path(os.environ["DEV"]), 0o666)
    run([as_user(body) for body in (sum_of_small, by_pages, registered_again, threads)])
