# SPDX-License-Identifier: GPL-2.0
"""Memory runs out, or copies fail, as in no_memory.py: verbs that change something that is there, or only look at it,
regions of other kinds, and the device itself.

What such a verb changes is afterwards as it was before, or as it was asked to be; it still works, and the same call
works right after.
"""

import contextlib
import itertools
import os
import subprocess
import time

import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

import dma_buf
import mapping
import nldev
from memory import REREG_ACCESS, REREG_TRANS, owner, rereg
from no_memory import COPIED, MOST, Injection, attempt, close, each_failure
from netns import within_namespace
from odp import ON_DEMAND
from rc import FULL_ACCESS, PAGE, PORT, End, context, pair
from ring import mappings
from tap import Skip, equal, run, true
from ud import UdEnd, filters
from verbs import resources
from work import OK, WRITE, status

NEW, NETDEV = "more0", "v1"
# How long devices are made while addresses change, in seconds at most.
LONGEST = 120


def each_time(action, check=lambda done: None, least=2, other=()):
    """Does something, whose result is not None, with a later failure each time until there is none left; `check` looks
    at what came of it. What failed succeeds right after, and leaves no objects behind. At least so many failures; the
    `other` errors: as for attempt."""
    before = resources()
    for number in range(1, MOST):
        with Injection(number) as injection:
            done = attempt(action, other)
        check(done)
        if not injection.happened:
            true(done is not None, "nothing failed, and yet nothing was done")
            true(number > least, f"only {number - 1} could be made to fail")
            equal(resources(), before, "objects afterwards")
            return
        if done is None:
            done = action()
            true(done is not None, "the same call, right after")
            check(done)
    raise AssertionError(f"still failing after {MOST} times")


def resized_queues():
    """resize_cq: completions come, and none is lost"""
    with pair() as (a, b):
        sizes, rings = iter(range(1000, 100000, 7)), len(mappings())

        def resize():
            a.cq.resize(next(sizes))
            return True

        def used(_done):
            if len(mappings()) < rings:
                # The library could not map the new ring, and had let go of the old one.
                resize()
            for wr_id in (3, 4):
                a.send(WRITE, wr_id=wr_id, pieces=[a.sge(0, 64)], remote=b.remote())
            equal([(wc.wr_id, wc.status) for wc in a.completions(2)], [(3, OK), (4, OK)], "completions")

        each_time(resize, used)


def modified_shared_queues():
    """modify_srq: as large as it was, or as it was to be"""
    domain = PD(context())
    queue = SRQ(domain, SrqInitAttr(SrqAttr(max_wr=64, max_sge=2)))
    state = {"now": queue.query().max_wr, "turn": 0}

    def modify():
        state["wanted"] = (100, 500)[state["turn"] % 2]
        queue.modify(SrqAttr(max_wr=state["wanted"]), e.IBV_SRQ_MAX_WR)
        return True

    def is_either(done):
        found = queue.query().max_wr
        true(found >= state["wanted"] if done else found == state["now"] or found >= state["wanted"],
             f"{found} receives, after {state}")
        if done:
            state["now"] = found
            state["turn"] += 1

    each_time(modify, is_either)
    queue.close()
    domain.close()


def regions_registered_again():
    """rereg_mr: other rights, another place"""
    end, region = owner()
    places = [mapping.Memory(4 * PAGE), mapping.Memory(64 * PAGE)]

    def again():
        place = places[again.turn % 2]
        again.turn += 1
        rereg(region, REREG_TRANS | REREG_ACCESS, place.address, place.length, place.address,
              access=FULL_ACCESS if again.turn % 3 else e.IBV_ACCESS_LOCAL_WRITE)
        return True

    again.turn = 0
    each_time(again)
    region.close()
    end.close()


