# SPDX-License-Identifier: GPL-2.0
"""Tests of the common behaviour of all connected services, as an application sees it. Independent of the service: each
test receives the function that creates a pair of QPs.
"""

from functools import partial, update_wrapper

from pyverbs.wr import SGE

import enums as e
from tap import equal, true
from work import INLINE, LENGTHS, OK, SEND, SEND_IMM, SIGNALED, SOLICITED, WRITE_IMM, fill, held, pattern, piece, status


def sends(pair):
    """SEND delivers every byte, at every length"""
    with pair(a={"size": 1 << 17}, b={"size": 1 << 17}) as (a, b):
        for seed, length in enumerate(LENGTHS):
            data = pattern(length, seed)
            fill(a, data)
            b.receive(wr_id=100 + seed, pieces=piece(b, length))
            a.send(SEND, wr_id=seed, pieces=piece(a, length))
            got = status(b, OK, f"receive of {length}")
            equal((got.wr_id, got.byte_len, got.opcode), (100 + seed, length, e.IBV_WC_RECV))
            equal(got.qp_num, b.qp.qp_num, "qp_num")
            sent = status(a, OK, f"send of {length}")
            equal((sent.wr_id, sent.opcode), (seed, e.IBV_WC_SEND))
            equal(held(b, length), data, f"{length} bytes")


def immediate(pair):
    """SEND and WRITE deliver immediate data unchanged"""
    with pair() as (a, b):
        for seed, length in enumerate((0, 7, 3000)):
            fill(a, pattern(length, seed))
            b.receive(pieces=piece(b, 4096))
            a.send(SEND_IMM, pieces=piece(a, length), imm=0x01020304)
            got = status(b, OK, "receive")
            true(got.wc_flags & e.IBV_WC_WITH_IMM, "IBV_WC_WITH_IMM")
            equal(got.imm_data, 0x01020304, "immediate data of a send")
            status(a, OK, "send")
            b.receive(wr_id=9, pieces=[])
            a.send(WRITE_IMM, pieces=piece(a, length), remote=b.remote(100), imm=0xFFEEDDCC)
            got = status(b, OK, "receive")
            equal((got.wr_id, got.opcode, got.byte_len), (9, e.IBV_WC_RECV_RDMA_WITH_IMM, length))
            equal(got.imm_data, 0xFFEEDDCC, "immediate data of a write")
            status(a, OK, "write")
            equal(held(b, length, 100), pattern(length, seed))


def scatter_gather(pair):
    """SGEs gather and scatter at odd addresses"""
    with pair() as (a, b):
        data = pattern(3000, 1)
        fill(a, data[:1], 10)
        fill(a, data[1:1025], 1001)
        fill(a, data[1025:], 5000)
        b.receive(pieces=[b.sge(3, 999), b.sge(8000, 1), b.sge(2000, 4000)])
        a.send(SEND, pieces=[a.sge(10, 1), a.sge(1001, 1024), a.sge(5000, 1975)])
        equal(status(b, OK, "receive").byte_len, 3000)
        status(a, OK, "send")
        equal(held(b, 999, 3) + held(b, 1, 8000) + held(b, 2000, 2000), data)


def inline_data(pair):
    """Inline data needs no key and is copied when it is posted"""
    with pair(a={"inline": 64}, b={}) as (a, b):
        fill(a, b"inline data!")
        b.receive(pieces=[b.sge(0, 64)])
        a.send(SEND, pieces=[SGE(a.mr.buf, 12, 0xDEAD)], flags=SIGNALED | INLINE)
        fill(a, b"overwritten!")
        status(b, OK, "receive")
        status(a, OK, "send")
        equal(held(b, 12), b"inline data!")


def long_inline_data(pair):
    """Inline data may be as long as max_inline_data"""
    with pair(a={"inline": 500}, b={}) as (a, b):
        most = a.qp.query(e.IBV_QP_CAP)[1].cap.max_inline_data
        true(most >= 500, f"only {most} bytes")
        for length in (255, 256, 257, most):
            data = pattern(length, length)
            fill(a, data)
            b.receive(pieces=[b.sge(0, most)])
            a.send(SEND, pieces=[SGE(a.mr.buf, length, 0xDEAD)], flags=SIGNALED | INLINE)
            equal(status(b, OK, "receive").byte_len, length)
            status(a, OK, "send")
            equal(held(b, length), data, f"{length} bytes")


def solicited_events(pair):
    """A CQ armed for solicited completions ignores unsolicited ones"""
    with pair(b={"events": True}) as (a, b):
        b.cq.req_notify(True)
        b.receive(pieces=[b.sge(0, 64)])
        a.send(SEND, pieces=[a.sge(0, 4)])
        b.completion()
        true(not b.event(0.1), "an event for an unsolicited completion")
        b.receive(pieces=[b.sge(0, 64)])
        a.send(SEND, pieces=[a.sge(0, 4)], flags=SIGNALED | SOLICITED)
        true(b.event(), "no event for a solicited completion")
        b.completion()


def tests_of(pair, *made_for):
    """The tests, with the ends of pair()."""
    return [update_wrapper(partial(test, pair), test) for test in made_for]


def tests(pair):
    """The tests of this file, with the ends of pair()."""
    return tests_of(pair, sends, immediate, scatter_gather, inline_data, long_inline_data, solicited_events)
