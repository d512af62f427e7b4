# SPDX-License-Identifier: GPL-2.0
"""A process that writes arbitrary data into the queues it shares with the kernel.

In the worst case its own QP goes to the error state. After each attack another pair of QPs must work; the caller checks
the kernel log. The numbers in the tests' names are those of fields that rdma_rxe trusts: do not run this test over
rdma_rxe on a machine that must survive.
"""

import mmap
import os
import random
import struct
import time

from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QPAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

import enums as e
from counters import counter
from rc import DEVICE, context, eventually, pair
from ring import (ABI, CONSUMER, PRODUCER, Hostile, command, cut, receive_element, send_element, with_rings)
from tap import equal, run, true
from work import fill, held, pattern, status

WILD = (0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x10000, 0x1000, 257, 33, 32, 31)
SEED = int(os.environ.get("SEED", "4791"))
ROUNDS = int(os.environ.get("HOSTILE_ROUNDS", "150"))
# IB_WR_* that RC carries out for user space in this version; all others must be refused.
CARRIED_OUT = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 14, 15}


class hostile_pair(pair):  # pylint: disable=invalid-name
    """Two connected ends with access to their rings."""

    def __init__(self, a=None, b=None, **settings):  # pylint: disable=super-init-not-called
        self.ends = (Hostile(**(a or {})), Hostile(**(b or {})))
        self.settings = {"timeout": 10, "retry_cnt": 2, "rnr_retry": 1, "min_rnr_timer": 1, **settings}


def healthy():
    """Another pair of QPs works."""
    with pair() as (a, b):
        a.mr.write("unharmed", 8)
        b.receive(pieces=[b.sge(100, 8)])
        a.send(e.IBV_WR_RDMA_WRITE, pieces=[a.sge(0, 8)], remote=b.remote())
        a.send(e.IBV_WR_SEND, pieces=[a.sge(0, 8)])
        equal([wc.status for wc in a.completions(2)], [0, 0], "another pair's sends")
        equal(b.completion().status, 0, "another pair's receive")
        text = b.mr.read(8, 100)
        equal(text if isinstance(text, str) else text.decode(), "unharmed")


def drained(end, seconds=3):
    """Takes completions until the QP is idle, for a limited time. Returns their statuses."""
    found, stop = [], time.monotonic() + seconds
    quiet = time.monotonic() + 0.3
    while time.monotonic() < stop and time.monotonic() < quiet:
        some = end.cq.poll(16)[1]
        if some:
            found += [wc.status for wc in some]
            quiet = time.monotonic() + 0.1
    return found


def asked_again(times=1):
    """Waits until a peer without a receive has answered that many requests with an RNR NAK."""
    before = counter("send_rnr_err", DEVICE)
    eventually(lambda: counter("send_rnr_err", DEVICE) >= before + times, "RNR NAKs")


def opcodes():
    """1: an opcode that is invalid or not for user space fails its request"""
    for opcode in [*range(0, 48), 0xFF, *WILD]:
        if cut(ABI.SEND, "opcode", opcode) in CARRIED_OUT:
            continue
        with hostile_pair() as (a, b):
            a.post(opcode=opcode, remote=b.mr.buf, rkey=b.mr.rkey)
            status = a.completion().status
            true(status != e.IBV_WC_SUCCESS, f"opcode {opcode:#x} succeeded")
            equal(status, e.IBV_WC_LOC_QP_OP_ERR, f"opcode {opcode:#x}")
            eventually(lambda a=a: a.state() == e.IBV_QPS_ERR, "the QP is in error")
    healthy()


def kernel_pointer():
    """2: a REG_MR with a pointer is refused and the pointer not followed"""
    for pointer in (0xFFFF888000000000, 0xFFFFFFFF81000000, 0, 0x4141414141414141):
        with hostile_pair() as (a, _b):
            a.post(opcode=0x20, remote=pointer, rkey=0x1234)
            equal(a.completion().status, e.IBV_WC_LOC_QP_OP_ERR)
    healthy()


