# SPDX-License-Identifier: GPL-2.0
"""Every operation that two drivers have in common, across a wire, asked by either.

	DEV over v0 ------ PEER_DEV over v1, in namespace b; or each on a machine of its own (see far.py)

What rdma_rxe (7.3) does otherwise: its ICRC of a FLUSH covers the headers twice, so nobody else understands one; it
shows IBV_WC_WITH_INV as the kernel's number, 4; it calls a receive that is too short an operational error; and it
does not know a READ again when that is repeated, if it is of no bytes (it keeps 0 for its key, and compares) or
through a window that is based at zero (it keeps the address in the region, and compares), so one whose response is
lost never ends, whoever asks. When it repeats an ATOMIC_WRITE it names address 0: one that was lost is refused, one
whose response was lost is another request, which nobody answers. And it takes a max_rd_atomic that is no power of two
for the next one, so it asks for more at a time than its peer keeps answers for.
"""

import os

import pyverbs.enums as e
from pyverbs.mr import MR, MW
from pyverbs.wr import SendWR

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
    """`for asking, answering in either()`: two connected ends, once each way round."""

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
    """Whether an end is rdma_rxe's."""
    return (end.ctx.name, "rxe") in ((os.environ["DEV"], os.environ["DRIVER"]),
                                     (os.environ["PEER_DEV"], os.environ["PEER_DRIVER"]))


def messages():
    """SEND and WRITE, with immediate data and without, and READ, at every length"""
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
    """FETCH_AND_ADD and CMP_AND_SWP, many at once, each once"""
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
    """ATOMIC_WRITE, over a bad wire not from rdma_rxe; and FLUSH, unless that is an end"""
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
    """A region of four pages of an end's protection domain."""
    return MR(end.pd, 4 * PAGE, BINDABLE)


def new_window(end, kind):
    """A window of the same."""
    return MW(end.pd, kind)


def send_with_invalidate(end, key, length):
    """Posts a SEND that takes a key of the receiver away."""
    request = SendWR(wr_id=8, opcode=e.IBV_WR_SEND_WITH_INV, num_sge=1, sg=[end.sge(0, length)])
    request.imm_data = key
    end.qp.post_send(request)


def windows():
    """WRITE and READ through windows; SEND_WITH_INV and LOCAL_INV take them away"""
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
                # Over a bad wire a refusal may get lost, and is not repeated by a QP in error.
                if not BAD_WIRE:
                    a.send(WRITE, pieces=[a.sge(0, 8)], remote=(first, key))
                    status(a, e.IBV_WC_REM_ACCESS_ERR, "write after it", 20)
            window.close()
            region.close()


def refusals():
    """A wrong key, a length, a depth: either tells the other with the same status"""
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
    """What a bad wire may lose, a good one does not."""
    true(count // 2 < len(found) if BAD_WIRE else len(found) == count, f"{len(found)} of {count} arrived")


def unreliable():
    """UC: each message arrives whole and in order; over a bad wire, or not at all"""
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
    """What has arrived at an end: status, receive, length, immediate data."""
    return [(wc.status, wc.wr_id, wc.byte_len, wc.imm_data) for wc in arrived(end)]


def datagrams():
    """UD: each datagram arrives whole; over a bad wire, or not at all"""
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
        equal([data for data in found if data != pattern(len(data), len(data) - 100)], [], "other bytes")
        handle.close()
    mine[0].close()
    other[0].close()


def received(end):
    """The datagrams that have arrived at an end."""
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
