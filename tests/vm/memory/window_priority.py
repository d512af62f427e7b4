# SPDX-License-Identifier: GPL-2.0
"""Threads of unequal priority on one CPU: one writes through a memory window, and a real-time thread binds the window
anew, for which it must wait until the access in progress has ended. With PREEMPT_RT it may have preempted that access.
"""

import os
import threading
import time

from pyverbs.mr import MW

import enums as e
from rc import SLOWNESS
from ring import Hostile, command, send_element
from tap import equal, not_for_rxe, run, true
from window_races import BIND
from windows import BINDABLE, OK, REMOTE

BINDS = 300
# Processor time of one bind: much more than it takes, and less than the scheduler lets a real-time thread spin.
BIND_SECONDS, SLOW_BINDS = 0.3, 1


class Rung(Hostile):
    """An end whose own doorbell is known."""

    def __init__(self):
        super().__init__(access=BINDABLE, service=e.IBV_QPT_UC)
        self.handle = None

    def find_doorbell(self, others):
        """Finds the handle of the QP, the only one besides `others` that is ready to send."""
        self.handle = next(handle for handle in range(64) if handle not in others and command(handle))

    def doorbell(self):
        command(self.handle)

    def status(self):
        """Waits for a completion, and returns its status."""
        late = time.monotonic() + 20 * SLOWNESS
        while (status := self.cq_ring.take()) is None:
            true(time.monotonic() < late, "no completion")
            time.sleep(0.001)
        return status


class Writer(threading.Thread):
    """Writes through a window until it is told to stop."""

    def __init__(self, end, address, key):
        super().__init__()
        self.end, self.place = end, {"remote": address, "rkey": key}
        self.count, self.over, self.error = 0, False, None

    def run(self):
        os.sched_setaffinity(0, {0})
        try:
            while not self.over:
                self.end.post(pieces=[self.end.piece(self.end.mr.length)], **self.place)
                equal(self.end.status(), OK, "a write")
                self.count += 1
        except Exception as error:  # pylint: disable=broad-except
            self.error = error


def bind(end, key):
    """Binds a window of type 1 to the whole region of an end, again with the same key; returns the processor time."""
    fields = {"wr_id": 1, "opcode": BIND, "remote": end.mr.buf, "mw_length": end.mr.length, "mw_rkey": key,
              "mw_key": key, "mr_lkey": end.mr.lkey, "mw_access": REMOTE, "flags": e.IBV_SEND_SIGNALED}
    end.sq_ring.produce(send_element([], fields))
    began = time.thread_time()
    end.doorbell()
    taken = time.thread_time() - began
    equal(end.status(), OK, "a bind")
    return taken


def binds_in_real_time(end, key):
    """Binds repeatedly as a real-time thread; returns the processor time of each bind."""
    os.sched_setaffinity(0, {0})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    try:
        taken = []
        for number in range(BINDS):
            time.sleep(0.001 + number % 10 / 10000)
            taken.append(bind(end, key))
        return taken
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, range(os.cpu_count()))


def bind_preempts_access():
    """A real-time thread binds a window that a thread it has preempted accesses"""
    not_for_rxe("has no revocable windows")
    target, source = Rung(), None
    try:
        source = Rung()
        for end, peer in ((target, source), (source, target)):
            end.to_rts(peer)
            end.find_doorbell({target.handle})
        with MW(target.pd, e.IBV_MW_TYPE_1) as window:
            bind(target, window.rkey)
            writer = Writer(source, target.mr.buf, window.rkey)
            writer.start()
            try:
                taken = binds_in_real_time(target, window.rkey)
            finally:
                writer.over = True
                writer.join()
        true(writer.error is None, f"the writer: {writer.error!r}")
        slow = [round(seconds, 2) for seconds in taken if seconds > BIND_SECONDS * SLOWNESS]
        print(f"# {writer.count} writes, slowest bind {max(taken):.3f} s", flush=True)
        true(len(slow) <= SLOW_BINDS, f"binds that spun, in seconds: {slow}")
    finally:
        for end in (target, source):
            if end:
                end.close()


TESTS = [bind_preempts_access]

if __name__ == "__main__":
    run(TESTS)
