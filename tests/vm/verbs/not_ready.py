# SPDX-License-Identifier: GPL-2.0
"""A sender with unlimited RNR retries (rnr_retry 7) and a peer without a receive: the sender does not fail, observes
the RNR timer, continues when a receive is posted, and can be destroyed while it waits.
"""

import os
import signal
import time

import enums as e
from counters import counter
from peer import Peer
from rc import DEVICE, End, eventually, pair
from tap import equal, not_for_rxe, run, true
from verbs import resources
from work import OK, SEND, fill, held, pattern, status

# IBA table 45: 1.28 ms, and 10 us.
CODE, PAUSE = 14, 0.00128
SHORTEST = 1
# rust/roce/rc/retry.rs doubles short pauses, from 10 us up to LONG_PAUSE: the limit, and the number of shorter
# pauses.
LONG_PAUSE, SHORTER = 0.0005, 6
ERRORS = "retry_rnr_exceeded_err", "retry_exceeded_err"


def asked():
    """Returns the number of RNR NAKs received."""
    return counter("rcvd_rnr_err", DEVICE)


def asks(seconds, pause, more=1):
    """Checks that the sender retries during this time, more often than any finite limit, and pauses before each retry
    except for `more`.
    """
    start, before = time.monotonic(), asked()
    time.sleep(seconds)
    times, took = asked() - before, time.monotonic() - start
    print(f"# {times} retries in {took:.2f} s", flush=True)
    true(times > 3 * 7, f"only {times} retries in {took:.2f} s")
    true(times <= took / pause + more, f"{times} retries in {took:.2f} s, with pauses of {pause} s")


def asks_no_more():
    """Checks that retries and RNR NAKs have stopped."""
    def counts():
        return asked(), counter("send_rnr_err", DEVICE)
    before = counts()
    time.sleep(0.3)
    equal(counts(), before, "RNR NAKs received and sent afterwards")


def waits():
    """A sender with rnr_retry 7 waits for 5 s without failing or retrying too often; then all messages arrive"""
    before = [counter(name, DEVICE) for name in ERRORS]
    for code, seconds, pause, more in ((CODE, 5, PAUSE, 1), (SHORTEST, 1, LONG_PAUSE, SHORTER)):
        with pair(min_rnr_timer=code, rnr_retry=7) as (a, b):
            count = asked()
            messages = [pattern(100, 1), pattern(5000, 2), pattern(7, 3)]
            for number, data in enumerate(messages):
                fill(a, data, number * 8192)
                a.send(SEND, wr_id=number, pieces=[a.sge(number * 8192, len(data))])
            eventually(lambda count=count: asked() > count, "the peer is not ready")
            asks(seconds, pause, more)
            a.silent(0)
            equal((a.state(), b.state()), (e.IBV_QPS_RTS,) * 2, "states")
            for number, data in enumerate(messages):
                b.receive(wr_id=10 + number, pieces=[b.sge(number * 8192, 8192)])
                got = status(b, OK, "receive")
                equal((got.wr_id, held(b, got.byte_len, number * 8192)), (10 + number, data), "the message")
                equal(status(a, OK, "send").wr_id, number)
            b.silent(0.05)
            asks_no_more()
    equal([counter(name, DEVICE) for name in ERRORS], before, "errors")


def destroyed():
    """A queue pair that waits forever for a receive is destroyed at once without a trace"""
    before = resources()
    for code in (CODE, SHORTEST):
        with pair(min_rnr_timer=code, rnr_retry=7) as (a, _):
            count = asked()
            for _ in range(10):
                a.send(SEND, pieces=[a.sge(0, 5000)])
            eventually(lambda count=count: asked() > count + 50, "it retries")
            start = time.monotonic()
            a.qp.close()
            took = time.monotonic() - start
            true(took < 2, f"took {took:.1f} s")
            asks_no_more()
    equal(resources(), before, "resources")


def killed():
    """A process that waits forever for a receive is killed without a trace, and its peer stays usable"""
    before = resources()
    end = End()
    peer = Peer(60)
    peer.connect(end, min_rnr_timer=CODE)
    count = asked()
    peer.start()
    eventually(lambda: asked() > count + 50, "it retries")
    os.kill(peer.child, signal.SIGKILL)
    equal(os.waitstatus_to_exitcode(os.waitpid(peer.child, 0)[1]), -signal.SIGKILL, "exit status")
    asks_no_more()
    equal(end.state(), e.IBV_QPS_RTS, "state of the peer")
    for pipe in (peer.out, peer.back):
        os.close(pipe)
    end.close()
    equal(resources(), before, "resources")


def ready_beside():
    """While a sender waits forever, another connection of the same device delivers"""
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
        eventually(lambda: asked() > count, "it still retries")
        a.silent(0)


TESTS = [waits, destroyed, killed, ready_beside]

if __name__ == "__main__":
    run(TESTS)
