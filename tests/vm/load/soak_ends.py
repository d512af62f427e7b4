# SPDX-License-Identifier: GPL-2.0
"""Connections of every service that check all their bytes, for soak.py: each has several messages in flight in both
directions and never blocks, so that one process can drive many of them.

A connection is either idle or waits for the messages that it has begun. A reliable one receives everything, once and
in order, whatever the wire does. Messages over the others arrive whole, and over a connected one in order and not
twice.
"""

import collections
import errno
import functools
import os
import struct
import time

from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

import enums as e
import work
from rc import FULL_ACCESS, SLOWNESS, across
from tap import equal, true
from ud import GRH, QKEY, UdEnd
from work import OK, READ, SEND, WRITE, fill, held

ADD = e.IBV_WR_ATOMIC_FETCH_AND_ADD
# Number of messages in flight at once; each has a place of its own at either end.
PLACES = 4
PIECE = 8192
# Offset, behind the places, of a number to which the peer adds.
COUNTER = 2 * PLACES * PIECE
LENGTHS = (1, 64, 1000, 1024, 5000, PIECE)
OPEN = FULL_ACCESS | e.IBV_ACCESS_REMOTE_ATOMIC
ENDS = {"size": COUNTER + 8, "access": OPEN, "wr": 2 * PLACES, "cqe": 32, "sge": 1}
# A timeout of one second and seven retries: longer than a netem queue stays full or the link stays down. Four seconds
# on a slow machine.
PATIENT = {"timeout": 20 if SLOWNESS > 2 else 18, "retry_cnt": 7, "rnr_retry": 7, "rights": OPEN}
# Time in seconds within which a reliable connection must finish the messages that it has begun.
LATEST = 120 * SLOWNESS
# A message not received this long after it was sent may still arrive, but is not waited for.
LINGER = 0.05
# A connection is replaced by a new one after this many rounds, on average.
ROUNDS = 50


@functools.cache
def _whole(seed):
    return work.pattern(PIECE, seed)


def pattern(length, number):
    """Returns bytes that depend on their place, and on the number of the message modulo 256."""
    return _whole(number & 0xFF)[:length]


def source(place):
    """Returns the offset from which a message is sent."""
    return 2 * place * PIECE


def target(place):
    """Returns the offset to which a message is sent."""
    return (2 * place + 1) * PIECE


def once_there_is_a_way(make):
    """Returns the result of make(), repeated until a route exists. While the link is down there is no route to the
    peer, and a bad wire may lose the neighbour request, which the core sends once.
    """
    for _ in range(100 * SLOWNESS):
        try:
            return make()
        except PyverbsRDMAError as error:
            true(error.error_code in (errno.ENETUNREACH, errno.ETIMEDOUT), f"no route: {error}")
            time.sleep(0.1)
    raise AssertionError(f"no route for {10 * SLOWNESS} seconds")


class Pool:
    """An SRQ that several QPs of one device share."""

    COUNT = 16

    def __init__(self, context):
        self.pd = PD(context)
        self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=self.COUNT, max_sge=1)))
        self.mr = MR(self.pd, self.COUNT * PIECE, e.IBV_ACCESS_LOCAL_WRITE)
        for at in range(self.COUNT):
            self.post(at)

    def post(self, at):
        """Posts a receive again."""
        self.srq.post_recv(RecvWR(wr_id=at, num_sge=1, sg=[SGE(self.mr.buf + at * PIECE, PIECE, self.mr.lkey)]))

    def take(self, at, length):
        """Returns the bytes of a receive, and posts it again."""
        data = held(self, length, at * PIECE)
        self.post(at)
        return data


class Connection:
    """Two connected ends and their statistics. `pool`: the SRQ of the second end."""

    service = e.IBV_QPT_RC

    def __init__(self, chance, contexts, pool=None):
        self.chance, self.contexts, self.pool = chance, contexts, pool
        self.number = self.lost = self.arrived = 0
        self.connect()

    def connect(self):
        """Creates new ends."""
        ends = {**ENDS, "service": self.service}
        others = {**ends, **({"srq": self.pool.srq, "pd": self.pool.pd} if self.pool else {})}
        self.ends = once_there_is_a_way(lambda: across(ends, others, self.contexts, **PATIENT)).ends
        # Messages that each end has sent and whose completions are outstanding, in order.
        self.sent = collections.deque(), collections.deque()
        self.since = time.monotonic()

    def round(self):
        """Begins a round, sometimes with new ends."""
        if self.number and self.chance.randrange(ROUNDS) == 0:
            for end in self.ends:
                end.close()
            self.connect()
        self.since = time.monotonic()
        self.begin(self.chance.randrange(1, PLACES + 1))

    def post(self, side, opcode, place, length, remote=None):
        """Posts a request with the number of the message."""
        end = self.ends[side]
        here = target(place) if opcode in (READ, ADD) else source(place)
        request = SendWR(wr_id=self.number, num_sge=1, sg=[end.sge(here, length)], opcode=opcode,
                         send_flags=e.IBV_SEND_SIGNALED)
        if opcode == ADD:
            request.set_wr_atomic(remote[1], remote[0], 3)
        elif remote:
            request.set_wr_rdma(remote[1], remote[0])
        end.qp.post_send(request)

    def collect(self):
        """Takes the available completions; returns whether there were any."""
        found = False
        for side, end in enumerate(self.ends):
            for wc in end.cq.poll(16)[1]:
                found = True
                what = f"QP {end.qp.qp_num}, after {self.number} messages"
                equal(wc.status, OK, f"the status of a completion of {what}")
                if wc.opcode & e.IBV_WC_RECV:
                    self.receives(side, wc, what)
                else:
                    true(self.sent[side], f"an unexpected completion of {what}")
                    self.sends(side, wc, what)
        true(found or self.idle() or time.monotonic() < self.since + LATEST, f"no progress: {self.state()}")
        return found

    def state(self):
        """Returns the messages that are outstanding, for error messages."""
        return [(end.qp.qp_num, list(sent)) for end, sent in zip(self.ends, self.sent)]


