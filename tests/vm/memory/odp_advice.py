# SPDX-License-Identifier: GPL-2.0
"""Advice on memory on demand: pages are prefetched, or never come."""

import contextlib
import os
import signal
import subprocess
import threading

from pyverbs.device import Context

import enums as e
import uverbs
from mapping import HUGE, Memory
from odp import Region
from odp_races import userfault
from rc import DEVICE, PAGE, SLOWNESS, End, eventually, own_context, pair, readable
from tap import equal, not_for_rxe, true
from work import OK, WRITE, status

PREFETCH, PREFETCH_WRITE, PREFETCH_PRESENT = 0, 1, 2


def advise(end, pieces, advice, flush=True):
    """Advises on pieces of an end's regions; raises OSError."""
    error = uverbs.advise_mr(end.ctx.cmd_fd, end.pd.handle, advice, int(flush), pieces)
    if error:
        raise OSError(error, os.strerror(error))


def prefetch():
    """Advice prefetches memory, at once or soon, and fails where it makes no sense"""
    not_for_rxe("advises by other rules")
    with pair() as (a, b):
        for advice, flush in ((PREFETCH_WRITE, True), (PREFETCH_WRITE, False), (PREFETCH_PRESENT, True)):
            there = Region(b, Memory(4 * HUGE))
            advise(b, [(there.held.address, HUGE, there.mr.lkey), (there.held.address + 2 * HUGE, HUGE, there.mr.lkey)],
                   advice, flush)
            # The largest number in a command: too many for a contiguous allocation.
            advise(b, 4095 * [(there.held.address, 8, there.mr.lkey)], advice, flush)
            if advice == PREFETCH_PRESENT:
                equal(there.held.resident(), 0, "no page was present")
            elif flush:
                true(2 * HUGE <= there.held.resident(), "resident bytes")
            else:
                eventually(lambda held=there.held: 2 * HUGE <= held.resident(), "resident bytes", 30)
            a.send(WRITE, pieces=[a.sge(0, 100)], remote=there.remote(HUGE - 50))
            status(a, OK, "write")
            held = there.held
            if advice == PREFETCH_WRITE:
                held.unmap(0, HUGE)
                for wrong in ([(held.address, 8, there.mr.lkey)], [(held.address + 2 * HUGE, 8, there.mr.lkey ^ 0x100)],
                              [(held.address + 4 * HUGE - 4, 8, there.mr.lkey)], [(b.mr.buf, 8, b.mr.lkey)]):
                    try:
                        advise(b, wrong, advice)
                    except OSError:
                        continue
                    raise AssertionError(f"{wrong} was accepted")
            there.close()
        only = Region(b, Memory(HUGE), e.IBV_ACCESS_REMOTE_READ)
        advise(b, [(only.held.address, HUGE, only.mr.lkey)], PREFETCH)
        try:
            advise(b, [(only.held.address, HUGE, only.mr.lkey)], PREFETCH_WRITE)
            raise AssertionError("a region without write access")
        except OSError:
            pass
        only.close()


def advised(length, patience, report):
    """Body of a process: advises on memory whose pages never come; reports whether the advice blocks."""
    own_context()
    end = End()
    there = Region(end, Memory(length))
    fault = userfault(there.held)
    adviser = threading.Thread(target=advise, daemon=True,
                               args=(end, [(there.held.address, length, there.mr.lkey)], PREFETCH_WRITE, False))
    adviser.start()
    true(readable(fault.fd, 30), "a fault for the first page")
    adviser.join(patience)
    os.write(report, b"waits" if adviser.is_alive() else b"goes on")
    signal.pause()


@contextlib.contextmanager
def apart(body, *args):
    """Runs `body` in a child process until it is killed at the end; yields its PID, and its first report."""
    told, report = os.pipe()
    child = os.fork()
    if not child:
        try:
            body(*args, report)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# {error!r}", flush=True)
        os._exit(1)
    os.close(report)
    try:
        yield child, os.read(told, 16)
    finally:
        os.close(told)
        os.kill(child, signal.SIGKILL)
        eventually(lambda: os.waitpid(child, os.WNOHANG)[0], "the killed process ends", 60)


def much_advice():
    """Advice on much memory runs in the caller, which can be killed; advice on little memory runs in the kernel"""
    not_for_rxe("advises by other rules")
    userfault(Memory(PAGE)).close()
    # A call that must not return gets a second.
    for length, patience, wanted in ((PAGE, 30 * SLOWNESS, b"goes on"), ((1 << 30) + PAGE, 1, b"waits")):
        with apart(advised, length, patience) as (_, found):
            equal(found, wanted, f"advice on {length} bytes")


def waits_on(device, report):
    """Body of a process: advises on a page of that device's memory that never comes; reports the fault on it."""
    end = End(ctx=Context(name=device))
    there = Region(end, Memory(PAGE))
    fault = userfault(there.held)
    advise(end, [(there.held.address, PAGE, there.mr.lkey)], PREFETCH_WRITE, False)
    true(readable(fault.fd, 30 * SLOWNESS), "a fault for the page")
    os.write(report, b"waits")
    signal.pause()


def nothing_is_held():
    """A device can be removed, and then its interface, while a page of its memory never comes"""
    not_for_rxe("a blocked fault blocks more than its queue pair")
    userfault(Memory(PAGE)).close()
    device = DEVICE + "d"
    for command in ("ip link add odp0 type dummy", "ip link set odp0 up",
                    f"rdma link add {device} type {os.environ['LINK_TYPE']} netdev odp0"):
        subprocess.run(command.split(), check=True)
    with apart(waits_on, device) as (child, reported):
        equal(reported, b"waits")
        for command in (f"rdma link del {device}", "ip link del odp0"):
            going = subprocess.Popen(command.split())  # pylint: disable=consider-using-with
            eventually(lambda going=going: going.poll() is not None, command, 60)
            equal(going.returncode, 0, command)
        equal(os.waitpid(child, os.WNOHANG)[0], 0, "the process that waits has ended")


TESTS = [prefetch, much_advice, nothing_is_held]