def regions_on_demand():
    """reg_mr on demand, of memory that is there and of all there is"""
    domain = PD(context())
    held = mapping.Memory(64 * PAGE)
    each_failure(lambda: MR(domain, held.length, FULL_ACCESS | ON_DEMAND, address=held.address), close)
    held.write(bytes(held.length))
    each_failure(lambda: MR(domain, held.length, FULL_ACCESS | ON_DEMAND, address=held.address), close)
    domain.close()


def reject(start, end):
    """No allocation fails that code between these addresses waits for."""
    for cause in ("failslab", "fail_page_alloc"):
        for name, value in (("start", start), ("end", end)):
            with open(f"/sys/kernel/debug/{cause}/reject-{name}", "w", encoding="ascii") as file:
                file.write(hex(value))


@contextlib.contextmanager
def spared(function):
    """Memory does not run out for what that function of the kernel calls."""
    with open("/proc/kallsyms", encoding="ascii") as file:
        symbols = [line.split()[:3] for line in file]
    start = next(int(address, 16) for address, _, name in symbols if name == function)
    end = min(int(address, 16) for address, *_ in symbols if int(address, 16) > start)
    reject(start, end)
    try:
        yield
    finally:
        reject(0, 0)


def regions_of_buffers():
    """reg_dmabuf_mr"""
    buffer = dma_buf.of_file()
    end = End()
    # The kernel itself warns, once, when the buffer's owner finds no memory to map it.
    with spared("dma_buf_vmap"):
        each_failure(lambda: dma_buf.Region(end, buffer), close)
    end.close()
    os.close(buffer)


def groups():
    """attach_mcast: whoever is refused is no member, who is not gets its packets; and the first can become one"""
    end = UdEnd()
    for address in "239.1.1.9", "ff15::109":
        # It learns the handle of its queue pair first.
        end.attach(address)
        end.detach(address)

        def attach(address=address):
            end.attach(address)
            return True

        def leave(done, address=address):
            equal(address in filters(), done is not None, f"the interface is in {address}")
            if done:
                end.detach(address)

        each_time(attach, leave)
    end.close()


def questions():
    """query_device, query_port, query_qp, query_srq"""
    end, domain = End(), PD(context())
    queue = SRQ(domain, SrqInitAttr(SrqAttr(max_wr=64, max_sge=2)))
    port = context().query_port(PORT).state
    for ask, wanted, least in (
            (lambda: context().query_device().max_qp, context().query_device().max_qp, COPIED),
            (lambda: context().query_port(PORT).state, port, COPIED),
            (end.state, e.IBV_QPS_RESET, 2),
            (lambda: queue.query().max_wr, queue.query().max_wr, COPIED)):
        def right(done, wanted=wanted):
            if done is not None:
                equal(done, wanted, "the answer")

        each_time(ask, right, least)
    queue.close()
    domain.close()
    end.close()


def add_link(netdev=NETDEV):
    """What `rdma link add` asks for."""
    nldev.ask(nldev.NEWLINK, {nldev.DEV_NAME: NEW, nldev.LINK_TYPE: os.environ["DRIVER"], nldev.NDEV_NAME: netdev})
    return True


def exists():
    """Whether the device is there."""
    return os.path.exists(f"/sys/class/infiniband/{NEW}")


def devices():
    """rdma link add: the device is there, or nothing of it is"""
    gone, number = 0, 0
    while number < 50 * MOST:
        # There are hundreds, each of which takes a device: not each of the later ones is tried.
        number += 1 + number // 12
        with Injection(number) as injection:
            # Where the answer is what failed, it may be there nevertheless.
            made = attempt(add_link, nldev.LACKING)
        true(made is None or exists(), "it was made, and is not there")
        gone += not exists()
        if exists():
            subprocess.run(["rdma", "link", "del", NEW], check=True)
        true(not exists(), "it is there after it was deleted")
        if not injection.happened:
            true(made is not None, "nothing failed, and yet nothing was made")
            true(gone > 0, "it could not be made to fail")
            print(f"# up to failure {number}, {gone} without a device")
            return
    raise AssertionError("still failing")