class Reliable(Connection):
    """SENDs, WRITEs, READs and atomic additions, all of which must complete."""

    def connect(self):
        super().connect()
        # Messages that each end must receive, in order.
        self.coming = collections.deque(), collections.deque()
        self.counters = [self.chance.getrandbits(64) for _ in self.ends]
        for end, counter in zip(self.ends, self.counters):
            fill(end, struct.pack("=Q", counter), COUNTER)

    def begin(self, count):
        """Begins some messages in either direction."""
        messages = [(self.number + 1 + place, self.chance.randrange(2), self.chance.choice((SEND, WRITE, READ, ADD)),
                     place) for place in range(count)]
        for number, side, opcode, place in messages:
            if opcode == SEND and not (self.pool and side == 0):
                end = self.ends[1 - side]
                end.receive(wr_id=number, pieces=[end.sge(target(place), PIECE)])
        for message in messages:
            self.start(*message)

    def start(self, number, side, opcode, place):
        """Posts one message."""
        self.number = number
        data, remote = pattern(self.chance.choice(LENGTHS), number), None
        one, other = self.ends[side], self.ends[1 - side]
        if opcode == ADD:
            remote, data = other.remote(COUNTER), struct.pack("=Q", self.counters[1 - side])
            self.counters[1 - side] = self.counters[1 - side] + 3 & (1 << 64) - 1
        elif opcode == READ:
            fill(other, data, source(place))
            remote = other.remote(source(place))
        else:
            fill(one, data, source(place))
            remote = other.remote(target(place)) if opcode == WRITE else None
        message = number, opcode, place, data
        self.sent[side].append(message)
        if opcode == SEND:
            self.coming[1 - side].append(message)
        self.post(side, opcode, place, len(data), remote)

    def sends(self, side, wc, what):
        """Checks a completed request: its bytes are in place."""
        number, opcode, place, data = self.sent[side].popleft()
        equal(wc.wr_id, number, f"the order of completions of {what}")
        if opcode != SEND:
            end = self.ends[1 - side if opcode == WRITE else side]
            equal(held(end, len(data), target(place)), data, f"the bytes of opcode {opcode}, {what}")
            self.arrived += 1

    def receives(self, side, wc, what):
        """Checks a received message: it must be the next one."""
        true(self.coming[side], f"a receive without a send, of {what}")
        number, _, place, data = self.coming[side].popleft()
        if side and self.pool:
            found = self.pool.take(wc.wr_id, wc.byte_len)
        else:
            equal(wc.wr_id, number, f"the order of receives of {what}")
            found = held(self.ends[side], wc.byte_len, target(place))
        equal(found, data, f"the bytes received, {what}")
        self.arrived += 1

    def idle(self):
        """Returns whether all begun messages are finished."""
        return not any((*self.sent, *self.coming))

    def step(self, begin):
        """Makes progress; returns whether there was something to do."""
        if not self.idle():
            found = self.collect()
            if found and self.idle():
                for end, counter in zip(self.ends, self.counters):
                    equal(held(end, 8, COUNTER), struct.pack("=Q", counter), "the sum of the additions")
            return found
        if begin:
            self.round()
        return begin


