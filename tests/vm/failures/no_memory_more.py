# SPDX-License-Identifier: GPL-2.0
"""Allocation or copy failures, as in no_memory.py: verbs that change or query an existing object, regions of other
kinds, and the device itself.

After a failed verb its object is as before or as requested; it still works, and the same call succeeds right after.
"""

import collections
import contextlib
import os
import subprocess
import time

from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

import enums as e
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
# Failures of the core's tables while addresses change, and the maximum time for them, in seconds. A driver whose
# get_netdev uses dropped data was found after 8 to 91 of them.
ENOUGH, FEWEST, LONGEST = 500, 50, 120
# Where the first failure of a table is in Linux 7.3.
LIKELY = 40


def each_time(action, check=lambda done: None, least=2, other=()):
    """Repeats an action, whose result is not None, with a later failure each time until there is none left. `check`
    inspects each result. A failed action succeeds right after, and leaves no objects behind. Requires more than
    `least` attempts; `other` errors: as for attempt.
    """
    before = resources()
    for number in range(1, MOST):
        with Injection(number) as injection:
            done = attempt(action, other)
        check(done)
        if not injection.happened:
            true(done is not None, "nothing failed, but nothing was done")
            true(number > least, f"only {number - 1} could be made to fail")
            equal(resources(), before, "objects afterwards")
            return
        if done is None:
            done = action()
            true(done is not None, "the same call, right after")
            check(done)
    raise AssertionError(f"still failing after {MOST} times")


def resized_queues():
    """resize_cq that fails loses no completion"""
    with pair() as (a, b):
        sizes, rings = iter(range(1000, 100000, 7)), len(mappings())

        def resize():
            a.cq.resize(next(sizes))
            return True

        def used(_done):
            if len(mappings()) < rings:
                # The library failed to map the new ring, and had already unmapped the old one.
                resize()
            for wr_id in (3, 4):
                a.send(WRITE, wr_id=wr_id, pieces=[a.sge(0, 64)], remote=b.remote())
            equal([(wc.wr_id, wc.status) for wc in a.completions(2)], [(3, OK), (4, OK)], "completions")

        each_time(resize, used)


def modified_shared_queues():
    """modify_srq that fails leaves the old or the new size"""
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
    """rereg_mr that fails for other rights or another address succeeds when repeated"""
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
    """reg_mr on demand, of untouched and of populated memory, survives every allocation failure"""
    domain = PD(context())
    held = mapping.Memory(64 * PAGE)
    each_failure(lambda: MR(domain, held.length, FULL_ACCESS | ON_DEMAND, address=held.address), close)
    held.write(bytes(held.length))
    each_failure(lambda: MR(domain, held.length, FULL_ACCESS | ON_DEMAND, address=held.address), close)
    domain.close()


def write(name, text):
    """Writes a text to a file of the kernel."""
    with open(name, "w", encoding="ascii") as file:
        file.write(text)


def reject(start, end):
    """Exempts from failures the allocations whose call trace has code between these addresses."""
    for cause in ("failslab", "fail_page_alloc"):
        for name, value in (("start", start), ("end", end)):
            write(f"/sys/kernel/debug/{cause}/reject-{name}", hex(value))


@contextlib.contextmanager
def spared(function):
    """Exempts allocations below that function of the kernel from failures, if the kernel can follow its stack."""
    if not os.path.exists("/sys/kernel/debug/failslab/reject-start"):
        raise Skip("this kernel cannot select which allocations fail")
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
    """reg_dmabuf_mr survives every allocation failure"""
    buffer = dma_buf.of_file()
    end = End()
    # The kernel itself warns, once, if the exporter has no memory to map the buffer.
    with spared("dma_buf_vmap"):
        each_failure(lambda: dma_buf.Region(end, buffer), close)
    end.close()
    os.close(buffer)


def groups():
    """attach_mcast that fails leaves no membership, and succeeds when repeated"""
    end = UdEnd()
    for address in "239.1.1.9", "ff15::109":
        # The first attach reads the handle of the queue pair.
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
    """query_device, query_port, query_qp and query_srq return correct values or fail"""
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
                equal(done, wanted, "the result")

        each_time(ask, right, least)
    queue.close()
    domain.close()
    end.close()


def add_link(netdev=NETDEV):
    """Sends the request of `rdma link add`."""
    nldev.ask(nldev.NEWLINK, {nldev.DEV_NAME: NEW, nldev.LINK_TYPE: os.environ["DRIVER"], nldev.NDEV_NAME: netdev})
    return True


