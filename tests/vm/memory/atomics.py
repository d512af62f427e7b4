# SPDX-License-Identifier: GPL-2.0
"""Atomic operations, atomic WRITEs, FLUSHes and invalidations, as an application sees them.

Two QPs of one device talk to each other. For every operation the tests check the bytes, the completion, and the status
of each error.
"""

import ctypes
import errno
import mmap
import struct
import threading

from pyverbs.wr import SGE, SendWR

import enums as e
from mistakes import both_failed
from rc import FULL_ACCESS, forget_events, pair
from ring import ABI
from tap import equal, not_for_rxe, run, true
from verbs import refused as refused_post
from work import FENCE, FLUSHED, OK, READ, RXE, SIGNALED, WRITE, fill, held, status

ADD, SWAP = e.IBV_WR_ATOMIC_FETCH_AND_ADD, e.IBV_WR_ATOMIC_CMP_AND_SWP
ATOMIC = FULL_ACCESS | e.IBV_ACCESS_REMOTE_ATOMIC
FLUSH = ATOMIC | e.IBV_ACCESS_FLUSH_GLOBAL
OPS = (e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_INV | e.IBV_QP_EX_WITH_RDMA_WRITE
       | e.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
       | e.IBV_QP_EX_WITH_LOCAL_INV | e.IBV_QP_EX_WITH_FLUSH | e.IBV_QP_EX_WITH_ATOMIC_WRITE)
MANY = 1 << 64
ENDS = {"a": {"access": FLUSH}, "b": {"access": FLUSH}, "rights": FLUSH}
EXTENDED = {"a": {"access": FLUSH, "ops": OPS}, "b": {"access": FLUSH}, "rights": FLUSH}


def number(end, offset=0):
    """Eight bytes of an end's memory as an integer in native byte order."""
    return struct.unpack("=Q", held(end, 8, offset))[0]


def put(end, value, offset=0):
    """Stores an integer in an end's memory."""
    fill(end, struct.pack("=Q", value), offset)


def atomic(end, opcode, remote, compare_add, swap=0, wr_id=2, flags=SIGNALED, pieces=None):
    """Posts an atomic operation."""
    pieces = pieces or [end.sge(256, 8)]
    request = SendWR(wr_id=wr_id, num_sge=len(pieces), sg=pieces, opcode=opcode, send_flags=flags)
    request.set_wr_atomic(remote[1], remote[0], compare_add, swap)
    end.qp.post_send(request)


def adds():
    """FETCH_AND_ADD adds, returns the old value, and changes no adjacent byte"""
    with pair(**ENDS) as (a, b):
        for before, add in ((5, 7), (MANY - 1, 2), (1 << 63, 1 << 63), (0, 0)):
            fill(b, b"\xaa" * 24)
            put(b, before, 8)
            fill(a, b"\xbb" * 24, 248)
            atomic(a, ADD, b.remote(8), add)
            got = status(a, OK, "add")
            equal((got.opcode, got.byte_len), (e.IBV_WC_FETCH_ADD, 8))
            equal(number(b, 8), (before + add) % MANY, "the sum")
            equal(held(b, 8) + held(b, 8, 16), b"\xaa" * 16, "adjacent bytes")
            equal(held(a, 24, 248), b"\xbb" * 8 + struct.pack("=Q", before) + b"\xbb" * 8)


def swaps():
    """CMP_AND_SWP swaps if the comparison matches, and returns the old value"""
    with pair(**ENDS) as (a, b):
        put(b, 0x1122334455667788)
        atomic(a, SWAP, b.remote(), 1, 2)
        equal(status(a, OK, "swap without a match").opcode, e.IBV_WC_COMP_SWAP)
        equal((number(a, 256), number(b)), (0x1122334455667788,) * 2)
        atomic(a, SWAP, b.remote(), 0x1122334455667788, 2)
        status(a, OK, "swap with a match")
        equal((number(a, 256), number(b)), (0x1122334455667788, 2))


