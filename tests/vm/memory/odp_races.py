# SPDX-License-Identifier: GPL-2.0
"""Memory on demand whose pages go while they are in use, or come late or never."""

import contextlib
import os
import random
import signal
import threading
import time

from pyverbs.qp import QPAttr
from pyverbs.wr import RecvWR

import enums as e
import mapping
import ud
import unreliable
from counters import counter
from mapping import HUGE, Memory, Userfault
from odp import SEED, Region, regions
from rc import DEVICE, PAGE, eventually, own_context, pair
from tap import Skip, equal, not_for_rxe, true
from work import OK, READ, SEND, WRITE, pattern, status

# Limits of received packets that wait: in an inbox (rust/driver/qp/uc/mod.rs), in all of them as a share of memory,
# and in each although all are full (rust/rdma/net/rx/queue.rs), including a burst that exceeds it.
INBOX, WAITING_SHARE, MOST_UNCOUNTED = 4 << 20, 8, 128 << 10
BURST = 64 << 10
# Messages of 256 KiB that are more than an inbox holds, as each packet counts by its memory, and less without that. The
# packets are of 4096 bytes, as each takes time.
SENDS = 15


@contextlib.contextmanager
def thief(*steals):
    """While in the context, a thread takes pages away."""
    stop = threading.Event()

    def run():
        while not stop.is_set():
            for steal in steals:
                steal()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def machine():
    """A process's own writes survive page-out (of the machine: no device takes part)"""
    held = Memory(HUGE)
    end = time.monotonic() + 1
    with thief(lambda: held.advise(mapping.PAGEOUT)):
        seed = 0
        while time.monotonic() < end:
            seed += 1
            data = pattern(HUGE - 100, seed)
            held.write(data)
            true(held.read(len(data)) == data, f"round {seed}")
    held.unmap()


def stolen():
    """Traffic in both directions keeps every byte while pages are taken away all the time"""
    with regions(size=HUGE) as (a, b, here, there):
        with thief(mapping.take_all_pages, lambda: here.held.advise(mapping.PAGEOUT),
                   lambda: there.held.advise(mapping.PAGEOUT)):
            for seed in range(30):
                data = pattern(100000, seed)
                here.held.write(data)
                b.receive(pieces=there.sge(len(data), 3 * 100000))
                a.send(WRITE, pieces=here.sge(len(data)), remote=there.remote(1), flags=0)
                a.send(READ, pieces=here.sge(len(data), 100001), remote=there.remote(1), flags=0)
                a.send(SEND, pieces=here.sge(len(data)))
                status(a, OK, "sender", 60)
                status(b, OK, "receiver", 60)
                true(there.held.read(len(data), 1) == data, "written")
                true(here.held.read(len(data), 100001) == data, "read")
                true(there.held.read(len(data), 300000) == data, "received")


def dropped():
    """Traffic completes while pages are discarded: only whole pages are lost"""
    with regions(size=HUGE) as (a, _, here, there):
        data = b"\x5a" * 50000
        here.held.write(data)
        with thief(lambda: there.held.advise(mapping.DONTNEED)):
            for _ in range(100):
                a.send(WRITE, pieces=here.sge(len(data)), remote=there.remote())
                status(a, OK, "write", 60)
                true(set(there.held.read(len(data))) <= {0, 0x5A}, "bytes that were not written")
        a.send(WRITE, pieces=here.sge(len(data)), remote=there.remote())
        status(a, OK, "write", 60)
        true(there.held.read(len(data)) == data, "the last write")


def late_pages():
    """An access waits for a page as long as it takes, and completes when the page comes"""
    not_for_rxe("a blocked fault blocks more than its queue pair")
    with regions(size=HUGE) as (a, b, here, there):
        fault = userfault(there.held)
        here.held.write(b"late")
        a.send(WRITE, pieces=here.sge(4), remote=there.remote(100))
        address = fault.wanted()
        equal(address & ~(PAGE - 1), there.held.address)
        a.silent(1)
        fault.give(address)
        status(a, OK, "write")
        equal(there.held.read(4, 100), b"late")
        fault.close()
        del b