def exists():
    """Returns whether the device exists."""
    return os.path.exists(f"/sys/class/infiniband/{NEW}")


def devices():
    """rdma link add creates the device, or leaves nothing of it"""
    gone, number = 0, 0
    while number < 50 * MOST:
        # There are hundreds of failures, each of which creates a device: later ones are sampled.
        number += 1 + number // 12
        with Injection(number) as injection:
            # If only the response failed, the device exists.
            made = attempt(add_link, nldev.LACKING)
        true(made is None or exists(), "it was created, but does not exist")
        gone += not exists()
        if exists():
            nldev.delete(NEW)
        true(not exists(), "it exists after it was deleted")
        if not injection.happened:
            true(made is not None, "nothing failed, but nothing was created")
            true(gone > 0, "it could not be made to fail")
            print(f"# up to failure {number}, {gone} without a device")
            return
    raise AssertionError("still failing")


def removals():
    """rdma link del that fails leaves the device as before; otherwise it removes a device in use"""
    stayed = 0
    for number in range(1, MOST):
        true(add_link(), "the device is created")
        end = UdEnd(NEW)
        device = {nldev.DEV_INDEX: nldev.index_of(NEW)}
        with Injection(number) as injection:
            attempt(lambda device=device: nldev.ask(nldev.DELLINK, device), nldev.LACKING)
        if exists():
            stayed += 1
            equal(end.qp.query(e.IBV_QP_STATE)[0].qp_state, e.IBV_QPS_RTS, "it is as before")
            nldev.ask(nldev.DELLINK, device)
        true(not exists(), "it exists after it was deleted")
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
    """Adds and deletes an address of a separate interface in a loop."""
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
    """Returns whether the unread part of the kernel log contains a text."""
    found = False
    with contextlib.suppress(BlockingIOError):
        while True:
            found |= text in os.read(log, 8192)
    return found


@contextlib.contextmanager
def whole_pages():
    """Exempts pages from failures: how many a call takes varies, as slabs fill up."""
    name = "/sys/kernel/debug/fail_page_alloc/min-order"
    with open(name, encoding="ascii") as file:
        before = file.read()
    write(name, "100")
    try:
        yield
    finally:
        write(name, before)


def made_without(number, log):
    """Runs `rdma link add` with that failure. Returns whether the core lacked memory for its P_Key and GID tables."""
    with Injection(number):
        attempt(lambda: add_link("d1"), nldev.LACKING)
    if exists():
        nldev.delete(NEW)
    return has_said(log, b"Couldn't set up InfiniBand P_Key/GID cache")


def failure_of_tables(log):
    """Returns the number of a failure that hits the core's tables. Their place depends on the kernel."""
    for number in sorted(range(15, MOST), key=lambda number: abs(number - LIKELY)):
        if made_without(number, log):
            return number
    raise AssertionError("no table could be made to fail")


def devices_while_addresses_change():
    """rdma link add that fails in the core's tables survives GID updates for addresses of other interfaces"""
    with open("/sys/kernel/debug/failslab/ignore-gfp-wait", encoding="ascii") as file:
        if file.read().strip() == "Y":
            raise Skip("sleeping allocations, as of tables, fail in 75-no-memory only")
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    os.lseek(log, 0, os.SEEK_END)
    ip("netns", "add", "few")
    ip("-n", "few", "link", "add", "d1", "up", "type", "dummy")
    with within_namespace("few"), whole_pages():
        found = failure_of_tables(log)
        print(f"# failure {found} is of tables", flush=True)
        # Those beside it are of tables, too, or become so: the place shifts as caches fill up. A miss creates a device,
        # which takes fifty times as long, so numbers take turns only while none has missed less.
        numbers = range(found - 4, found + 5)
        end, failed, missed, tried = time.monotonic() + LONGEST, 0, collections.Counter(), collections.Counter()
        # The core fills the tables under its marks (xarray).
        with addresses_come_and_go():
            while failed < ENOUGH and time.monotonic() < end:
                number = min(numbers, key=lambda number: (missed[number], tried[number]))
                hit = made_without(number, log)
                tried[number] += 1
                missed[number] += not hit
                failed += hit
    print(f"# {failed} failed with tables, {missed.total()} did not")
    true(failed >= FEWEST, f"only {failed} tables could be made to fail while addresses changed")
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
