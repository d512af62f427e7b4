# SPDX-License-Identifier: GPL-2.0
"""The RC transport as an application sees it: every operation, its bytes, its completion and its events.

Two QPs of one device are connected to each other. The packets on the wire are tested on the host and against
rdma_rxe.
"""

from pyverbs.qp import QPAttr

import enums as e
import connected
from rc import End, gid_index, pair
from tap import equal, not_for_rxe, run, true
from work import FENCE, LENGTHS, OK, READ, SEND, SIGNALED, WRITE, fill, held, pattern, piece, status


def writes():
    """RDMA WRITE of every length places every byte, and consumes no receive"""
    with pair(a={"size": 1 << 17}, b={"size": 1 << 17}) as (a, b):
        b.receive()
        for seed, length in enumerate(LENGTHS):
            data = pattern(length, seed)
            fill(a, data, 5)
            a.send(WRITE, pieces=piece(a, length, 5), remote=b.remote(11))
            equal(status(a, OK, f"write of {length}").opcode, e.IBV_WC_RDMA_WRITE)
            equal(held(b, length, 11), data, f"{length} bytes")
        b.silent()


def reads():
    """RDMA READ of every length fetches every byte"""
    with pair(a={"size": 1 << 17}, b={"size": 1 << 17}) as (a, b):
        for seed, length in enumerate(LENGTHS):
            data = pattern(length, seed)
            fill(b, data, 3)
            a.send(READ, pieces=piece(a, length, 9), remote=b.remote(3))
            got = status(a, OK, f"read of {length}")
            equal(got.opcode, e.IBV_WC_RDMA_READ)
            equal(held(a, length, 9), data, f"{length} bytes")


def scattered_read():
    """A READ scatters its bytes to odd addresses"""
    with pair() as (a, b):
        data = pattern(3000, 1)
        fill(b, data)
        a.send(READ, pieces=[a.sge(1, 1), a.sge(100, 2000), a.sge(9000, 999)], remote=b.remote())
        status(a, OK, "read")
        equal(held(a, 1, 1) + held(a, 2000, 100) + held(a, 999, 9000), data)


def gathered_write():
    """A WRITE gathers more SGEs than a socket buffer has fragments"""
    with pair(a={"sge": 30}, b={}) as (a, b):
        for count in (7, 8, 15, 16, 17, 30):
            data = pattern(100 * count, count)
            fill(a, data)
            # Neither in order nor adjacent, so that no fragment can be merged with the next.
            order = [number * 7 % count if count % 7 else number for number in range(count)]
            a.send(WRITE, pieces=[a.sge(100 * number, 33) for number in order], remote=b.remote())
            status(a, OK, f"write of {count} pieces")
            expected = b"".join(data[100 * number:][:33] for number in order)
            equal(held(b, 33 * count), expected, f"{count} pieces")


def zero_length():
    """Requests of zero bytes need no key, no right and no address"""
    with pair(a={}, b={"access": e.IBV_ACCESS_LOCAL_WRITE}) as (a, b):
        for opcode in (WRITE, READ):
            a.send(opcode, pieces=[], remote=(0xDEAD0000, 0xBAD))
            status(a, OK, "zero bytes")
        b.receive(pieces=[])
        a.send(SEND, pieces=[])
        equal(status(b, OK, "receive").byte_len, 0)
        status(a, OK, "send")


def unsignaled():
    """Only signaled requests complete, in order"""
    with pair() as (a, b):
        for number in range(30):
            flags = SIGNALED if number % 10 == 9 else 0
            a.send(WRITE, wr_id=number, pieces=[a.sge(0, 8)], remote=b.remote(), flags=flags)
        equal([wc.wr_id for wc in a.completions(3)], [9, 19, 29])
        a.silent()


def signal_all():
    """sq_sig_all makes every request complete"""
    with pair(a={"signal_all": True}) as (a, b):
        for number in range(5):
            a.send(WRITE, wr_id=number, pieces=[a.sge(0, 8)], remote=b.remote(), flags=0)
        equal([wc.wr_id for wc in a.completions(5)], [0, 1, 2, 3, 4])


def many_laps():
    """Queues wrap around many times, in both directions at once"""
    with pair(a={"wr": 16}, b={"wr": 16}) as (a, b):
        for lap in range(100):
            for end in (a, b):
                for number in range(4):
                    end.receive(wr_id=lap * 10 + number, pieces=[end.sge(1000 * number, 1000)])
            for end in (a, b):
                for number in range(4):
                    end.send(SEND, wr_id=lap * 10 + number, pieces=[end.sge(8000, 1 + lap)])
            for end in (a, b):
                found = end.completions(8)
                true(all(wc.status == OK for wc in found), f"lap {lap}")
                for kind in (e.IBV_WC_RECV, e.IBV_WC_SEND):
                    equal([wc.wr_id - lap * 10 for wc in found if wc.opcode == kind], [0, 1, 2, 3])


