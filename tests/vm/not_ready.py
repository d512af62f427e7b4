# SPDX-License-Identifier: GPL-2.0
"""A sender that waits for ever for a peer that has no receive (rnr_retry 7): it does not fail, asks no more often than
it is told to, goes on when there is a receive, and goes without a trace when it has enough.
"""

import os
import signal
import time

import pyverbs.enums as e

from counters import counter
from peer import Peer
from rc import DEVICE, End, eventually, pair
from tap import equal, not_for_rxe, run, true
from verbs import resources
from work import OK, SEND, fill, held, pattern, status

# IBA table 45: 1.28 ms, and 10 us.
CODE, PAUSE = 14, 0.00128
SHORTEST = 1
# How far rust/roce/rc/retry.rs lets short pauses grow, from 10 us by twos, and how many shorter ones there are.
LONG_PAUSE, SHORTER = 0.0005, 6
ERRORS = "retry_rnr_exceeded_err", "retry_exceeded_err"


def asked():
    """How often the peer has said that it is not ready."""
    return counter("rcvd_rnr_err", DEVICE)


def asks(seconds, pause, more=1):
    """The sender asks all this time, far more often than any limit but for ever, and pauses each time, but for `more`
    times."""
    start, before = time.monotonic(), asked()
    time.sleep(seconds)
    times, took = asked() - before, time.monotonic() - start
    print(f"# asked {times} times in {took:.2f} s", flush=True)
    true(times > 3 * 7, f"asked only {times} times in {took:.2f} s")
    true(times <= took / pause + more, f"asked {times} times in {took:.2f} s, with pauses of {pause} s")


def asks_no_more():
    """Nobody asks, or answers."""
    def counts():
        return asked(), counter("send_rnr_err", DEVICE)
    before = counts()
    time.sleep(0.3)
    equal(counts(), before, "asked, and answered, afterwards")


def waits():
    """rnr_retry 7 is for ever: it waits for 5 s without failing, or asking too often; then all arrives"""
    before = [counter(name, DEVICE) for name in ERRORS]
    for code, seconds, pause, more in ((CODE, 5, PAUSE, 1), (SHORTEST, 1, LONG_PAUSE, SHORTER)):
        with pair(min_rnr_timer=code, rnr_retry=7) as (a, b):
            count = asked()
            messages = [pattern(100, 1), pattern(5000, 2), pattern(7, 3)]
            for number, data in enumerate(messages):
                fill(a, data, number * 8192)
                a.send(SEND, wr_id=number, pieces=[a.sge(number * 8192, len(data))])
            eventually(lambda count=count: asked() > count, "it is not ready")
            asks(seconds, pause, more)
            a.silent(0)
            equal((a.state(), b.state()), (e.IBV_QPS_RTS,) * 2, "states")
            for number, data in enumerate(messages):
                b.receive(wr_id=10 + number, pieces=[b.sge(number * 8192, 8192)])
                got = status(b, OK, "receive")
                equal((got.wr_id, held(b, got.byte_len, number * 8192)), (10 + number, data), "what has arrived")
                equal(status(a, OK, "send").wr_id, number)
            b.silent(0.05)
            asks_no_more()
    equal([counter(name, DEVICE) for name in ERRORS], before, "errors")


def destroyed():
    """A queue pair that waits for ever is destroyed at once, and nothing is left of it"""
    before = resources()
    for code in (CODE, SHORTEST):
        with pair(min_rnr_timer=code, rnr_retry=7) as (a, _):
            count = asked()
            for _ in range(10):
                a.send(SEND, pieces=[a.sge(0, 5000)])
            eventually(lambda count=count: asked() > count + 50, "it asks again and again")
            start = time.monotonic()
            a.qp.close()
            took = time.monotonic() - start
            true(took < 2, f"took {took:.1f} s")
            asks_no_more()
    equal(resources(), before, "what there is")


def killed():
    """A process that waits for ever is killed; nothing is left of it, and its peer is as good as before"""
    before = resources()
    end = End()
    peer = Peer(60)
    peer.connect(end, min_rnr_timer=CODE)
    count = asked()
    peer.start()
    eventually(lambda: asked() > count + 50, "it asks again and again")
    os.kill(peer.child, signal.SIGKILL)
    equal(os.waitstatus_to_exitcode(os.waitpid(peer.child, 0)[1]), -signal.SIGKILL, "how it ended")
    asks_no_more()
    equal(end.state(), e.IBV_QPS_RTS, "state of the peer")
    for pipe in (peer.out, peer.back):
        os.close(pipe)
    end.close()
    equal(resources(), before, "what there is")


def ready_beside():
    """While one waits for ever, another connection of the same device delivers"""
    with pair(min_rnr_timer=SHORTEST, rnr_retry=7) as (a, _), pair() as (c, d):
        a.send(SEND, pieces=[a.sge(0, 8)])
        count = asked()
        for number in range(200):
            data = pattern(3000, number)
            fill(c, data)
            d.receive()
            c.send(SEND, pieces=[c.sge(0, len(data))])
            status(d, OK, "receive")
            status(c, OK, "send")
            equal(held(d, len(data)), data, f"message {number}")
        eventually(lambda: asked() > count, "it still asks")
        a.silent(0)


TESTS = [waits, destroyed, killed, ready_beside]

if __name__ == "__main__":
    run(TESTS)