def inline_lengths():
    """3: inline data of excessive length, at any offset, sends no kernel data"""
    for length in WILD:
        with hostile_pair(a={"inline": 64}) as (a, b):
            if cut(ABI.SEND, "inline_length", length) <= a.qp.query(e.IBV_QP_CAP)[1].cap.max_inline_data:
                continue
            a.post(flags=e.IBV_SEND_SIGNALED | e.IBV_SEND_INLINE, inline_length=length, resid=length,
                   sge_offset=length, remote=b.mr.buf, rkey=b.mr.rkey)
            true(a.completion().status != e.IBV_WC_SUCCESS, f"{length:#x} bytes of inline data were sent")
    with hostile_pair(a={"inline": 64}) as (a, b):
        # The kernel has its own cursor and ignores the offset in the element.
        a.post(flags=e.IBV_SEND_SIGNALED | e.IBV_SEND_INLINE, inline_length=32, resid=0xFFFFFFFF, sge_offset=0x7FFFFFFF,
               remote=b.mr.buf, rkey=b.mr.rkey)
        equal(a.completion().status, e.IBV_WC_SUCCESS)
    healthy()


def piece_counts():
    """4, 5: more SGEs than the queue allows fail their request; cursors have no effect"""
    for number in WILD:
        with hostile_pair(a={"sge": 2}) as (a, b):
            if cut(ABI.SEND, "num_sge", number):
                a.post(num_sge=number, remote=b.mr.buf, rkey=b.mr.rkey)
                true(a.completion().status != e.IBV_WC_SUCCESS, f"{number:#x} SGEs")
        with hostile_pair() as (a, b):
            a.post(cur_sge=number, sge_offset=number, resid=number, remote=b.mr.buf, rkey=b.mr.rkey)
            equal(a.completion().status, e.IBV_WC_SUCCESS, f"cursor {number:#x}")
        with hostile_pair(rnr_retry=7, min_rnr_timer=12) as (a, b):
            # Two SGEs, the second of which extends into the second packet.
            data = pattern(3000, 1)
            fill(a, data)
            pieces = [(a.mr.buf, 500, a.mr.lkey), (a.mr.buf + 500, 2500, a.mr.lkey)]
            a.post(pieces=pieces, opcode=e.IBV_WR_SEND)
            asked_again()
            cursors = dict.fromkeys(("length", "resid", "cur_sge", "num_sge", "sge_offset"), number)
            a.sq_ring.write(0, send_element([], cursors))
            asked_again(2)
            b.post_receive(pieces=[b.piece(3000)])
            status(a, e.IBV_WC_SUCCESS, f"request with {number:#x} SGEs written before the retransmission")
            equal(status(b, e.IBV_WC_SUCCESS, "receive").byte_len, 3000)
            equal(held(b, 3000), data)
    healthy()


def lengths():
    """7: lengths that overflow or leave their region fail their request"""
    for one, two in ((0xFFFFFFFF, 0xFFFFFFFF), (0x80000000, 0x80000000), (0xFFFFFFFF, 1), (1 << 31, 1)):
        with hostile_pair() as (a, b):
            pieces = [(a.mr.buf, one, a.mr.lkey), (a.mr.buf, two, a.mr.lkey)]
            a.post(pieces=pieces, length=0, remote=b.mr.buf, rkey=b.mr.rkey)
            true(a.completion().status != e.IBV_WC_SUCCESS, f"{one:#x} + {two:#x} bytes")
    for address in ((1 << 64) - 1, (1 << 64) - 64, 1 << 63, 0):
        with hostile_pair() as (a, b):
            a.post(pieces=[(address, 64, a.mr.lkey)], remote=b.mr.buf, rkey=b.mr.rkey)
            equal(a.completion().status, e.IBV_WC_LOC_PROT_ERR, f"address {address:#x}")
    healthy()