def removals():
    """rdma link del: the device goes, also while a process uses it, or is there as before"""
    stayed = 0
    for number in range(1, MOST):
        true(add_link(), "the device is made")
        end = UdEnd(NEW)
        device = {nldev.DEV_INDEX: nldev.index_of(NEW)}
        with Injection(number) as injection:
            attempt(lambda device=device: nldev.ask(nldev.DELLINK, device), nldev.LACKING)
        if exists():
            stayed += 1
            equal(end.qp.query(e.IBV_QP_STATE)[0].qp_state, e.IBV_QPS_RTS, "it is as before")
            nldev.ask(nldev.DELLINK, device)
        true(not exists(), "it is there after it was deleted")
        end.close()
        if not injection.happened:
            true(stayed < number > 1, "nothing could be made to fail")
            print(f"# {number - 1} failures, {stayed} with the device still there")
            return
    raise AssertionError("still failing")


def ip(*words):
    """Runs ip."""
    subprocess.run(["ip", *words], check=True)


@contextlib.contextmanager
def addresses_come_and_go():
    """An address of an interface of its own comes and goes all the time."""
    ip("link", "add", "d0", "type", "dummy")
    lines = [f"addr {what} 10.8.0.1/24 dev d0" for what in ("add", "del")]
    with subprocess.Popen(["yes", "\n".join(lines)], stdout=subprocess.PIPE) as source, \
            subprocess.Popen(["ip", "-force", "-batch", "-"], stdin=source.stdout, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL) as changes:
        try:
            yield
        finally:
            for process in (changes, source):
                process.kill()
    ip("link", "del", "d0")


def has_said(log, text):
    """Whether the kernel's log has it, as far as it was not read."""
    found = False
    with contextlib.suppress(BlockingIOError):
        while True:
            found |= text in os.read(log, 8192)
    return found


def made_without(number, log):
    """rdma link add, with that failure. Whether the core lacked memory for the tables that it keeps."""
    with Injection(number):
        attempt(lambda: add_link("d1"), nldev.LACKING)
    if exists():
        subprocess.run(["rdma", "link", "del", NEW], check=True)
    return has_said(log, b"Couldn't set up InfiniBand P_Key/GID cache")


def failures_of_tables(log):
    """Which failures are those of tables that the core keeps. Each kernel has them elsewhere, but in one place, and
    none among the first."""
    found = []
    for number in range(15, MOST):
        if made_without(number, log):
            found.append(number)
        elif found and number > found[-1] + 10:
            return found
    raise AssertionError("no table could be made to fail")


def devices_while_addresses_change():
    """rdma link add: what the core asks of a device that it could not make, for an address elsewhere, is answered"""
    with open("/sys/kernel/debug/failslab/ignore-gfp-wait", encoding="ascii") as file:
        if file.read().strip() == "Y":
            raise Skip("tables are of memory that may wait, which fails in 75-no-memory only")
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    os.lseek(log, 0, os.SEEK_END)
    ip("netns", "add", "few")
    ip("-n", "few", "link", "add", "d1", "up", "type", "dummy")
    with within_namespace("few"):
        tables = failures_of_tables(log)
        print(f"# failures {tables[0]} to {tables[-1]} are of tables", flush=True)
        # The core fills them under its marks. Alone in its namespace, the device takes its time to go.
        end = time.monotonic() + LONGEST
        turns = itertools.takewhile(lambda _: time.monotonic() < end, 300 // len(tables) * tables)
        with addresses_come_and_go():
            failed = sum(made_without(number, log) for number in turns)
    print(f"# {failed} failed with tables")
    true(failed > 0, "no table could be made to fail while addresses changed")
    ip("netns", "del", "few")
    os.close(log)


if __name__ == "__main__":
    if os.environ["DRIVER"] == "rxe":
        TESTS = [questions]
    else:
        TESTS = [resized_queues, modified_shared_queues, regions_registered_again, regions_on_demand,
                 regions_of_buffers, groups, questions, devices, removals,
                 devices_while_addresses_change]
    context()
    run(TESTS)