class Unreliable(Connection):
    """Messages that arrive whole or not at all, and in order."""

    service = e.IBV_QPT_UC

    def connect(self):
        super().connect()
        # Messages that each end may still receive, in order.
        self.coming = collections.deque(), collections.deque()
        # Numbers of receives that each end has posted, and that were consumed.
        self.posted, self.taken = [0, 0], [0, 0]

    def begin(self, count):
        """Begins some messages in either direction."""
        for side, end in enumerate(self.ends):
            while self.posted[side] < self.taken[side] + PLACES:
                place = self.posted[side] % PLACES
                end.receive(wr_id=self.posted[side], pieces=[end.sge(target(place), PIECE)])
                self.posted[side] += 1
        for place in range(count):
            self.number += 1
            side = self.chance.randrange(2)
            data = pattern(self.chance.choice(LENGTHS), self.number)
            fill(self.ends[side], data, source(place))
            self.sent[side].append(self.number)
            self.coming[1 - side].append(data)
            self.post(side, SEND, place, len(data))

    def sends(self, side, wc, what):
        """Checks the completion of a send."""
        equal(wc.wr_id, self.sent[side].popleft(), f"the order of completions of {what}")
        self.since = time.monotonic()

    def receives(self, side, wc, what):
        """Checks a received message: it must be one sent after the last one received."""
        equal(wc.wr_id, self.taken[side], f"the order of receives of {what}")
        found = held(self.ends[side], wc.byte_len, target(self.taken[side] % PLACES))
        self.taken[side] += 1
        coming = self.coming[side]
        true(found in coming, f"{wc.byte_len} bytes {found[:8]!r} were not sent, or arrived twice or late: {what}")
        while coming.popleft() != found:
            self.lost += 1
        self.arrived += 1

    def idle(self):
        """Returns whether all messages have left, and have arrived or timed out."""
        return not any(self.sent) and (not any(self.coming) or time.monotonic() > self.since + LINGER)

    def step(self, begin):
        """Makes progress; returns whether there was something to do."""
        found = self.collect()
        if not begin or not self.idle():
            return found
        # New ends forget missing messages before the same bytes are sent again.
        if max(map(len, self.coming)) > 100:
            for end in self.ends:
                end.close()
            self.connect()
        self.round()
        return True


class Datagrams:
    """Two ends that send each other numbered datagrams, and their statistics."""

    SIZE = 256

    def __init__(self, chance, contexts):
        self.chance = chance
        self.number = self.lost = self.arrived = self.waiting = 0
        self.since = time.monotonic()
        self.ends = [UdEnd(ctx=ctx) for ctx in contexts]
        ways = (("PEER_ADDR", "GID4"), ("ADDR", "PEER_GID4"))
        self.handles = [once_there_is_a_way(lambda end=end, way=way: end.handle_for(
            os.environ[way[0]], int(os.environ[way[1]]))) for end, way in zip(self.ends, ways)]
        # Numbers of the datagrams that may still arrive at each end.
        self.coming = set(), set()
        for end in self.ends:
            end.receive(PLACES)

    def begin(self):
        """Sends some datagrams in either direction."""
        for place in range(self.chance.randrange(1, PLACES + 1)):
            self.number += 1
            to = self.chance.randrange(2)
            sender, receiver = self.ends[1 - to], self.ends[to]
            length = self.chance.choice((0, 1, 60, 200))
            data = struct.pack("=IH", self.number, length) + pattern(length, self.number)
            fill(sender, data, place * self.SIZE)
            request = SendWR(wr_id=1000, num_sge=1, sg=[SGE(sender.mr.buf + place * self.SIZE, len(data),
                                                            sender.mr.lkey)])
            request.set_wr_ud(self.handles[1 - to], receiver.qp.qp_num, QKEY)
            sender.qp.post_send(request)
            self.waiting += 1
            self.coming[to].add(self.number)

    def collect(self):
        """Takes the available completions; returns whether there were any."""
        found = False
        for side, end in enumerate(self.ends):
            for wc in end.cq.poll(16)[1]:
                found = True
                equal(wc.status, OK, "a datagram's status")
                if wc.wr_id == 1000:
                    self.waiting -= 1
                    self.since = time.monotonic()
                else:
                    self.received(side, end, wc)
        return found

    def received(self, side, end, wc):
        """Checks a received datagram: it may be late or a duplicate, but has the bytes of a datagram that was sent."""
        data = end.received(wc.wr_id, wc.byte_len)[GRH:]
        number, length = struct.unpack_from("=IH", data)
        true(0 < number <= self.number, f"datagram {number} of {self.number}")
        equal(data[6:], pattern(length, number), "the bytes of a datagram")
        sge = SGE(end.mr.buf + end.mr.length // 2 + wc.wr_id * self.SIZE, self.SIZE, end.mr.lkey)
        end.qp.post_recv(RecvWR(wr_id=wc.wr_id, num_sge=1, sg=[sge]))
        self.arrived += number in self.coming[side]
        self.coming[side].discard(number)

    def idle(self):
        """Returns whether all datagrams have left, and have arrived or timed out."""
        return not self.waiting and (not any(self.coming) or time.monotonic() > self.since + LINGER)

    def step(self, begin):
        """Makes progress; returns whether there was something to do."""
        found = self.collect()
        true(self.idle() or time.monotonic() < self.since + LATEST, "datagrams make no progress")
        if not begin or not self.idle():
            return found
        for coming in self.coming:
            self.lost += len(coming)
            coming.clear()
        self.since = time.monotonic()
        self.begin()
        return True
