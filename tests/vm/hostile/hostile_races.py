# SPDX-License-Identifier: GPL-2.0
"""Like hostile.py, while another process constantly writes into the queues, so that data the kernel has read may change
a moment later. Only requests fail, and the QPs that they were posted to.
"""

import collections
import os
import random
import time

import enums as e
from hostile import SEED, WILD, healthy, hostile_pair, shared_queue
from rc import context, gid_index
from ring import CONSUMER, PRODUCER, HostileUd
from tap import equal, run, true
from ud import UdEnd
from unreliable import modify


class scribbled:  # pylint: disable=invalid-name
    """`with scribbled(rings):` another process writes to random places of them, with short pauses."""

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
                value = chance.choice((*WILD, chance.getrandbits(32), chance.getrandbits(6)))
                if at == PRODUCER and chance.random() < 0.5:
                    # As if some elements were posted: other numbers may mean that there are none.
                    value = ring.get(CONSUMER) + chance.getrandbits(4)
                if at != CONSUMER:
                    ring.put(at, value)

    def __exit__(self, *_):
        ended = os.waitpid(self.child, os.WNOHANG)
        if not ended[0]:
            os.kill(self.child, 9)
            os.waitpid(self.child, 0)
        equal(ended, (0, 0), "the scribbling process, and its early exit")


def until_mixed(enough):
    """Iterates for four seconds, and up to a minute longer until enough() holds."""
    start = time.monotonic()
    while (now := time.monotonic() - start) < 4 or (not enough() and now < 64):
        yield


def mixed(statuses, resets):
    """Some requests were corrupted, and some were not."""
    print(f"# statuses {dict(statuses)}, {resets} failures of queue pairs", flush=True)
    true(statuses[e.IBV_WC_SUCCESS], "no request succeeded")
    true(sum(statuses.values()) > statuses[e.IBV_WC_SUCCESS] and resets, "no request was corrupted")


def exchange(a, b):
    """SENDs in both directions under concurrent stores: some are corrupted, some are not, and only the QP fails."""
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
    """All rows: concurrent stores to the queues of a connection fail only its QPs"""
    with hostile_pair(a={"wr": 16, "inline": 64}, b={"wr": 16}) as (a, b):
        with scribbled(a.sq_ring, b.rq_ring):
            exchange(a, b)
    healthy()


def shared():
    """6, 12: concurrent stores to an SRQ fail only its QPs"""
    sharing = shared_queue(wr=16)
    with sharing as (srq, ring), hostile_pair(b={"shared": (srq, ring), "pd": sharing.pd}) as (a, b):
        with scribbled(ring):
            exchange(a, b)
    healthy()


def datagrams():
    """9, 11: concurrent stores to the send queue of a UD QP fail only that QP"""
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
