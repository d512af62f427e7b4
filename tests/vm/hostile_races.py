# SPDX-License-Identifier: GPL-2.0
"""As hostile.py, while another process writes into the queues all the time, so that what the kernel has read is not
what is there a moment later. All that fails is requests, and the queue pairs that they were posted to.
"""

import collections
import os
import random
import time

import pyverbs.enums as e

from hostile import SEED, WILD, healthy, hostile_pair, shared_queue
from rc import context, gid_index
from ring import PRODUCER, HostileUd
from tap import equal, run, true
from ud import UdEnd
from unreliable import modify


class scribbled:  # pylint: disable=invalid-name
    """`with scribbled(rings):` another process writes into them, wherever it likes, with short pauses."""

    def __init__(self, *rings):
        self.rings = rings

    def __enter__(self):
        self.child = os.fork()
        if self.child:
            return
        chance = random.Random(SEED)
        while True:
            time.sleep(0.002)
            for ring in self.rings * chance.randrange(1, 400):
                at = PRODUCER + chance.randrange((ring.bytes - PRODUCER - 4) // 4) * 4
                ring.put(at, chance.choice((*WILD, chance.getrandbits(32), chance.getrandbits(6))))

    def __exit__(self, *_):
        ended = os.waitpid(self.child, os.WNOHANG)
        if not ended[0]:
            os.kill(self.child, 9)
            os.waitpid(self.child, 0)
        equal(ended, (0, 0), "who scribbles, and how it ended before its time")


def until_mixed(enough):
    """Goes on for four seconds, and a minute more at most until there is enough of everything."""
    start = time.monotonic()
    while (now := time.monotonic() - start) < 4 or (not enough() and now < 64):
        yield


def mixed(statuses, resets):
    """Some requests were spoilt, and some were not."""
    print(f"# statuses {dict(statuses)}, {resets} failures of queue pairs", flush=True)
    true(statuses[e.IBV_WC_SUCCESS], "nothing got through")
    true(sum(statuses.values()) > statuses[e.IBV_WC_SUCCESS] and resets, "nothing was spoilt")


def exchange(a, b):
    """SENDs both ways while somebody scribbles: some are spoilt, some are not, and what fails is the QP alone."""
    statuses, resets = collections.Counter(), 0
    for _ in until_mixed(lambda: statuses[e.IBV_WC_SUCCESS] and resets):
        for end in (a, b):
            end.post_receive()
        for end in (a, b):
            end.post(opcode=e.IBV_WR_SEND)
            statuses.update(wc.status for wc in end.cq.poll(16)[1])
        if e.IBV_QPS_ERR in (a.state(), b.state()):
            resets += 1
            for end in (a, b):
                modify(end.qp, e.IBV_QPS_RESET)
            for end, peer in ((a, b), (b, a)):
                end.to_rts(peer, timeout=8, retry_cnt=1, rnr_retry=1)
    mixed(statuses, resets)


def connected():
    """All rows: the queues of a connection"""
    with hostile_pair(a={"wr": 16, "inline": 64}, b={"wr": 16}) as (a, b):
        with scribbled(a.sq_ring, b.rq_ring):
            exchange(a, b)
    healthy()


def shared():
    """6, 12: a shared receive queue"""
    sharing = shared_queue(wr=16)
    with sharing as (srq, ring), hostile_pair(b={"shared": (srq, ring), "pd": sharing.pd}) as (a, b):
        with scribbled(ring):
            exchange(a, b)
    healthy()


def datagrams():
    """9, 11: the send queue of datagrams"""
    a, b = HostileUd(ctx=context(), depth=8), UdEnd(ctx=context())
    statuses, failures = collections.Counter(), 0
    with a.handle_for(os.environ["ADDR"], gid_index(4)) as handle:
        equal(a.send(handle, qpn=b.qp.qp_num), e.IBV_WC_SUCCESS)
        usual = a.last_element()
        with scribbled(a.ring):
            for _ in until_mixed(lambda: statuses[e.IBV_WC_SUCCESS] and failures):
                a.post_element(usual)
                statuses.update(wc.status for wc in a.cq.poll(16)[1])
                if a.qp.query(e.IBV_QP_STATE)[0].qp_state == e.IBV_QPS_SQE:
                    failures += 1
                    modify(a.qp, e.IBV_QPS_RTS, now=e.IBV_QPS_SQE)
    mixed(statuses, failures)
    a.close()
    b.close()
    healthy()


if __name__ == "__main__":
    run([connected, shared, datagrams])
