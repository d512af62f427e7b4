# SPDX-License-Identifier: GPL-2.0
"""Every operation that two drivers have in common, over a wire, with each driver as requester.

	DEV over v0 ------ PEER_DEV over v1, in namespace b; or each on a machine of its own (see far.py)

Differences of rdma_rxe (7.3):
- Its ICRC of a FLUSH covers the headers twice, so no other implementation accepts one.
- It reports IBV_WC_WITH_INV as the kernel's number, 4.
- It reports a receive that is too short as an operational error.
- It does not recognize a repeated READ that has no bytes (it stores key 0, and compares it), or one through a
  zero-based window (it stores the address in the region, and compares it). Such a READ never ends if its response is
  lost, with any requester.
- A repeated ATOMIC_WRITE names address 0. It is refused if the original was lost; if the response was lost it is a
  different request, which is never answered.
- It rounds a max_rd_atomic that is not a power of two up to the next one, so it sends more requests at a time than
  its peer keeps responses for.
"""

import os

from pyverbs.mr import MR, MW
from pyverbs.wr import SendWR

import enums as e
from atomics import ADD, FLUSH, OPS, SWAP, atomic, number, put
from far import at, call, serve
from rc import FAR, PAGE, across, gid_index
from tap import equal, run, true
from ud import GRH, UdEnd
from unreliable_wire import arrived
from windows import BINDABLE, ONE, TWO, ZERO_BASED, bind, invalidate
from work import LENGTHS, OK, READ, SEND, SEND_IMM, WRITE, WRITE_IMM, fill, held, pattern, piece, status

SIZE = 1 << 18
BAD_WIRE = "BAD_WIRE" in os.environ


class either:  # pylint: disable=invalid-name
    """`for requester, responder in either()`: two connected ends, in both role assignments."""

    def __init__(self, asks=None, answers=None, **settings):
        self.asks, self.answers, self.settings = asks or {}, answers or {}, settings

    def __iter__(self):
        for turned in (False, True):
            options = [{"size": SIZE, **self.asks}, {"size": SIZE, **self.answers}]
            if turned:
                options.reverse()
            with across(*options, **self.settings) as ends:
                yield ends[::-1] if turned else ends


def is_rxe(end):
    """Returns whether rdma_rxe drives an end."""
    return (end.ctx.name, "rxe") in ((os.environ["DEV"], os.environ["DRIVER"]),
                                     (os.environ["PEER_DEV"], os.environ["PEER_DRIVER"]))


def messages():
    """SEND and WRITE, with and without immediate data, and READ transfer messages of every length"""
    for a, b in either():
        for seed, length in enumerate(LENGTHS):
            data = pattern(length, seed)
            for opcode in (SEND, SEND_IMM, WRITE, WRITE_IMM, READ):
                if opcode == READ and not length and BAD_WIRE and is_rxe(b):
                    continue
                fill(b if opcode == READ else a, data, 5)
                fill(a if opcode == READ else b, bytes(length), 100001)
                if opcode not in (WRITE, READ):
                    b.receive(pieces=piece(b, length, 100001))
                at = 100001 if opcode == READ else 5
                a.send(opcode, pieces=piece(a, length, at), imm=0x01020304,
                       remote=b.remote(5 if opcode == READ else 100001))
                status(a, OK, f"opcode {opcode} of {length}", 20)
                if opcode not in (WRITE, READ):
                    got = status(b, OK, f"receive of {length}", 20)
                    equal(got.byte_len, length, "length")
                    if opcode in (SEND_IMM, WRITE_IMM):
                        equal(got.imm_data, 0x01020304, "immediate data")
                equal(held(a if opcode == READ else b, length, 100001), data, f"opcode {opcode} of {length}")


