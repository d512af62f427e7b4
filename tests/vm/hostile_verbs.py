# SPDX-License-Identifier: GPL-2.0
"""Processes without rights that issue every verb with arguments by chance, from several threads, and write into
their queues, take their memory away, fork, and are killed at any point.

What one thread does is in hostile_hand.py; where the kernel tells what of the driver that reached, what reached more is
done again with changes (feedback.py; FEEDBACK=0 only counts). What must hold: connections of others deliver every
message (bystander.py), all that belonged to the dead goes, and the kernel has nothing to complain about. SEED
steers the chance, VERBS_SECONDS is how long.
"""

import os
import random
import resource
import signal
import sys
import threading
import time
import warnings

import uverbs
from bystander import Bystander
from feedback import KCOV, Coverage, Lessons, Script
from hostile_hand import THREADS, Hand, Process, device_path
from rc import SLOWNESS, eventually
from tap import run, true

SECONDS = float(os.environ.get("VERBS_SECONDS", "15")) * SLOWNESS
SEED = int(os.environ.get("SEED", "4791"))
PROCESSES = 3
NOBODY = 65534


def play(hand, stop):
    """What one thread does until it is killed with its process."""
    if hand.script.coverage:
        hand.script.coverage.begin()
    while time.monotonic() < stop:
        try:
            hand.play()
        except (OSError, IndexError, ValueError):
            pass  # Another thread has taken away what this one was about to use.
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# thread: {error!r}", flush=True)
            os._exit(1)


def process_main(seed, tally, lessons, stop):
    """What one process does."""
    scripts = [Script(seed * 16 + number, lessons, Coverage() if os.path.exists(KCOV) else None)
               for number in range(THREADS)]
    warnings.simplefilter("ignore")
    # Whoever returns from the kernel should not wait long for the others.
    sys.setswitchinterval(1e-3)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (16 << 20, 16 << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    process = Process(tally)
    threads = [threading.Thread(target=play, args=(Hand(process, number, script), stop), daemon=True)
               for number, script in enumerate(scripts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def begun(seed, tally, lessons, stop):
    """A process; its id."""
    child = os.fork()
    if child:
        return child
    try:
        process_main(seed, tally, lessons, stop)
        os._exit(0)
    except BaseException as error:  # pylint: disable=broad-except
        print(f"# process {seed}: {error!r}", flush=True)
        os._exit(1)


def attack():
    """Every verb with any argument from many threads, with kills, harms nobody else"""
    bystander, tally, chance = Bystander(), uverbs.Tally(), random.Random(SEED)
    lessons = Lessons(os.environ.get("FEEDBACK") != "0")
    os.chmod(device_path(), 0o666)
    stop, number, codes = time.monotonic() + SECONDS, SEED, {}
    children = []
    while time.monotonic() < stop:
        while len(children) < PROCESSES:
            children.append(begun(number, tally, lessons, stop))
            number += 1
        time.sleep(0.1)
        if chance.random() < 1 / SECONDS:
            os.kill(chance.choice(children), signal.SIGKILL)
        for child in list(children):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                children.remove(child)
                code = os.waitstatus_to_exitcode(status)
                codes[code] = codes.get(code, 0) + 1
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    bystander.end()
    counts = list(tally.counts)
    print(f"# seed {SEED}: {sum(counts[::2])} commands, {sum(counts[1::2])} carried out, {number - SEED} processes, "
          f"ended with {codes}; never carried out: {tally.unused()}", flush=True)
    print(f"# {lessons.ways()} ways through the driver, {len(lessons)} lessons" if os.path.exists(KCOV)
          else "# no feedback: this kernel has no KCOV", flush=True)
    true(1 not in codes, "a process could not do its work")
    true(sum(counts[1::2]) > 100, "nothing was carried out")


def resources():
    """How many objects the device has, of each kind."""
    with os.popen(f"rdma resource show {os.environ['DEV']}") as file:
        return file.read().strip()


def afterwards():
    """Nothing is left of them, and connections work"""
    # A child of one that was killed may live on for a second.
    eventually(lambda: " mr 0 " in resources(), "regions are gone", 20)
    print("# " + resources(), flush=True)
    bystander = Bystander()
    time.sleep(0.2 * SLOWNESS)
    bystander.end()


if __name__ == "__main__":
    run([attack, afterwards])