def receives():
    """6: a receive with wild fields fails only its own QP; one longer than any message succeeds"""
    for number in WILD:
        with hostile_pair(b={"sge": 2}) as (a, b):
            b.post_receive(num_sge=number)
            a.post(opcode=e.IBV_WR_SEND)
            true(b.completion().status != e.IBV_WC_SUCCESS, f"{number:#x} SGEs")
            true(a.completion().status != e.IBV_WC_SUCCESS, "the sender's request succeeded")
        with hostile_pair() as (a, b):
            b.post_receive(cur_sge=number, sge_offset=number, resid=number, length=number)
            a.post(opcode=e.IBV_WR_SEND)
            equal(a.completion().status, e.IBV_WC_SUCCESS, f"cursor {number:#x}")
    # A receive may be longer than the longest message.
    with hostile_pair(b={"sge": 2}) as (a, b):
        b.post_receive(pieces=[b.piece(), (b.mr.buf, 0xFFFFFFFF, b.mr.lkey)])
        a.post(opcode=e.IBV_WR_SEND)
        equal(b.completion().status, e.IBV_WC_SUCCESS, "a receive of 4 GiB")
        equal(a.completion().status, e.IBV_WC_SUCCESS, "a send to a receive of 4 GiB")
    healthy()


class shared_queue:  # pylint: disable=invalid-name
    """`with shared_queue() as shared`: an SRQ and its ring."""

    def __init__(self, wr=64, sge=2):
        self.pd = PD(context())
        attr = SrqInitAttr(SrqAttr(max_wr=wr, max_sge=sge))
        self.srq, (self.ring,) = with_rings(lambda: SRQ(self.pd, attr))

    def __enter__(self):
        return self.srq, self.ring

    def __exit__(self, *_):
        self.srq.close()
        self.pd.close()


def shared_receives():
    """6: an SRQ receive with wild fields fails only the QP that takes it"""
    for number in WILD:
        with shared_queue() as shared, hostile_pair(b={"shared": shared}) as (a, b), \
                hostile_pair(b={"shared": shared}) as (c, d):
            b.post_receive(num_sge=number)
            a.post(opcode=e.IBV_WR_SEND)
            true(b.completion().status != e.IBV_WC_SUCCESS, f"{number:#x} SGEs")
            true(a.completion().status != e.IBV_WC_SUCCESS, "the sender's request succeeded")
            # Without SGEs, so that the PD of the memory does not matter.
            d.post_receive(pieces=[], cur_sge=number, sge_offset=number, resid=number, length=number)
            c.post(opcode=e.IBV_WR_SEND, pieces=[])
            equal(c.completion().status, e.IBV_WC_SUCCESS, f"cursor {number:#x}")
    healthy()


def shared_producer():
    """12: a wild producer index of an SRQ has bounded cost, also in a resize"""
    for index in (*WILD, 0xFFFFFFFE, 64, 65, 127, 128):
        with shared_queue() as shared, hostile_pair(b={"shared": shared}) as (a, b):
            start = time.monotonic()
            srq, ring = shared
            for value in (index, index + 7, index - 9):
                ring.put(PRODUCER, value)
                ring.put(CONSUMER, index)
                a.post(opcode=e.IBV_WR_SEND)
            drained(a, 1)
            b.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
            drained(b, 1)
            for size in (1, 2000, 64):
                ring.put(PRODUCER, index)
                try:
                    # The library forgets the old mapping, and so does this test.
                    _, found = with_rings(lambda srq=srq, size=size: srq.modify(SrqAttr(max_wr=size),
                                                                               e.IBV_SRQ_MAX_WR))
                    ring = (found or [ring])[0]
                except PyverbsError:
                    pass  # More receives seem to wait than the new size holds.
            true(time.monotonic() - start < 8, f"index {index:#x}: took too long")
    healthy()