def no_pages():
    """Destroy, deregistration and the end of a process do not wait for a page that never comes"""
    not_for_rxe("a blocked fault blocks more than its queue pair")
    # Checked before the fork: the child cannot skip.
    held = Memory(HUGE)
    userfault(held).close()
    held.unmap()
    child = os.fork()
    if child == 0:
        own_context()
        with regions(size=HUGE) as (a, _, here, there):
            fault = userfault(there.held)
            a.send(WRITE, pieces=here.sge(4), remote=there.remote())
            fault.wanted()
        with pair() as (a, b):
            here, there = Region(a, Memory(HUGE)), Region(b, Memory(HUGE))
            again = userfault(there.held)
            a.send(WRITE, pieces=here.sge(4), remote=there.remote())
            again.wanted()
            os.kill(os.getpid(), signal.SIGKILL)
    end = time.monotonic() + 60
    done = 0
    while not done and time.monotonic() < end:
        time.sleep(0.1)
        done, how = os.waitpid(child, os.WNOHANG)
    if not done:
        os.kill(child, signal.SIGKILL)
    true(done, "the process hangs")
    equal(os.WTERMSIG(how), signal.SIGKILL, "the signal that ended it")


def userfault(held):
    """Makes the memory's pages come only when the test provides them."""
    try:
        return Userfault(held)
    except OSError as error:
        raise Skip(f"userfaultfd: {error}") from error


def secret_memory():
    """Access to memory that the kernel cannot reach fails, and harms nothing else"""
    not_for_rxe("reads memory that the kernel has not mapped, which is an oops")
    try:
        hidden = mapping.secret(PAGE)
    except OSError as error:
        raise Skip(f"memfd_secret: {error}") from error
    hidden.write(b"secret")
    for opcode in (READ, WRITE):
        with regions(far=hidden) as (a, _, here, there):
            a.send(opcode, pieces=here.sge(8), remote=there.remote())
            status(a, e.IBV_WC_REM_ACCESS_ERR, f"opcode {opcode}")
    hidden.unmap()


def gone_while_used():
    """Regions can be deregistered while a peer uses them"""
    for round_ in range(30):
        with pair() as (a, b):
            here, there = Region(a, Memory(HUGE)), Region(b, Memory(HUGE))
            for _ in range(8):
                a.send(READ if round_ % 2 else WRITE, pieces=here.sge(200000), remote=there.remote(round_))
            (there if round_ % 3 else here).close()
            ends = [OK, e.IBV_WC_REM_ACCESS_ERR, e.IBV_WC_LOC_PROT_ERR, e.IBV_WC_WR_FLUSH_ERR, e.IBV_WC_REM_OP_ERR]
            if round_ % 2:
                # On a slow machine a request may be retransmitted, which is not acknowledged once the region is gone.
                ends.append(e.IBV_WC_RETRY_EXC_ERR)
            for wc in a.completions(8, 30):
                true(wc.status in ends, f"status {wc.status}")
            (here if round_ % 3 else there).close()
            for region in (here, there):
                region.held.unmap()


