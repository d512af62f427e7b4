# SPDX-License-Identifier: GPL-2.0
"""Many queue pairs of every service, a long time, over a wire that may be bad: every byte is looked at.

Connections between DEV and PEER_DEV do one thing after the other, each picked by chance: sends (some into a shared
receive queue), writes, reads, atomics. A reliable one must do it, whatever the wire does. Datagrams go between others:
what arrives of them is whole. SOAK_SECONDS is how long, SOAK_QPS how many queue pairs there are, SEED steers chance.
"""

import errno
import os
import random
import struct
import time

import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR, SendWR

from rc import FULL_ACCESS, across
from tap import equal, run, true
from ud import GRH, UdEnd
from work import OK, READ, SEND, WRITE, fill, held, pattern

SECONDS = float(os.environ.get("SOAK_SECONDS", "20"))
PAIRS = int(os.environ.get("SOAK_QPS", "40")) // 2
SEED = int(os.environ.get("SEED", "4791"))
SIZE = 16384
HALF = SIZE // 2
OPEN = FULL_ACCESS | e.IBV_ACCESS_REMOTE_ATOMIC
ENDS = {"size": SIZE, "access": OPEN, "wr": 8, "cqe": 32, "sge": 1}
PATIENT = {"timeout": 17, "retry_cnt": 7, "rnr_retry": 7, "rights": OPEN}


def once_there_is_a_way(make):
    """What make() makes. While the link is down there is no way to the peer, and a bad one may lose the question
    for its address, which the core asks once."""
    for _ in range(100):
        try:
            return make()
        except PyverbsRDMAError as error:
            true(error.error_code in (errno.ENETUNREACH, errno.ETIMEDOUT), f"no way: {error}")
            time.sleep(0.1)
    raise AssertionError("no way for ten seconds")


class Connection:
    """Two ends, and what they have done. `shared`: what the second end has in common with others."""

    def __init__(self, chance, contexts, service=e.IBV_QPT_RC, shared=None):
        self.chance, self.contexts, self.service, self.shared = chance, contexts, service, shared
        self.number = self.lost = 0
        self.connect()

    def connect(self):
        """New ends."""
        ends = {**ENDS, "service": self.service}
        others = {**ends, **(self.shared or {})}
        self.one, self.other = once_there_is_a_way(lambda: across(ends, others, self.contexts, **PATIENT)).ends

    def act(self):
        """One message, there or back."""
        self.number += 1
        a, b = self.one, self.other
        if self.chance.random() < 0.5:
            a, b = b, a
        data = pattern(self.chance.choice((1, 64, 1000, 1024, 5000, HALF)), self.number + a.qp.qp_num)
        if self.service == e.IBV_QPT_UC:
            self.unreliable(a, b, data)
        else:
            self.chance.choice((self.send, self.write, self.read, self.atomic))(a, b, data)

    def done(self, end, what):
        """The next completion, which must be a success."""
        wc = end.completion(120)
        equal(wc.status, OK, f"{what} {self.number} of QP {end.qp.qp_num}")
        return wc

    def receive(self, end):
        """Posts a receive, where the end takes its receives from."""
        if end is self.other and self.shared:
            self.shared["srq"].post_recv(RecvWR(wr_id=self.number, num_sge=1, sg=[end.sge(HALF, HALF)]))
        else:
            end.receive(wr_id=self.number, pieces=[end.sge(HALF, HALF)])

    def send(self, a, b, data):
        """A message into a receive."""
        fill(a, data)
        self.receive(b)
        a.send(SEND, pieces=[a.sge(0, len(data))])
        self.done(a, "send")
        wc = self.done(b, "receive")
        equal((wc.wr_id, wc.byte_len, held(b, len(data), HALF)), (self.number, len(data), data), "what was received")

    def write(self, a, b, data):
        """A message into memory."""
        fill(a, data)
        a.send(WRITE, pieces=[a.sge(0, len(data))], remote=b.remote(HALF))
        self.done(a, "write")
        equal(held(b, len(data), HALF), data, "what was written")

    def read(self, a, b, data):
        """A message out of memory."""
        fill(b, data)
        a.send(READ, pieces=[a.sge(HALF, len(data))], remote=b.remote())
        self.done(a, "read")
        equal(held(a, len(data), HALF), data, "what was read")

    def atomic(self, a, b, _data):
        """Exactly one addition."""
        start = self.chance.getrandbits(64)
        fill(b, struct.pack("=Q", start))
        request = SendWR(wr_id=1, num_sge=1, sg=[a.sge(HALF, 8)], opcode=e.IBV_WR_ATOMIC_FETCH_AND_ADD,
                         send_flags=e.IBV_SEND_SIGNALED)
        request.set_wr_atomic(b.mr.rkey, b.mr.buf, 3)
        a.qp.post_send(request)
        self.done(a, "addition")
        equal(held(a, 8, HALF), struct.pack("=Q", start), "what was there before")
        equal(held(b, 8), struct.pack("=Q", start + 3 & (1 << 64) - 1), "what is there now")

    def unreliable(self, a, b, data):
        """A message that arrives whole or not at all."""
        fill(a, data)
        fill(b, bytes(HALF), HALF)
        self.receive(b)
        a.send(SEND, pieces=[a.sge(0, len(data))])
        self.done(a, "send")
        stop = time.monotonic() + 0.05
        found = b.cq.poll(1)[1]
        while not found and time.monotonic() < stop:
            found = b.cq.poll(1)[1]
        if not found:
            # It may come yet, or never; the receive is taken back with the queue pair.
            self.lost += 1
            self.one.close()
            self.other.close()
            self.connect()
            return
        equal((found[0].byte_len, held(b, len(data), HALF)), (len(data), data), "what was received")