def read_depth():
    """READs beyond the peer's resources wait and then complete"""
    with pair(max_rd_atomic=2, max_dest_rd_atomic=2) as (a, b):
        data = pattern(40000, 5)
        fill(b, data)
        for number in range(20):
            a.send(READ, wr_id=number, pieces=[a.sge(number * 2000, 2000)], remote=b.remote(number * 2000))
        found = a.completions(20, 10)
        equal([wc.wr_id for wc in found if wc.status == OK], list(range(20)))
        equal(held(a, 40000), data)


def fence():
    """A fenced send does not overtake a READ"""
    with pair() as (a, b):
        for _ in range(10):
            fill(b, b"new!", 100)
            fill(a, b"old!", 0)
            b.receive(pieces=[b.sge(200, 4)])
            a.send(READ, pieces=[a.sge(0, 4)], remote=b.remote(100), flags=0)
            a.send(SEND, pieces=[a.sge(0, 4)], flags=SIGNALED | FENCE)
            status(a, OK, "send")
            status(b, OK, "receive")
            equal(held(b, 4, 200), b"new!")


def both_families():
    """RC works over IPv4 and IPv6, at every path MTU"""
    for family in (4, 6):
        for mtu in (e.IBV_MTU_256, e.IBV_MTU_512, e.IBV_MTU_1024, e.IBV_MTU_2048, e.IBV_MTU_4096):
            with pair(gid=gid_index(family), path_mtu=mtu) as (a, b):
                data = pattern(10001, mtu)
                fill(a, data)
                a.send(WRITE, pieces=[a.sge(0, 10001)], remote=b.remote())
                status(a, OK, f"IPv{family}, mtu {mtu}")
                equal(held(b, 10001), data)


def psn_wrap():
    """Packet sequence numbers wrap within a message"""
    with pair(sq_psn=0xFFFFFE, rq_psn=0xFFFFFE) as (a, b):
        data = pattern(10000, 3)
        fill(a, data)
        a.send(WRITE, pieces=[a.sge(0, 10000)], remote=b.remote())
        status(a, OK, "write")
        a.send(READ, pieces=[a.sge(20000, 10000)], remote=b.remote())
        status(a, OK, "read")
        equal(held(a, 10000, 20000), data)


def completion_events():
    """An armed CQ raises one event, and an unarmed one raises none"""
    with pair(b={"events": True}) as (a, b):
        b.receive(pieces=[b.sge(0, 64)])
        a.send(SEND, pieces=[a.sge(0, 4)])
        b.completion()
        true(not b.event(0.1), "an event of a CQ that was not armed")
        b.cq.req_notify(False)
        for _ in range(2):
            b.receive(pieces=[b.sge(0, 64)])
            a.send(SEND, pieces=[a.sge(0, 4)])
        true(b.event(), "no event")
        b.completions(2)
        true(not b.event(0.1), "two events of one arming")


def error_events():
    """A flushed receive raises an event on a CQ armed for solicited completions"""
    not_for_rxe("flushed receives do not count as solicited")
    with pair(b={"events": True}) as (_a, b):
        b.cq.req_notify(True)
        b.receive(pieces=[b.sge(0, 64)])
        b.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        true(b.event(), "no event of a flushed receive")


def to_itself():
    """A QP connected to itself receives its own messages"""
    end = End()
    end.to_rts(end)
    fill(end, b"echo")
    end.receive(wr_id=1, pieces=[end.sge(100, 4)])
    end.send(SEND, wr_id=2, pieces=[end.sge(0, 4)])
    equal(sorted(wc.wr_id for wc in end.completions(2) if wc.status == OK), [1, 2])
    equal(held(end, 4, 100), b"echo")
    end.close()


def close_in_flight():
    """A QP can be destroyed with requests in flight"""
    for _ in range(20):
        with pair(a={"size": 1 << 20}, b={"size": 1 << 20}) as (a, b):
            for _ in range(8):
                a.send(WRITE, pieces=[a.sge()], remote=b.remote())
                b.send(READ, pieces=[b.sge()], remote=a.remote())


TESTS = connected.tests(pair) + [
    writes, reads, scattered_read, gathered_write, zero_length, unsignaled, signal_all, many_laps, read_depth,
    fence, both_families, psn_wrap, completion_events, error_events, to_itself, close_in_flight,
]

if __name__ == "__main__":
    run(TESTS)