def many():
    """Many outstanding atomic operations execute once each, for any max_rd_atomic"""
    for depth in (1, 3, 16):
        with pair(max_rd_atomic=depth, max_dest_rd_atomic=depth, **ENDS) as (a, b):
            put(b, 0)
            for index in range(60):
                atomic(a, ADD, b.remote(), 1, wr_id=index, pieces=[a.sge(8 * index, 8)])
            equal([(wc.wr_id, wc.status) for wc in a.completions(60)], [(n, OK) for n in range(60)])
            equal([number(a, 8 * index) for index in range(60)], list(range(60)))
            equal(number(b), 60)


def against_reads():
    """Atomic operations keep their order among READs and WRITEs of one queue"""
    with pair(**ENDS) as (a, b):
        put(b, 0)
        for index in range(10):
            atomic(a, ADD, b.remote(), 1, flags=0, pieces=[a.sge(1000, 8)])
            a.send(READ, pieces=[a.sge(8 * index, 8)], remote=b.remote(), flags=SIGNALED)
            a.send(WRITE, pieces=[a.sge(8 * index, 8)], remote=b.remote(1024 + 8 * index), flags=SIGNALED | FENCE)
        a.completions(20)
        equal([number(a, 8 * index) for index in range(10)], list(range(1, 11)))
        equal([number(b, 1024 + 8 * index) for index in range(10)], list(range(1, 11)))


# mov rcx, rsi; 1: lock inc qword [rdi]; dec rcx; jnz 1b; ret
COUNT = bytes.fromhex("4889f1" "f048ff07" "48ffc9" "75f7" "c3")


def against_the_processor():
    """Atomic operations are atomic with respect to a program that increments the same word"""
    not_for_rxe("atomic against itself only")
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(COUNT)
    entry = ctypes.addressof(ctypes.c_char.from_buffer(code))
    count = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(entry)
    with pair(**ENDS) as (a, b):
        put(b, 0)
        rounds, counted, enough = 0, [0], threading.Event()

        def program():
            while not enough.is_set():
                count(b.mr.buf, 100_000)
                counted[0] += 100_000

        thread = threading.Thread(target=program)
        thread.start()
        try:
            while rounds < 160 or counted[0] < 3_000_000:
                for _ in range(16):
                    atomic(a, ADD, b.remote(), 1)
                a.completions(16, 20)
                rounds += 16
        finally:
            enough.set()
            thread.join()
        equal(number(b), counted[0] + rounds)


def refused(wanted, remote, event=None, opcodes=(ADD, SWAP), **settings):
    """Atomic operations that the peer must refuse, without a change of memory."""
    for opcode in opcodes:
        forget_events()
        with pair(**{**ENDS, **settings}) as (a, b):
            before = held(b, 4096)
            atomic(a, opcode, remote(b), 0, 1, wr_id=77)
            a.send(WRITE, wr_id=78, pieces=[a.sge(0, 8)], remote=b.remote())
            equal(status(a, wanted, "the refused request").wr_id, 77)
            equal(status(a, FLUSHED, "the next request").wr_id, 78)
            both_failed(a, b, None if RXE else event)
            equal(held(b, 4096), before, "memory of the peer")


def unaligned():
    """The responder refuses an unaligned atomic address as an invalid request"""
    for offset in (1, 4, 7):
        for name, values in (("atomic_fetch_add", (1,)), ("atomic_cmp_swp", (0, 1))):
            forget_events()
            with pair(**EXTENDED) as (a, b):
                a.order(name, b.mr.rkey, b.mr.buf + offset, *values, pieces=[a.sge(256, 8)])
                status(a, e.IBV_WC_REM_INV_REQ_ERR, "the refused request")
                both_failed(a, b, None if RXE else e.IBV_EVENT_QP_REQ_ERR)
                equal(held(b, 16), bytes(16), "memory of the peer")