class Datagrams:
    """Two ends that send each other numbered datagrams, and what they have done."""

    def __init__(self, chance, contexts):
        self.chance = chance
        self.number = self.lost = 0
        self.ends = [UdEnd(ctx=ctx) for ctx in contexts]
        self.waiting = [False, False]
        ways = (("PEER_ADDR", "GID4"), ("ADDR", "PEER_GID4"))
        self.handles = [once_there_is_a_way(lambda end=end, way=way: end.handle_for(
            os.environ[way[0]], int(os.environ[way[1]]))) for end, way in zip(self.ends, ways)]

    def act(self):
        """One datagram, there or back. What arrives may be an earlier one, but has the bytes of that."""
        self.number += 1
        to = self.chance.choice((0, 1))
        sender, receiver = self.ends[1 - to], self.ends[to]
        length = self.chance.choice((0, 1, 60, 200))
        data = struct.pack("=HH", self.number & 0xFFFF, length) + pattern(length, self.number & 0xFFFF)
        if not self.waiting[to]:
            receiver.receive()
        self.waiting[to] = True
        equal(sender.send(self.handles[1 - to], data, receiver.qp.qp_num), OK, "a datagram's status")
        try:
            wc = receiver.completion(lambda wc: wc.wr_id == 0, 0.05)
        except AssertionError:
            self.lost += 1
            return
        self.waiting[to] = False
        equal(wc.status, OK, "a receive's status")
        number, length = struct.unpack("=HH", receiver.received(0, GRH + 4)[GRH:])
        equal(wc.byte_len, GRH + 4 + length, "the length of a datagram")
        equal(receiver.received(0, wc.byte_len)[GRH + 4:], pattern(length, number), "the bytes of a datagram")


def soak():
    """Everything arrives, for as long as it takes"""
    chance = random.Random(SEED)
    contexts = [Context(name=os.environ[name]) for name in ("DEV", "PEER_DEV")]
    domain = PD(contexts[1])
    shared = {"pd": domain, "srq": SRQ(domain, SrqInitAttr(SrqAttr(max_wr=16, max_sge=1)))}
    kinds = [{}] * 6 + [{"service": e.IBV_QPT_UC}] + [{"shared": shared}] * 3
    connections = [Connection(chance, contexts, **kinds[number % 10]) for number in range(PAIRS * 9 // 10)]
    connections += [Datagrams(chance, contexts) for _ in range(PAIRS - len(connections))]
    stop = time.monotonic() + SECONDS
    done = 0
    while time.monotonic() < stop or done <= PAIRS / 2:
        chance.choice(connections).act()
        done = sum(one.number for one in connections)
    lost = sum(one.lost for one in connections)
    print(f"# seed {SEED}: {done} messages over {PAIRS} connections, {lost} lost by unreliable ones", flush=True)


if __name__ == "__main__":
    run([soak])