def _busy(seconds):
    """Returns the share of a CPU that the kernel uses."""
    def ticks():
        with open("/proc/stat", encoding="ascii") as stat:
            _, _, _, system, _, _, irq, softirq, *_ = stat.readline().split()
        return int(system) + int(irq) + int(softirq)
    before = ticks()
    time.sleep(seconds)
    return (ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds


def failed():
    """A failed queue pair does not wait for page faults, and uses no CPU time"""
    not_for_rxe("a blocked fault blocks more than its queue pair")
    half = 25 * PAGE
    with regions(size=2 * half) as (a, b, here, there):
        late = Region(b, Memory(PAGE))
        fault = userfault(late.held)
        there.held.write(bytes(half))
        there.held.unmap(half)
        # While the first request waits, the others queue up behind it.
        a.send(READ, pieces=here.sge(8), remote=late.remote())
        address = fault.wanted()
        a.send(READ, pieces=here.sge(2 * half), remote=there.remote())
        a.send(WRITE, pieces=here.sge(8), remote=(there.held.address, there.mr.rkey ^ 0x100))
        time.sleep(0.2)
        fault.give(address)
        first, second, third = a.completions(3, 60)
        equal(first.status, OK)
        true(second.status != OK, "half of it does not exist")
        equal(third.status, e.IBV_WC_WR_FLUSH_ERR)
        eventually(lambda: _busy(0.5) < 0.25, "the kernel becomes idle", 20)
        fault.close()
        late.close()


def _taken_back(length, expected, settings, state=None):
    """The sender gives up, or moves to a state that ends the request; `expected`: possible completion statuses."""
    with regions(size=HUGE, **settings) as (a, b, here, there):
        fault = userfault(there.held)
        a.mr.write(b"\x11" * length, length)
        b.receive(pieces=there.sge(length))
        a.send(SEND, pieces=[a.sge(0, length)])
        address = fault.wanted()
        if state is not None:
            a.qp.modify(QPAttr(qp_state=state), e.IBV_QP_STATE)
        if expected:
            true(a.completion(30).status in expected, "status at the sender")
        else:
            a.silent(0.1)
        a.mr.write(b"\x22" * length, length)
        for page in range(0, length, PAGE):
            fault.give(address + page)
        try:
            b.silent(0.5)
        except AssertionError:
            status(b, OK, "if it is delivered after all")
            true(there.held.read(length) == b"\x11" * length, "the bytes that were sent")
        fault.close()
        del here


def taken_back():
    """Bytes that a sender changes after its message failed are not delivered"""
    not_for_rxe("a blocked fault blocks more than its queue pair")
    for length in (1000, 20000):
        _taken_back(length, [e.IBV_WC_RNR_RETRY_EXC_ERR], {"rnr_retry": 0})
        for _ in range(3):
            # On a slow machine, the answer that the receiver is not ready may arrive before the timeout.
            statuses = [e.IBV_WC_RETRY_EXC_ERR, e.IBV_WC_RNR_RETRY_EXC_ERR]
            _taken_back(length, statuses, {"timeout": 1, "retry_cnt": 0, "rnr_retry": 0})
            _taken_back(length, [e.IBV_WC_WR_FLUSH_ERR], {}, e.IBV_QPS_ERR)
            _taken_back(length, [], {}, e.IBV_QPS_RESET)


def held_receive():
    """A receive that waited for its memory for a datagram that is then dropped fits the next datagram as before"""
    not_for_rxe("a blocked fault blocks more than its queue pair")
    a, b = ud.UdEnd(), ud.UdEnd()
    to_b = a.handle_for(os.environ["ADDR"], int(os.environ["GID4"]))
    there = Region(b, Memory(PAGE))
    fault = userfault(there.held)
    b.qp.post_recv(RecvWR(wr_id=7, num_sge=1, sg=there.sge(ud.GRH + 8)))
    equal(a.send(to_b, bytes(8), b.qp.qp_num), OK)
    address = fault.wanted()
    # The waiting datagram no longer matches the Q_Key when the page comes.
    rekeyed = QPAttr()
    rekeyed.qkey = ud.QKEY + 1
    b.qp.modify(rekeyed, e.IBV_QP_QKEY)
    fault.give(address)
    for length in (9, 8):
        b.silent()
        equal(a.send(to_b, bytes(length), b.qp.qp_num, ud.QKEY + 1), OK)
    wc = b.completion()
    equal((wc.wr_id, wc.status, wc.byte_len), (7, OK, ud.GRH + 8))
    to_b.close()
    fault.close()
    there.close()
    a.close()
    b.close()


def killed():
    """A process can be killed while its pages come and go"""
    chance = random.Random(SEED)
    for round_ in range(10):
        ready, go = os.pipe()
        child = os.fork()
        if child == 0:
            own_context()
            with regions(size=4 * HUGE) as (a, _, here, there):
                with thief(mapping.take_all_pages, lambda: there.held.advise(mapping.DONTNEED)):
                    os.write(go, b"x")
                    while True:
                        a.send(WRITE, pieces=here.sge(3 * HUGE), remote=there.remote(), flags=0)
                        a.send(READ, pieces=here.sge(3 * HUGE), remote=there.remote())
                        a.completion(60)
        os.read(ready, 1)
        time.sleep(chance.random() / 5)
        os.kill(child, signal.SIGKILL)
        equal(os.WTERMSIG(os.waitpid(child, 0)[1]), signal.SIGKILL, f"round {round_}")
        os.close(ready)
        os.close(go)


def dropped_at_inboxes():
    """Returns the number of packets that full inboxes have dropped, once it stays the same: a send completes before its
    packets arrive.
    """
    last, now = None, counter("rx_queue_full", DEVICE)
    while now != last:
        time.sleep(0.3)
        last, now = now, counter("rx_queue_full", DEVICE)
    return now


def fill_inboxes(stack, memory, count):
    """Creates QPs that wait for that memory, with full inboxes; returns the number of payload bytes in them."""
    senders = []
    full = dropped_at_inboxes()
    for _ in range(count):
        a, b = stack.enter_context(unreliable.pair(path_mtu=e.IBV_MTU_4096))
        there = Region(b, memory)
        stack.callback(there.close)
        for flags in [0] * (SENDS - 1) + [e.IBV_SEND_SIGNALED]:
            a.send(WRITE, pieces=[a.sge(0, 1 << 16)] * 4, remote=there.remote(), flags=flags)
        senders.append(a)
    # While nothing is received, all of the sends are held back at the same time.
    for a in senders:
        status(a, OK, "sent", 60)
    lost = (dropped_at_inboxes() - full) * 4096
    true(lost, "no inbox is full")
    return count * SENDS * (4 << 16) - lost


def in_sum():
    """Packets that wait for absent pages are limited to a share of memory, and other queue pairs proceed"""
    not_for_rxe("a blocked fault blocks more than its queue pair")
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemTotal"))
    room = memory / WAITING_SHARE / INBOX
    count = int(room * 1.5)
    # The fault is closed before its QPs: the pages come, and the waiting packets are placed.
    with contextlib.ExitStack() as stack, contextlib.closing(userfault(Memory(HUGE))) as fault:
        # The first inbox fills up to its own limit. The overhead of a packet cancels out.
        one = fill_inboxes(stack, fault.memory, 1)
        queues = 1 + fill_inboxes(stack, fault.memory, count) / one
        with unreliable.pair() as (a, b):
            b.receive()
            a.send(SEND, pieces=[a.sge(0, 3000)])
            status(b, OK, "another QP")
    print(f"# of {count + 1} inboxes, {queues:.1f} are filled; the limit is {room:.1f}", flush=True)
    # The last burst may exceed the limit of the first inbox, or not: the unit is known to a burst.
    most = (room + count * MOST_UNCOUNTED / INBOX + 1) * (1 + BURST / INBOX)
    true(room / 2 < queues < most, f"{queues:.1f} queues")
    with contextlib.ExitStack() as stack, contextlib.closing(userfault(Memory(HUGE))) as fault:
        true(fill_inboxes(stack, fault.memory, 1) > one * 0.9, "room for a full inbox again")


TESTS = [machine, stolen, dropped, late_pages, no_pages, secret_memory, gone_while_used, failed, taken_back,
         held_receive, killed, in_sum]