def protocol_state():
    """8: state, status and PSNs in a slot have no effect, before and during the request"""
    for number in (*WILD, 0, 1, 2, 3, 4, 5):
        with hostile_pair() as (a, b):
            a.post(remote=b.mr.buf, rkey=b.mr.rkey, **dict.fromkeys(ABI.UNREAD, number))
            equal(a.completion().status, e.IBV_WC_SUCCESS, f"{number:#x}")
    with hostile_pair(rnr_retry=7, min_rnr_timer=12) as (a, b):
        # A request of several packets, retransmitted every 0.64 ms while its slot is overwritten.
        data = pattern(5000, 5)
        fill(a, data)
        a.post(pieces=[a.piece(5000)], opcode=e.IBV_WR_SEND, wr_id=5)
        asked_again()
        for filling in (b"\xff", b"\0", b"\x41"):
            a.sq_ring.write(0, filling * a.sq_ring.element)
            asked_again(3)
        a.silent(0)
        b.post_receive(pieces=[b.piece(5000)])
        equal(status(a, e.IBV_WC_SUCCESS, "the posted request").wr_id, 5)
        got = status(b, e.IBV_WC_SUCCESS, "receive")
        equal((got.wr_id, got.byte_len), (2, 5000))
        equal(held(b, 5000), data)
    healthy()


def flags():
    """9: all flags together make a valid request or fail it"""
    for value in (0xFFFFFFFF, 0xFFFFFFE0, 1 << 31):
        with hostile_pair(a={"inline": 64}) as (a, b):
            a.post(flags=value | e.IBV_SEND_SIGNALED, remote=b.mr.buf, rkey=b.mr.rkey)
            a.completion()
    healthy()


def send_producer():
    """12: a wild producer index of the send queue has bounded cost"""
    for index in (*WILD, 0xFFFFFFFE, 64, 65, 127, 128):
        with hostile_pair(a={"wr": 64}) as (a, b):
            a.post(remote=b.mr.buf, rkey=b.mr.rkey)
            a.completion()
            start = time.monotonic()
            a.sq_ring.put(PRODUCER, index)
            a.doorbell()
            drained(a)
            a.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
            a.sq_ring.put(PRODUCER, index + 7)
            a.doorbell()
            drained(a)
            true(time.monotonic() - start < 8, f"index {index:#x}: took too long")
    healthy()


def receive_producer():
    """12: a wild producer index of the receive queue has bounded cost"""
    for index in (*WILD, 0xFFFFFFFE, 64, 65, 127, 128):
        with hostile_pair(b={"wr": 64}) as (a, b):
            start = time.monotonic()
            b.rq_ring.put(PRODUCER, index)
            a.post(opcode=e.IBV_WR_SEND)
            drained(a)
            b.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
            drained(b)
            true(time.monotonic() - start < 8, f"index {index:#x}: took too long")
    healthy()


def consumer_index():
    """16: a wild consumer index harms only its owner"""
    for index in WILD:
        with hostile_pair() as (a, b):
            for ring in (a.cq_ring, a.sq_ring, b.rq_ring):
                ring.put(CONSUMER, index)
            for number in range(5):
                a.post(remote=b.mr.buf, rkey=b.mr.rkey, wr_id=number)
            b.post_receive()
            a.post(opcode=e.IBV_WR_SEND, wr_id=5)
            eventually(lambda a=a: ABI.next_completion(a.cq_ring) == 6, "six completions at the kernel's own index")
            # A library may follow the index, and would run off the ring.
            a.cq_ring.put(CONSUMER, 0)
            equal([(wc.status, wc.wr_id) for wc in a.completions(6)], [(0, number) for number in range(6)])
            equal(b.completion().status, e.IBV_WC_SUCCESS)
            eventually(lambda a=a, b=b: (a.sq_ring.get(CONSUMER), b.rq_ring.get(CONSUMER)) == (6, 1),
                       "consumer indices of the kernel")
    healthy()


def headers():
    """17: the kernel ignores the shape in the head of a ring"""
    for value in (0xFFFFFFFF, 31, 0):
        with hostile_pair() as (a, b):
            for ring in (*a.rings, *b.rings):
                for at in ABI.SHAPE:
                    ring.put(at, value)
            a.post(remote=b.mr.buf, rkey=b.mr.rkey)
            eventually(lambda a=a: ABI.next_completion(a.cq_ring) == 1, "a completion")
            for ring in (*a.rings, *b.rings):
                ring.put_shape()
            equal(a.completion().status, e.IBV_WC_SUCCESS)
    healthy()


