# SPDX-License-Identifier: GPL-2.0
"""Unprivileged processes that issue every verb with random arguments from several threads, write into their queues,
unmap their memory, fork, and are killed at any point.

hostile_hand.py has the actions of one thread. If the kernel reports the code that an action reached, actions that
reached new code are repeated with changes (feedback.py; FEEDBACK=0 only counts). The test requires that connections of
others deliver every message (bystander.py), that all objects of dead processes are destroyed, and that the kernel has
no complaint. Arguments that are always refused test nothing, so each command must succeed at least once; the test takes
longer until then. SEED seeds the random choices, VERBS_SECONDS is the duration; a run shorter than usual need not cover
every command.
"""

import mmap
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings

import dma_buf
import uverbs
from bystander import Bystander
from feedback import KCOV, Coverage, Lessons, Script
from hostile_hand import THREADS, Hand, Process, device_path
from rc import SLOWNESS, eventually
from tap import Skip, run, true

# The usual and the requested duration.
USUAL = 15 * SLOWNESS
SECONDS = float(os.environ.get("VERBS_SECONDS", "15")) * SLOWNESS
SEED = int(os.environ.get("SEED", "4791"))
PROCESSES = 3
NOBODY = 65534
# Mean lifetimes of a process before it is killed: some hardly begin, some get far.
LIVES = (0.3, 1, 4)
# Limit of the duration, as a multiple of the usual one, if some commands have never succeeded.
LATEST = 4
# Seconds for each kill at least; a fast machine has one in each second.
SELDOM = 10
# The resources of the device before the test.
empty = []


def play(hand, stop):
    """The main loop of a thread, until its process is killed."""
    if hand.script.coverage:
        hand.script.coverage.begin()
    while time.monotonic() < stop:
        try:
            hand.play()
        except (OSError, IndexError, ValueError):
            pass  # Another thread removed an object that this one was about to use.
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# thread: {error!r}", flush=True)
            os._exit(1)


def some_buffer():
    """A DMA buffer, which only root may create; -1 if there are none here."""
    try:
        return dma_buf.of_file()
    except (OSError, Skip):
        return -1


def process_main(seed, tally, lessons, stop, at_work):
    """The main function of a process; it sets a byte of `at_work` when it has started."""
    scripts = [Script(seed * 16 + number, lessons, Coverage() if os.path.exists(KCOV) else None)
               for number in range(THREADS)]
    buffer = some_buffer()
    warnings.simplefilter("ignore")
    # A thread that returns from the kernel should not wait long for the others.
    sys.setswitchinterval(1e-3)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (16 << 20, 16 << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    process = Process(tally, buffer)
    threads = [threading.Thread(target=play, args=(Hand(process, number, script), stop), daemon=True)
               for number, script in enumerate(scripts)]
    for thread in threads:
        thread.start()
    at_work[0] = 1
    for thread in threads:
        thread.join()


class Prey:
    """A process that is killed at the end of its lifetime, which starts when it is at work."""

    def __init__(self, chance, seed, *rest):
        self.life, self.end = chance.expovariate(1 / chance.choice(LIVES)), None
        self.at_work = mmap.mmap(-1, 1)
        self.killed = False
        self.child = os.fork()
        if self.child:
            return
        try:
            process_main(seed, *rest, self.at_work)
            os._exit(0)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# process {seed}: {error!r}", flush=True)
            os._exit(1)

    def hunt(self):
        """Kills it at the end of its lifetime."""
        if self.end is None and self.at_work[0]:
            self.end = time.monotonic() + self.life
        if self.end is not None and time.monotonic() >= self.end and not self.killed:
            self.kill()

    def kill(self):
        """Kills it."""
        os.kill(self.child, signal.SIGKILL)
        self.killed = True

    def ended(self):
        """Its exit code, or None."""
        done, status = os.waitpid(self.child, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if done else None


def lacking(tally, buffers):
    """Commands that must succeed in a run of usual length and did not; `buffers`: DMA buffers exist."""
    return [name for name in tally.unused() if name != uverbs.BUFFER or buffers] if SECONDS >= USUAL else []


def attack():
    """Every verb with any argument from many threads, with kills, harms no other process"""
    empty.append(resources())
    bystander, tally, chance = Bystander(), uverbs.Tally(), random.Random(SEED)
    lessons = Lessons(os.environ.get("FEEDBACK") != "0")
    os.chmod(device_path(), 0o666)
    number, codes, kills, preys, buffers = SEED, {}, 0, [], some_buffer() >= 0
    began = time.monotonic()
    stop = began + max(SECONDS, LATEST * USUAL)
    while time.monotonic() < (stop if lacking(tally, buffers) else began + SECONDS):
        while len(preys) < PROCESSES:
            preys.append(Prey(chance, number, tally, lessons, stop))
            number += 1
        time.sleep(0.05)
        for prey in list(preys):
            prey.hunt()
            code = prey.ended()
            if code is not None:
                preys.remove(prey)
                codes[code] = codes.get(code, 0) + 1
                kills += prey.killed and code == -signal.SIGKILL
    for prey in preys:
        prey.kill()
        os.waitpid(prey.child, 0)
    took = time.monotonic() - began
    bystander.end()
    counts = list(tally.counts)
    print(f"# seed {SEED}, {took:.0f} s: {sum(counts[::2])} commands, {sum(counts[1::2])} carried out, "
          f"{number - SEED} processes, ended with {codes}; never carried out: {tally.unused()}", flush=True)
    print(f"# {lessons.ways()} transitions in the driver, {len(lessons)} lessons" if os.path.exists(KCOV)
          else "# no feedback: this kernel has no KCOV", flush=True)
    if os.environ["KERNEL"] == "umdebug" and SECONDS >= USUAL:
        true(lessons.ways() > 500, f"only {lessons.ways()} transitions in the driver")
    # No process uses memory that it gave away, so each exits normally or is killed by us.
    true(set(codes) <= {0, -signal.SIGKILL}, f"processes failed: {codes}")
    true(sum(counts[1::2]) > 100, "too few commands succeeded")
    lacks = lacking(tally, buffers)
    true(not lacks, f"commands that never succeeded: {lacks}")
    true(kills >= SECONDS / SELDOM, f"only {kills} were killed at work in {SECONDS} s")


def resources():
    """The number of objects of each kind that the device has."""
    with os.popen(f"rdma resource show {os.environ['DEV']}") as file:
        return file.read().strip()


def afterwards():
    """The killed processes leave no object, and connections work"""
    print("# " + resources(), flush=True)
    # A child of a killed process may live on for a second.
    eventually(lambda: resources() == empty[0], f"as many objects as before: {empty[0]}", 20)
    bystander = Bystander()
    time.sleep(0.2 * SLOWNESS)
    bystander.end()


if __name__ == "__main__":
    run([attack, afterwards])