def atomic_operations():
    """Each of many concurrent FETCH_AND_ADD and CMP_AND_SWP operations executes exactly once"""
    for a, b in either({"access": FLUSH}, {"access": FLUSH}, rights=FLUSH, max_rd_atomic=2, max_dest_rd_atomic=2):
        put(b, 7)
        for count in range(60):
            at(a, atomic, ADD, b.remote(), 3, wr_id=count, pieces=[a.sge(8 * count, 8)])
        found = a.completions(60, 30)
        equal([wc.status for wc in found], [OK] * 60)
        equal([number(a, 8 * count) for count in range(60)], [7 + 3 * count for count in range(60)])
        equal(number(b), 187)
        for compare, after in ((1, 187), (187, 1 << 63)):
            at(a, atomic, SWAP, b.remote(), compare, 1 << 63)
            status(a, OK, "swap", 20)
            equal((number(a, 256), number(b)), (187, after))


def placed():
    """ATOMIC_WRITE (from rdma_rxe only over a good wire) and FLUSH (not with rdma_rxe) complete"""
    for a, b in either({"access": FLUSH, "ops": OPS}, {"access": FLUSH}, rights=FLUSH):
        if BAD_WIRE and is_rxe(a):
            continue
        fill(b, b"\xaa" * 24)
        a.order("atomic_write", b.mr.rkey, b.mr.buf + 8, b"12345678")
        status(a, OK, "atomic write", 20)
        equal(held(b, 24), b"\xaa" * 8 + b"12345678" + b"\xaa" * 8)
        if is_rxe(a) or is_rxe(b):
            continue
        a.order("flush", b.mr.rkey, b.mr.buf, 8, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_RANGE)
        status(a, OK, "flush of a range", 20)
        a.order("flush", b.mr.rkey, 0, 0, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_MR)
        status(a, OK, "flush of a region", 20)


def new_region(end):
    """Returns a region of four pages in an end's protection domain."""
    return MR(end.pd, 4 * PAGE, BINDABLE)


def new_window(end, kind):
    """Returns a window in an end's protection domain."""
    return MW(end.pd, kind)


def send_with_invalidate(end, key, length):
    """Posts a SEND that invalidates a key of the receiver."""
    request = SendWR(wr_id=8, opcode=e.IBV_WR_SEND_WITH_INV, num_sge=1, sg=[end.sge(0, length)])
    request.imm_data = key
    end.qp.post_send(request)


def windows():
    """WRITE and READ pass through windows until SEND_WITH_INV or LOCAL_INV invalidates them"""
    rights = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
    for kind, extra, by_peer in ((ONE, 0, False), (TWO, 0, False), (TWO, 0, True), (TWO, ZERO_BASED, True)):
        for a, b in either():
            region, window = at(b, new_region), at(b, new_window, kind)
            key = at(b, bind, window, region, 100, 5000, rights | extra)
            first = 0 if extra else region.buf + 100
            fill(a, pattern(5000, 3))
            a.send(WRITE, pieces=[a.sge(0, 5000)], remote=(first, key))
            status(a, OK, "write", 20)
            if not (extra and BAD_WIRE and is_rxe(b)):
                a.send(READ, pieces=[a.sge(6000, 4000)], remote=(first + 1000, key))
                status(a, OK, "read", 20)
                equal(held(a, 4000, 6000), pattern(5000, 3)[1000:])
            if kind == TWO:
                if by_peer:
                    b.receive()
                    at(a, send_with_invalidate, key, 2000)
                    status(a, OK, "send with invalidate", 20)
                    got = status(b, OK, "its receive", 20)
                    flag = 4 if is_rxe(b) else e.IBV_WC_WITH_INV
                    equal((got.wc_flags & flag, got.byte_len), (flag, 2000), "receive")
                else:
                    at(b, invalidate, key)
                # On a bad wire the NAK may be lost, and a QP in error does not repeat it.
                if not BAD_WIRE:
                    a.send(WRITE, pieces=[a.sge(0, 8)], remote=(first, key))
                    status(a, e.IBV_WC_REM_ACCESS_ERR, "write after it", 20)
            window.close()
            region.close()


