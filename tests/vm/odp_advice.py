# SPDX-License-Identifier: GPL-2.0
"""Advice on memory on demand: its pages come before they are needed, or never."""

import contextlib
import os
import signal
import subprocess
import threading

import pyverbs.enums as e
from pyverbs.device import Context

import uverbs
from mapping import HUGE, Memory
from odp import Region
from odp_races import userfault
from rc import DEVICE, PAGE, SLOWNESS, End, eventually, own_context, pair, readable
from tap import equal, not_for_rxe, true
from work import OK, WRITE, status

PREFETCH, PREFETCH_WRITE, PREFETCH_PRESENT = 0, 1, 2


def advise(end, pieces, advice, flush=True):
    """Advice on pieces of an end's regions; raises OSError."""
    error = uverbs.advise_mr(end.ctx.cmd_fd, end.pd.handle, advice, int(flush), pieces)
    if error:
        raise OSError(error, os.strerror(error))


def prefetch():
    """Advice brings memory, at once or soon, and is refused where it makes no sense"""
    not_for_rxe("advises by other rules")
    with pair() as (a, b):
        for advice, flush in ((PREFETCH_WRITE, True), (PREFETCH_WRITE, False), (PREFETCH_PRESENT, True)):
            there = Region(b, Memory(4 * HUGE))
            advise(b, [(there.held.address, HUGE, there.mr.lkey), (there.held.address + 2 * HUGE, HUGE, there.mr.lkey)],
                   advice, flush)
            # As many as a command has room for: more than fits in pages that follow each other.
            advise(b, 4095 * [(there.held.address, 8, there.mr.lkey)], advice, flush)
            if advice == PREFETCH_PRESENT:
                equal(there.held.resident(), 0, "nothing was there")
            elif flush:
                true(2 * HUGE <= there.held.resident(), "it is there")
            else:
                eventually(lambda held=there.held: 2 * HUGE <= held.resident(), "it comes", 30)
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
                    raise AssertionError(f"{wrong} was taken")
            there.close()
        only = Region(b, Memory(HUGE), e.IBV_ACCESS_REMOTE_READ)
        advise(b, [(only.held.address, HUGE, only.mr.lkey)], PREFETCH)
        try:
            advise(b, [(only.held.address, HUGE, only.mr.lkey)], PREFETCH_WRITE)
            raise AssertionError("a region that is not written")
        except OSError:
            pass
        only.close()


def advised(length, patience, report):
    """A process that gives advice on memory whose pages never come; reports whether it had to wait for them."""
    own_context()
    end = End()
    there = Region(end, Memory(length))
    fault = userfault(there.held)
    adviser = threading.Thread(target=advise, daemon=True,
                               args=(end, [(there.held.address, length, there.mr.lkey)], PREFETCH_WRITE, False))
    adviser.start()
    true(readable(fault.fd, 30), "somebody brings the first page")
    adviser.join(patience)
    os.write(report, b"waits" if adviser.is_alive() else b"goes on")
    signal.pause()


@contextlib.contextmanager
def apart(body, *args):
    """A process that does this until it is killed, in the end; its number, and what it reported first."""
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
        eventually(lambda: os.waitpid(child, os.WNOHANG)[0], "who is killed goes", 60)


def much_advice():
    """Advice on much memory is followed by who gives it, who can be killed; advice on less by the kernel"""
    not_for_rxe("advises by other rules")
    userfault(Memory(PAGE)).close()
    # Who is not to return has a second for it.
    for length, patience, wanted in ((PAGE, 30 * SLOWNESS, b"goes on"), ((1 << 30) + PAGE, 1, b"waits")):
        with apart(advised, length, patience) as (_, found):
            equal(found, wanted, f"advice on {length} bytes")


def waits_on(device, report):
    """A process with advice on a page of that device's memory that never comes; reports when somebody waits for it."""
    end = End(ctx=Context(name=device))
    there = Region(end, Memory(PAGE))
    fault = userfault(there.held)
    advise(end, [(there.held.address, PAGE, there.mr.lkey)], PREFETCH_WRITE, False)
    true(readable(fault.fd, 30 * SLOWNESS), "somebody brings the page")
    os.write(report, b"waits")
    signal.pause()


def nothing_is_held():
    """A device goes, and then its interface, while a page of its memory never comes"""
    not_for_rxe("a blocked fault blocks more than its queue pair")
    userfault(Memory(PAGE)).close()
    device = DEVICE + "d"
    for command in ("ip link add odp0 type dummy", "ip link set odp0 up",
                    f"rdma link add {device} type {os.environ['DRIVER']} netdev odp0"):
        subprocess.run(command.split(), check=True)
    with apart(waits_on, device) as (child, reported):
        equal(reported, b"waits")
        for command in (f"rdma link del {device}", "ip link del odp0"):
            going = subprocess.Popen(command.split())  # pylint: disable=consider-using-with
            eventually(lambda going=going: going.poll() is not None, command, 60)
            equal(going.returncode, 0, command)
        equal(os.waitpid(child, os.WNOHANG)[0], 0, "the process that waits has ended")


TESTS = [prefetch, much_advice, nothing_is_held]