def doorbells():
    """The kernel checks the fields of the doorbell"""
    with hostile_pair() as (a, _b):
        a.doorbell()
        handle = a.handles[0]
        for count, pieces, size in ((0xFFFFFFFF, 0, 128), (1, 0xFFFFFFFF, 128), (0, 0, 0), (0, 0, 0xFFFFFFFF),
                                    (1, 0, 128), (1, 1, 128), (1 << 20, 1 << 20, 1 << 20)):
            command(handle, count, pieces, size)
            command(handle, count, pieces, size, bytes(256))
        command(handle, 1, 0, 128, b"\xff" * 128)
        command(handle, 1, 1, 128, b"\xff" * 144)
    healthy()


def lists():
    """A list of requests, which the core builds from user input, transfers no kernel data"""
    inline = e.IBV_SEND_SIGNALED | e.IBV_SEND_INLINE
    for address in (0xFFFFFFFF81000000, 0xFFFF888000000000, 0x60000000, 0):
        with hostile_pair(a={"inline": 64}) as (a, b):
            a.doorbell()
            for opcode in (e.IBV_WR_SEND, e.IBV_WR_RDMA_WRITE):
                request = struct.pack("=QIIIIQI20x", 1, 1, opcode, inline, 0, b.mr.buf, b.mr.rkey)
                piece = struct.pack("=QII", address, 32, a.mr.lkey)
                for handle in a.handles:
                    true(not command(handle, 1, 1, len(request), request + piece), "a list was accepted")
            a.silent()
    healthy()


def mappings():
    """A ring can only be mapped shared and within its size"""
    with hostile_pair() as (a, _b):
        descriptor = context().cmd_fd
        for ring in a.rings:
            for length, kind in ((ring.bytes + mmap.PAGESIZE, mmap.MAP_SHARED), (1 << 30, mmap.MAP_SHARED),
                                 (ring.bytes, mmap.MAP_PRIVATE)):
                try:
                    mmap.mmap(descriptor, length, kind, offset=ring.offset).close()
                except OSError:
                    continue
                raise AssertionError(f"{length} bytes, kind {kind}, of a ring of {ring.bytes} bytes were mapped")
        for offset in (1 << 40, 1 << 20, (1 << 43) - mmap.PAGESIZE):
            try:
                mmap.mmap(descriptor, mmap.PAGESIZE, mmap.MAP_SHARED, offset=offset).close()
            except (OSError, OverflowError):
                continue
            raise AssertionError(f"a mapping at {offset:#x} succeeded")
    healthy()


def random_elements():
    """All rows: random elements, indices and doorbells have bounded effects"""
    chance = random.Random(SEED)
    print(f"# seed {SEED}, {ROUNDS} rounds")

    def wild(layout):
        return {name: chance.choice((*WILD, chance.getrandbits(64), chance.getrandbits(5), 0, 1))
                for name in layout if chance.random() < 0.4}

    for _ in range(ROUNDS):
        with hostile_pair(a={"wr": 8, "inline": 64}, b={"wr": 8}) as (a, b):
            for _ in range(chance.randrange(1, 8)):
                pieces = [(end.mr.buf + chance.choice((0, 1, 65535, 1 << 63)), chance.choice((0, 64, *WILD)),
                           chance.choice((end.mr.lkey, end.mr.rkey, chance.getrandbits(32))))
                          for end in chance.choices((a, b), k=chance.randrange(4))]
                a.sq_ring.produce(send_element(pieces, wild(ABI.SEND)))
                b.rq_ring.produce(receive_element(pieces, wild(ABI.RECEIVE)))
                if chance.random() < 0.1:
                    a.sq_ring.put(PRODUCER, chance.getrandbits(32))
                if chance.random() < 0.1:
                    b.rq_ring.put(PRODUCER, chance.getrandbits(32))
                a.doorbell()
                a.cq.poll(16)
                b.cq.poll(16)
    healthy()


TESTS = [
    opcodes, kernel_pointer, inline_lengths, piece_counts, lengths, receives, protocol_state, flags,
    send_producer, receive_producer, shared_receives, shared_producer, consumer_index, headers, doorbells,
    lists, mappings, random_elements,
]

if __name__ == "__main__":
    run(TESTS)
