# SPDX-License-Identifier: GPL-2.0
"""Faults that rdma_rxe had in 2026: a packet that is executed once for each receive posted after an error, a depth of
READs that changes while responses are sent, and ATOMIC WRITEs that do not carry eight bytes.

	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b, from which crafted packets come
"""

import struct
import threading

from pyverbs.qp import QPAttr
from pyverbs.wr import SGE

import enums as e
import frame as f
from atomics import ADD, ATOMIC, ENDS, atomic, number
from drops import PSN, Stranger, Victim, reth
from rc import End, eventually, forget_events, pair
from tap import equal, not_for_rxe, run
from unreliable import modify
from work import FLUSHED, OK, READ, SEND, SEND_IMM, fill, held, pattern, status

RECEIVES = 60
SQD, RTS, ERR = e.IBV_QPS_SQD, e.IBV_QPS_RTS, e.IBV_QPS_ERR


def statuses(end, count):
    """Returns the statuses of the next completions."""
    return [wc.status for wc in end.completions(count)]


def after_a_bad_receive():
    """A packet whose receive fails is not executed again for receives that are posted later"""
    not_for_rxe("executes it once for each of them")
    with pair() as (a, b):
        b.receive(wr_id=0, pieces=[SGE(b.mr.buf, 64, b.mr.lkey ^ 0x55)])
        a.send(SEND, pieces=[a.sge(0, 8)])
        equal(statuses(b, 1), [e.IBV_WC_LOC_PROT_ERR], "the bad receive")
        for at in range(RECEIVES):
            b.receive(wr_id=at)
        equal(statuses(b, RECEIVES), [FLUSHED] * RECEIVES, "receives posted later")
        status(a, e.IBV_WC_REM_OP_ERR, "send")
    forget_events()


def after_a_disconnect():
    """A packet that waits for a receive is not executed for receives that are posted after the QP has failed"""
    not_for_rxe("executes it once for each of them")
    with pair(min_rnr_timer=1, retry_cnt=1, timeout=12) as (a, b):
        a.send(SEND, pieces=[a.sge(0, 8)])
        a.silent(0.05)
        modify(b.qp, ERR)
        for at in range(RECEIVES):
            b.receive(wr_id=at)
        equal(statuses(b, RECEIVES), [FLUSHED] * RECEIVES, "receives posted later")
        status(a, e.IBV_WC_RETRY_EXC_ERR, "send", 20)
    forget_events()


def disconnect_at_any_time():
    """Each message is received once and in order, whenever the receiver's QP fails, and the rest is flushed"""
    for turn in range(30):
        with pair(b={"cqe": 512}, retry_cnt=0, timeout=10, min_rnr_timer=1, rnr_retry=0) as (a, b):
            for at in range(RECEIVES):
                b.receive(wr_id=at)
            fails = threading.Timer(0.0005 * turn, modify, (b.qp, ERR))
            fails.start()
            for at in range(RECEIVES):
                a.send(SEND_IMM, wr_id=at, pieces=[a.sge(0, 64)], imm=at)
            fails.join()
            found = b.completions(RECEIVES, 20)
            done = [wc for wc in found if wc.status == OK]
            equal([wc.imm_data for wc in done], list(range(len(done))), "messages")
            equal([wc.status for wc in found[len(done):]], [FLUSHED] * (RECEIVES - len(done)), "the rest")
            b.silent(0.01)
            a.completions(RECEIVES, 20)
    forget_events()


def changing_depth():
    """max_dest_rd_atomic changes again and again while READs and atomics are answered: each has the right result"""
    not_for_rxe("uses memory after it was freed")
    rounds = 60
    with pair(max_rd_atomic=2, max_dest_rd_atomic=2, **ENDS) as (a, b):
        fill(b, pattern(4096, 9), 4096)
        modify(b.qp, SQD)
        done, failed = threading.Event(), []

        def change():
            attr, depth = QPAttr(), 2
            try:
                while not done.is_set():
                    depth = 2 + (depth * 7 + 1) % 127
                    attr.max_dest_rd_atomic = depth
                    b.qp.modify(attr, e.IBV_QP_MAX_DEST_RD_ATOMIC)
            except Exception as error:  # pylint: disable=broad-except
                failed.append(error)

        changer = threading.Thread(target=change)
        changer.start()
        try:
            for turn in range(rounds):
                for at in range(8):
                    a.send(READ, wr_id=at, pieces=[a.sge(at * 4096, 4096)], remote=b.remote(4096))
                    atomic(a, ADD, b.remote(), 1, wr_id=at, pieces=[a.sge(40_000 + 8 * at, 8)])
                equal([wc.status for wc in a.completions(16, 20)], [OK] * 16, f"turn {turn}")
                equal([number(a, 40_000 + 8 * at) for at in range(8)], list(range(8 * turn, 8 * turn + 8)))
                equal(held(a, 4096, 7 * 4096), pattern(4096, 9), "the bytes that were read")
        finally:
            done.set()
            changer.join()
        equal(failed, [], "modify_qp")
        equal(b.state(), SQD, "state of the responder")
        equal(number(b), 8 * rounds, "the sum")


def wrong_atomic_writes():
    """An ATOMIC WRITE that does not carry eight bytes, or does not ask for eight, is an invalid request"""
    not_for_rxe("reads eight bytes of any packet")
    stranger = Stranger()
    for length, carried in ((8, 0), (8, 4), (8, 12), (8, 1024), (0, 8), (7, 8), (9, 8), (0xFFFFFFFF, 8)):
        with AtomicVictim() as victim:
            fill(victim, b"\xaa" * 64)
            body = reth(victim.mr.buf + 8, victim.mr.rkey, length) + bytes(range(carried % 256)).ljust(carried, b"\1")
            stranger.send(victim, f.ATOMIC_WRITE, body)
            eventually(lambda victim=victim: victim.state() == ERR, f"{carried} bytes, length {length}, are refused")
            equal(held(victim, 64), b"\xaa" * 64, f"memory, for {carried} bytes and length {length}")
    with AtomicVictim() as victim:
        # The same packet with the right length is executed.
        stranger.send(victim, f.ATOMIC_WRITE, reth(victim.mr.buf + 8, victim.mr.rkey, 8) + struct.pack(">Q", 0x1122))
        eventually(lambda: held(victim, 8, 8) == struct.pack(">Q", 0x1122), "eight bytes are written")
        equal(victim.state(), RTS, "state")
    forget_events()


class AtomicVictim(Victim):
    """A QP that permits atomic operations; an ATOMIC WRITE needs only the right to write of the memory."""

    def attr(self, peer, gid=None, dgid=None, **settings):
        return End.attr(self, peer, gid, dgid, rights=ATOMIC, **settings)


TESTS = [after_a_bad_receive, after_a_disconnect, disconnect_at_any_time, changing_depth, wrong_atomic_writes]

if __name__ == "__main__":
    run(TESTS)
