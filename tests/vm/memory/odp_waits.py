# SPDX-License-Identifier: GPL-2.0
"""What goes on while a queue pair waits for an absent page: everything that does not need the page. One test for each
cell of the table in Documentation/decisions-memory.rst, "A wait holds back what needs it".
"""

import contextlib
import time

from pyverbs.wr import SendWR

import enums as e
from counters import counter
from mapping import DONTNEED, HUGE, Memory
from odp import Region, regions
from odp_races import userfault
from rc import DEVICE, PAGE, eventually, readable
from tap import equal, not_for_rxe, true
from work import OK, READ, SEND, WRITE, pattern, status

RXE = "a blocked fault blocks more than its queue pair"
FIRST, SECOND = 1, 2
SIGNALED = e.IBV_SEND_SIGNALED


@contextlib.contextmanager
def absent(end):
    """A region at `end` whose only page comes when `fault.give` provides it."""
    held = Memory(PAGE)
    region, fault = Region(end, held), userfault(held)
    try:
        yield region, fault
    finally:
        # The page comes at last, or the queue pair would wait for it at its end.
        fault.close()
        region.close()


@contextlib.contextmanager
def ends(**settings):
    """Two connected ends, each with a region whose pages are present."""
    with regions(size=HUGE, **settings) as (a, b, here, there):
        here.held.write(pattern(1 << 16, 1))
        there.held.write(pattern(1 << 16, 2))
        yield a, b, here, there


def wanted(fault):
    """Waits for a page fault; returns its address."""
    true(readable(fault.fd, 30), "no page fault")
    return fault.wanted()


def post(end, *requests):
    """Posts requests (opcode, pieces, remote) with one doorbell; their numbers count from 1."""
    # The list keeps them: a request does not own the next one.
    built = [None]
    for number in range(len(requests), 0, -1):
        opcode, pieces, remote = requests[number - 1]
        built.append(SendWR(wr_id=number, num_sge=len(pieces), sg=pieces, opcode=opcode, send_flags=SIGNALED,
                            next_wr=built[-1]))
        if remote:
            built[-1].set_wr_rdma(remote[1], remote[0])
    end.qp.post_send(built[-1])


def completes(end, number, seconds=10, wanted=OK):
    """Checks the next completion."""
    wc = end.completion(seconds)
    equal((wc.wr_id, wc.status), (number, wanted))


# A request whose payload is absent.

def request_and_ack():
    """While the payload of a request is absent, an earlier request completes"""
    not_for_rxe(RXE)
    for opcode in (WRITE, READ):
        with ends() as (a, _, here, there), absent(a) as (late, fault):
            post(a, (opcode, here.sge(64), there.remote()), (WRITE, late.sge(64), there.remote(PAGE)))
            address = wanted(fault)
            completes(a, FIRST)
            a.silent()
            fault.give(address)
            completes(a, SECOND)
            equal(there.held.read(64, PAGE), bytes(64))


def request_and_rnr():
    """While the payload of a request is absent, an earlier one is sent again after an RNR NAK"""
    not_for_rxe(RXE)
    with ends(min_rnr_timer=12) as (a, b, here, there), absent(a) as (late, fault):
        post(a, (SEND, here.sge(64), None), (WRITE, late.sge(64), there.remote(PAGE)))
        a.silent(0.3)
        b.receive(pieces=there.sge(64))
        status(b, OK, "receive")
        completes(a, FIRST)
        fault.give(wanted(fault))
        completes(a, SECOND)


def request_and_error():
    """While the payload of a request is absent, an earlier one fails, and the wait ends"""
    not_for_rxe(RXE)
    with ends() as (a, _, here, there), absent(a) as (late, _fault):
        post(a, (WRITE, here.sge(64), (there.held.address, 0)), (WRITE, late.sge(64), there.remote(PAGE)))
        completes(a, FIRST, wanted=e.IBV_WC_REM_ACCESS_ERR)
        completes(a, SECOND, wanted=e.IBV_WC_WR_FLUSH_ERR)


def request_and_receive():
    """While the payload of a request is absent, the queue pair receives, and serves READs"""
    not_for_rxe(RXE)
    with ends() as (a, b, here, there), absent(a) as (late, fault):
        post(a, (WRITE, late.sge(64), there.remote(PAGE)))
        address = wanted(fault)
        a.receive(pieces=here.sge(64))
        post(b, (SEND, there.sge(64), None), (READ, there.sge(64, 64), here.remote(128)))
        equal(sorted(wc.wr_id for wc in b.completions(2)), [FIRST, SECOND])
        status(a, OK, "receive")
        fault.give(address)
        completes(a, FIRST)


def many_requests():
    """Hundreds of requests with absent payload, one after the other, are sent"""
    # More than an access may fault (MAX_FAULT_TRIES in rust/driver/mem/page_fault.rs).
    count = 300
    with regions(size=2 * HUGE) as (a, _, here, there):
        for at in range(count):
            a.send(WRITE, pieces=here.sge(64, at * PAGE), remote=there.remote())
            status(a, OK, f"request {at}")
            here.held.advise(DONTNEED)