def refusals():
    """Both drivers report a wrong key, a wrong length and a short receive with the same status"""
    for a, b in either():
        a.send(WRITE, pieces=[a.sge(0, 8)], remote=(b.mr.buf, b.mr.rkey ^ 0x5500))
        status(a, e.IBV_WC_REM_ACCESS_ERR, "key", 20)
    for a, b in either():
        a.send(READ, pieces=[a.sge(0, 8)], remote=(b.mr.buf + SIZE - 7, b.mr.rkey))
        status(a, e.IBV_WC_REM_ACCESS_ERR, "length", 20)
    for a, b in either():
        b.receive(pieces=[b.sge(0, 8)])
        a.send(SEND, pieces=[a.sge(0, 9)])
        wanted = e.IBV_WC_REM_INV_REQ_ERR, e.IBV_WC_LOC_LEN_ERR
        if is_rxe(b):
            wanted = e.IBV_WC_REM_OP_ERR, e.IBV_WC_LOC_QP_OP_ERR
        status(a, wanted[0], "a send that is too long for its receive", 20)
        status(b, wanted[1], "the receive", 20)


def all_came(count, found):
    """Checks the number of messages that arrived: a bad wire may lose some, a good one none."""
    true(count // 2 < len(found) if BAD_WIRE else len(found) == count, f"{len(found)} of {count} arrived")


def unreliable():
    """UC delivers each message whole and in order; a bad wire may lose some"""
    lengths, room, count = (4000, 1024, 1, 2049), 4096, 60
    for a, b in either(*[{"service": e.IBV_QPT_UC}] * 2):
        for place in range(count):
            b.receive(wr_id=place, pieces=[b.sge(place * room, room)])
        for sent in range(count):
            fill(a, pattern(lengths[sent % 4], sent))
            a.send(SEND_IMM, wr_id=sent, pieces=[a.sge(0, lengths[sent % 4])], imm=sent)
            status(a, OK, f"send {sent}")
        found = at(b, in_short)
        all_came(count, found)
        sent = [imm for _, _, _, imm in found]
        equal(sent, sorted(set(sent)), "in order, and none twice")
        for place, (state, wr_id, length, imm) in enumerate(found):
            equal((state, wr_id, length), (OK, place, lengths[imm % 4]), f"message {imm}")
            equal(held(b, length, place * room), pattern(length, imm), f"message {imm}")


def in_short(end):
    """Returns the messages that arrived at an end: status, receive, length, immediate data."""
    return [(wc.status, wc.wr_id, wc.byte_len, wc.imm_data) for wc in arrived(end)]


def datagrams():
    """UD delivers each datagram whole; a bad wire may lose some"""
    mine = UdEnd(), int(os.environ["GID4"]), os.environ["ADDR"]
    other = (call(UdEnd), call(gid_index)) if FAR else (UdEnd(os.environ["PEER_DEV"]), int(os.environ["PEER_GID4"]))
    other = *other, os.environ["PEER_ADDR"]
    for (a, gid, _), (b, _, address) in ((mine, other), (other, mine)):
        handle = a.handle_for(address, gid)
        b.receive(20)
        for sent in range(20):
            equal(a.send(handle, pattern(100 + sent, sent), b.qp.qp_num), OK, f"send {sent}")
        found = at(b, received)
        all_came(20, found)
        equal(len(found), len(set(found)), "none twice")
        equal([data for data in found if data != pattern(len(data), len(data) - 100)], [], "datagrams with wrong bytes")
        handle.close()
    mine[0].close()
    other[0].close()


def received(end):
    """Returns the datagrams that arrived at an end."""
    found = []
    while True:
        try:
            got = end.completion(seconds=1)
        except AssertionError:
            return found
        equal(got.status, OK)
        found.append(end.received(got.wr_id, got.byte_len)[GRH:])


if __name__ == "__main__":
    if FAR and os.environ["NODE"] == "b":
        serve()
        print("1..0", flush=True)
    else:
        run([messages, atomic_operations, placed, windows, unreliable, datagrams], [] if BAD_WIRE else [refusals])