def wrong_place():
    """The responder refuses an invalid key or an address outside the region with a remote access error"""
    size = 1 << 16
    for remote in (lambda b: (b.mr.buf, b.mr.rkey ^ 0x55), lambda b: (b.mr.buf + size, b.mr.rkey),
                   lambda b: (b.mr.buf - 8, b.mr.rkey), lambda b: (MANY - 8, b.mr.rkey)):
        refused(e.IBV_WC_REM_ACCESS_ERR, remote, e.IBV_EVENT_QP_ACCESS_ERR)


def no_rights():
    """The responder refuses an atomic operation that the region or the QP does not permit"""
    refused(e.IBV_WC_REM_ACCESS_ERR, lambda b: b.remote(), e.IBV_EVENT_QP_ACCESS_ERR, b={"access": FULL_ACCESS})
    refused(e.IBV_WC_REM_INV_REQ_ERR, lambda b: b.remote(), e.IBV_EVENT_QP_REQ_ERR, rights=FULL_ACCESS)


def wrong_result_place():
    """A result that does not fit its SGE fails with a local error"""
    cases = ((e.IBV_WC_LOC_LEN_ERR, lambda a: [a.sge(0, 4)]), (e.IBV_WC_LOC_PROT_ERR, lambda a: [SGE(a.mr.buf, 8, 1)]))
    for wanted, pieces in cases:
        with pair(**EXTENDED) as (a, b):
            a.order("atomic_fetch_add", b.mr.rkey, b.mr.buf, 1, pieces=pieces(a))
            status(a, wanted, "add")


def long_result_place():
    """A result in longer SGEs leaves their other bytes unchanged; more SGEs than the ABI has are refused"""
    with pair(**ENDS) as (a, b):
        put(b, 3)
        fill(a, b"\xcc" * 32)
        atomic(a, ADD, b.remote(), 1, pieces=[a.sge(0, 20)])
        equal(status(a, OK, "add").byte_len, 8)
        equal(held(a, 32), struct.pack("=Q", 3) + b"\xcc" * 24)
        fill(a, b"\xcc" * 32)
        pieces = [a.sge(0, 3), a.sge(16, 13)]
        if ABI.RESULT_SGES < len(pieces):
            refused_post(lambda: atomic(a, ADD, b.remote(), 1, pieces=pieces), errno.EINVAL)
            equal((number(b), held(a, 32)), (4, b"\xcc" * 32), "both ends' bytes")
            return
        atomic(a, ADD, b.remote(), 1, pieces=pieces)
        equal(status(a, OK, "add").byte_len, 8)
        four = struct.pack("=Q", 4)
        equal(held(a, 32), four[:3] + b"\xcc" * 13 + four[3:] + b"\xcc" * 11)


def whole_writes():
    """ATOMIC_WRITE writes eight bytes of the work request"""
    with pair(**EXTENDED) as (a, b):
        fill(b, b"\xaa" * 24)
        a.order("atomic_write", b.mr.rkey, b.mr.buf + 8, b"\x01\x02\x03\x04\x05\x06\x07\x08")
        equal(status(a, OK, "atomic write").opcode, e.IBV_WC_ATOMIC_WRITE)
        equal(held(b, 24), b"\xaa" * 8 + bytes(range(1, 9)) + b"\xaa" * 8)
    for wanted, offset, key in ((e.IBV_WC_REM_INV_REQ_ERR, 4, 0), (e.IBV_WC_REM_ACCESS_ERR, 8, 0x55)):
        with pair(**EXTENDED) as (a, b):
            before = held(b, 64)
            a.order("atomic_write", b.mr.rkey ^ key, b.mr.buf + offset, b"\x01\x02\x03\x04\x05\x06\x07\x08")
            status(a, wanted, "atomic write")
            equal(held(b, 64), before, "memory of the peer")


