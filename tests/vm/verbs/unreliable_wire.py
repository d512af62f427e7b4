# SPDX-License-Identifier: GPL-2.0
"""Unreliable connections over a bad wire: each message is delivered whole and in order, or not at all, and the loss of
one affects no other.

	DEV over v0 --netem-- PEER_DEV over v1, in namespace b

BAD_WIRE and GOOD_WIRE in the environment are the commands that make the wire bad and good.
"""

import os
import subprocess

import enums as e
from rc import across, eventually
from tap import equal, run, true
from work import OK, SEND_IMM, WRITE, WRITE_IMM, fill, held, pattern

MESSAGES, ROOM = 120, 1 << 13
LENGTHS = (8000, 1024, 1, 4097)


def connected():
    """Returns an end at each side of the wire."""
    options = {"size": ROOM * (MESSAGES + 1), "wr": 256, "cqe": 1024, "service": e.IBV_QPT_UC}
    return across(a=options, b=options)


def arrived(end, wanted=None):
    """Returns completions of receives: `wanted` of them, or all until none arrives for a while."""
    found = []
    try:
        while wanted is None or len(found) < wanted:
            found += end.completions(1, 1)
    except AssertionError:
        if wanted is not None:
            raise
    return found


def post(end, length, number):
    """Sends message `number` and waits for its completion."""
    fill(end, pattern(length, number))
    end.send(SEND_IMM, wr_id=number, pieces=[end.sge(0, length)], imm=number)
    equal(end.completion().status, OK, f"send {number}")


def wire(kind):
    """Makes the wire bad or good."""
    subprocess.run(["sh", "-c", os.environ[kind]], check=True)


def lossy():
    """UC: messages over a bad wire arrive whole and in order or are lost; a good wire then loses none"""
    with connected() as (a, b):
        for number in range(MESSAGES):
            b.receive(wr_id=number, pieces=[b.sge(number * ROOM, ROOM)])
        wire("BAD_WIRE")
        for number in range(MESSAGES - 20):
            post(a, LENGTHS[number % 4], number)
            if number % 5 == 0:
                # A WRITE without notification, which may be lost in part as well.
                a.send(WRITE, wr_id=number, pieces=[a.sge(0, 8000)], remote=b.remote(MESSAGES * ROOM))
                equal(a.completion().status, OK, f"write {number}")
        found = arrived(b)
        wire("GOOD_WIRE")
        for number in range(MESSAGES - 20, MESSAGES):
            post(a, LENGTHS[number % 4], number)
        lost = MESSAGES - 20 - len(found)
        found += arrived(b, 20)
        print(f"# {lost} messages were lost", flush=True)
        true(lost > 0, "the wire loses")
        numbers = [wc.imm_data for wc in found]
        equal(numbers, sorted(set(numbers)), "in order, without duplicates")
        equal(numbers[-20:], list(range(MESSAGES - 20, MESSAGES)), "all messages over the good wire")
        for place, wc in enumerate(found):
            length = LENGTHS[wc.imm_data % 4]
            equal((wc.status, wc.wr_id, wc.byte_len), (OK, place, length), "no receive is skipped")
            equal(held(b, length, place * ROOM), pattern(length, wc.imm_data), f"message {wc.imm_data}")


def broken_writes():
    """UC: a WRITE whose immediate data arrives is complete"""
    with connected() as (a, b):
        for number in range(MESSAGES):
            b.receive(wr_id=number, pieces=[])
        wire("BAD_WIRE")
        for number in range(MESSAGES):
            fill(a, pattern(8000, number))
            a.send(WRITE_IMM, wr_id=number, pieces=[a.sge(0, 8000)], remote=b.remote(number * ROOM), imm=number)
            equal(a.completion().status, OK)
        found = arrived(b)
        wire("GOOD_WIRE")
        true(0 < len(found) < MESSAGES, f"{len(found)} of {MESSAGES}")
        for wc in found:
            equal((wc.status, wc.opcode, wc.byte_len), (OK, e.IBV_WC_RECV_RDMA_WITH_IMM, 8000))
            equal(held(b, 8000, wc.imm_data * ROOM), pattern(8000, wc.imm_data), f"write {wc.imm_data}")
        fill(a, b"the end")
        a.send(WRITE, pieces=[a.sge(0, 7)], remote=b.remote(MESSAGES * ROOM))
        eventually(lambda: held(b, 7, MESSAGES * ROOM) == b"the end", "the last WRITE arrives")


if __name__ == "__main__":
    run([lossy, broken_writes])