# A response whose destination is absent.

def response_and_requests():
    """While the destination of a READ is absent, later requests are executed, and no ACK timeout counts"""
    not_for_rxe(RXE)
    with ends(timeout=10, retry_cnt=7) as (a, _, here, there), absent(a) as (late, fault):
        post(a, (READ, late.sge(64), there.remote()))
        address = wanted(fault)
        time.sleep(0.5)
        post(a, (WRITE, here.sge(64), there.remote(PAGE)))
        eventually(lambda: there.held.read(64, PAGE) == here.held.read(64), "the WRITE is executed")
        a.silent()
        fault.give(address)
        # Both have the number 1.
        completes(a, FIRST)
        completes(a, FIRST)
        equal(late.held.read(64), there.held.read(64))


def both_directions():
    """A READ completes when its own page comes, although the payload of a later request stays absent"""
    not_for_rxe(RXE)
    with ends() as (a, _, _here, there), absent(a) as (target, first), absent(a) as (source, second):
        post(a, (READ, target.sge(64), there.remote()), (WRITE, source.sge(64), there.remote(PAGE)))
        target_page, source_page = wanted(first), wanted(second)
        a.silent()
        first.give(target_page)
        completes(a, FIRST)
        a.silent()
        second.give(source_page)
        completes(a, SECOND)


# A received request whose memory is absent.

def received_and_ack():
    """While the memory of a received request is absent, earlier requests are acknowledged"""
    not_for_rxe(RXE)
    with ends(timeout=8, retry_cnt=7) as (a, b, here, there), absent(b) as (late, fault):
        post(a, (WRITE, here.sge(64), there.remote()), (WRITE, here.sge(64, 64), late.remote()))
        address = wanted(fault)
        completes(a, FIRST)
        # RNR NAKs keep the connection, whose ACK timeouts would be over after some milliseconds.
        a.silent(1)
        fault.give(address)
        completes(a, SECOND)
        equal(late.held.read(64), here.held.read(64, 64))


def received_and_read():
    """While the memory of a received request is absent, an earlier READ gets its data"""
    not_for_rxe(RXE)
    length = 1 << 20
    with ends() as (a, b, here, there), absent(b) as (late, fault):
        post(a, (READ, here.sge(length), there.remote()), (WRITE, here.sge(64, length), late.remote()))
        address = wanted(fault)
        completes(a, FIRST)
        equal(here.held.read(length), there.held.read(length))
        fault.give(address)
        completes(a, SECOND)


def received_and_nak():
    """A request whose memory is absent for long gets RNR NAKs: a peer without RNR retries fails at once"""
    not_for_rxe(RXE)
    with ends(timeout=20, rnr_retry=0) as (a, b, here, _), absent(b) as (late, _fault):
        before = counter("send_rnr_err", DEVICE)
        post(a, (WRITE, here.sge(64), late.remote()))
        completes(a, FIRST, wanted=e.IBV_WC_RNR_RETRY_EXC_ERR)
        true(counter("send_rnr_err", DEVICE) > before, "counter")


def received_and_backlog():
    """Requests behind one that waits for memory are dropped once the peer was told to send them again"""
    not_for_rxe(RXE)
    with ends() as (a, b, here, there), absent(b) as (late, fault):
        post(a, (WRITE, here.sge(64), late.remote()), *[(WRITE, here.sge(4096), there.remote(PAGE * at))
                                                        for at in range(1, 60)])
        address = wanted(fault)
        a.silent(0.5)
        fault.give(address)
        for number in range(1, 61):
            completes(a, number)
        for at in range(1, 60):
            equal(there.held.read(4096, PAGE * at), here.held.read(4096))


# A READ whose data is absent.

def answer_and_requests():
    """While the data of a READ is absent, later requests are executed, and earlier ones are acknowledged"""
    not_for_rxe(RXE)
    with ends() as (a, b, here, there), absent(b) as (late, fault):
        b.receive(pieces=there.sge(64, PAGE))
        post(a, (WRITE, here.sge(64), there.remote()), (READ, here.sge(64, PAGE), late.remote()),
             (SEND, here.sge(64), None))
        address = wanted(fault)
        completes(a, FIRST)
        status(b, OK, "receive")
        a.silent()
        fault.give(address)
        completes(a, SECOND)
        completes(a, 3)
        equal(here.held.read(64, PAGE), bytes(64))


def answer_and_nak():
    """A peer that asks again for data that is absent gets an RNR NAK"""
    not_for_rxe(RXE)
    with ends(timeout=10, retry_cnt=7) as (a, b, here, _), absent(b) as (late, fault):
        post(a, (READ, here.sge(64), late.remote()))
        address = wanted(fault)
        # Longer than all ACK timeouts together.
        a.silent(1)
        fault.give(address)
        completes(a, FIRST)


TESTS = [request_and_ack, request_and_rnr, request_and_error, request_and_receive, many_requests,
         response_and_requests, both_directions, received_and_ack, received_and_read, received_and_nak,
         received_and_backlog, answer_and_requests, answer_and_nak]