def flushes():
    """FLUSH of a range and of a region completes after the preceding WRITE"""
    with pair(**EXTENDED) as (a, b):
        fill(a, b"flush me")
        a.order("rdma_write", b.mr.rkey, b.mr.buf, pieces=[a.sge(0, 8)], flags=0)
        a.order("flush", b.mr.rkey, b.mr.buf, 8, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_RANGE)
        equal(status(a, OK, "flush of a range").opcode, e.IBV_WC_FLUSH)
        equal(held(b, 8), b"flush me")
        a.order("flush", b.mr.rkey, 0, 0, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_MR)
        status(a, OK, "flush of a region")
    for wanted, settings, place in ((e.IBV_WC_REM_ACCESS_ERR, {"b": {"access": ATOMIC}}, e.IBV_FLUSH_GLOBAL),
                                    (e.IBV_WC_REM_INV_REQ_ERR, {"rights": ATOMIC}, e.IBV_FLUSH_GLOBAL),
                                    (e.IBV_WC_REM_INV_REQ_ERR, {}, e.IBV_FLUSH_PERSISTENT)):
        with pair(**{**EXTENDED, **settings}) as (a, b):
            a.order("flush", b.mr.rkey, b.mr.buf, 8, place, e.IBV_FLUSH_RANGE)
            status(a, wanted, "FLUSH without permission")
    with pair(**EXTENDED) as (a, b):
        a.order("flush", b.mr.rkey, b.mr.buf + b.mr.length - 7, 8, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_RANGE)
        status(a, e.IBV_WC_REM_ACCESS_ERR, "FLUSH beyond the region")


def no_depth():
    """A responder without resources refuses atomics, FLUSH and ATOMIC_WRITE"""
    not_for_rxe("accepts a FLUSH, and uses an entry of an empty table")
    for ask in (lambda a, b: a.order("flush", b.mr.rkey, b.mr.buf, 8, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_RANGE),
                lambda a, b: a.order("atomic_write", b.mr.rkey, b.mr.buf, b"12345678"),
                lambda a, b: a.order("atomic_fetch_add", b.mr.rkey, b.mr.buf, 1, pieces=[a.sge(0, 8)])):
        with pair(**EXTENDED, max_dest_rd_atomic=0) as (a, b):
            before = held(b, 64)
            ask(a, b)
            status(a, e.IBV_WC_REM_INV_REQ_ERR, "the request")
            equal(held(b, 64), before, "memory of the peer")
            both_failed(a, b)
    forget_events()


def foreign_invalidation():
    """SEND_WITH_INV of a key that may not be invalidated fails both ends"""
    not_for_rxe("acknowledges it")
    for key in (lambda b: 0xDEAD, lambda b: b.mr.rkey):
        with pair(**EXTENDED) as (a, b):
            b.receive()
            a.order("send_inv", key(b), pieces=[a.sge(0, 64)])
            status(a, e.IBV_WC_REM_ACCESS_ERR, "the send")
            status(b, e.IBV_WC_REM_INV_REQ_ERR, "the receive")
            both_failed(a, b)


def local_invalidation():
    """LOCAL_INV of a key that cannot be invalidated fails after the preceding request"""
    for key in (lambda a: 0xDEAD, lambda a: a.mr.rkey):
        with pair(**EXTENDED) as (a, b):
            a.order("rdma_write", b.mr.rkey, b.mr.buf, pieces=[a.sge(0, 4096)], wr_id=1)
            a.order("local_inv", key(a), wr_id=2)
            a.order("rdma_write", b.mr.rkey, b.mr.buf, pieces=[a.sge(0, 8)], wr_id=3)
            equal(status(a, OK, "the preceding write").wr_id, 1)
            equal(status(a, e.IBV_WC_LOC_QP_OP_ERR, "the invalidation").wr_id, 2)
            equal(status(a, FLUSHED, "the next write").wr_id, 3)


TESTS = (adds, swaps, many, against_reads, against_the_processor, unaligned, wrong_place, no_rights,
         wrong_result_place, long_result_place, whole_writes, flushes, no_depth, foreign_invalidation,
         local_invalidation)

if __name__ == "__main__":
    run(TESTS)
