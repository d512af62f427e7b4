# SPDX-License-Identifier: GPL-2.0
"""A firewall drops all packets of an active connection, until the end or for a while, in either namespace, at output or
input.

	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b; `a` of DEV requests, `b` of PEER_DEV responds

Until the end: the oldest request fails after the sum of the timeouts, and the rest is flushed. For a while: no request
fails, and all messages before, during and after it arrive correctly, once, and in order.
"""

import re
import subprocess
import time
from functools import partial, update_wrapper

import enums as e
from counters import counter
from mistakes import counted, waits
from rc import DEVICE, SLOWNESS, across
from tap import Skip, equal, not_for_rxe, run, true
from work import FLUSHED, OK, READ, SEND, WRITE, e_name, fill, held, pattern

# Namespace and hook: the packets that are dropped there.
PLACES = {("b", "input"): "incoming requests of the peer", ("", "output"): "outgoing requests",
          ("b", "output"): "outgoing responses of the peer", ("", "input"): "incoming responses"}
# Messages in flight, each with a slot of its own. Opcodes and lengths rotate.
DEPTH, PLACE = 8, 8192
OPCODES = (SEND, WRITE, READ)
LENGTHS = (8, 5000, 1, 1024, 4097)
AREA = DEPTH * PLACE
PATIENCE = 60


def area(end, which, number, data=None, length=0):
    """The bytes of a message, in the area `which` of an end's memory; stores data there if given."""
    offset = which * AREA + number % DEPTH * PLACE
    return held(end, length, offset) if data is None else fill(end, data, offset)


class Stream:
    """An endless stream of messages of every kind from `a` to `b`; each is verified when it completes."""

    def __init__(self, a, b):
        self.a, self.b = a, b
        self.begun = self.done = self.received = 0
        self.ending = False
        # Time of the last poll, and the two times between which the last message completed.
        self.looked = time.monotonic()
        self.progress = self.looked, self.looked
        for _ in range(2 * DEPTH):
            self.receive()

    @staticmethod
    def data(number):
        """The payload of a message."""
        return pattern(LENGTHS[number % len(LENGTHS)], number)

    def receive(self):
        """Posts one more receive to `b`; its number selects its memory."""
        number = self.received
        self.received += 1
        self.b.receive(wr_id=number, pieces=[self.b.sge(2 * AREA + number % (2 * DEPTH) * PLACE, PLACE)])

    def begin(self):
        """Posts as many messages as there is room for."""
        while self.begun < self.done + DEPTH and not self.ending:
            number, data = self.begun, self.data(self.begun)
            opcode, at = OPCODES[number % len(OPCODES)], number % DEPTH * PLACE
            if opcode == READ:
                area(self.b, 0, number, data)
                area(self.a, 1, number, bytes(len(data)))
            else:
                area(self.a, 0, number, data)
            piece = self.a.sge(at + (AREA if opcode == READ else 0), len(data))
            remote = self.b.remote(at + (0 if opcode == READ else AREA))
            self.a.send(opcode, wr_id=number, pieces=[piece], remote=remote)
            self.begun += 1

    def step(self):
        """Verifies completed messages and posts more; returns the failed completions, if any."""
        before = time.monotonic()
        found = self.a.cq.poll(4 * DEPTH)[1]
        now = time.monotonic()
        self.taken()
        for wc in found:
            if wc.status != OK:
                return found[found.index(wc):]
            equal(wc.wr_id, self.done, "number")
            self.look(self.done)
            self.done += 1
            self.progress = self.looked, now
        self.looked = before
        self.begin()
        return []

    def look(self, number):
        """Verifies the bytes of a WRITE or READ."""
        data, opcode = self.data(number), OPCODES[number % len(OPCODES)]
        if opcode != SEND:
            end = self.a if opcode == READ else self.b
            equal(area(end, 1, number, length=len(data)), data, f"message {number}")

    def taken(self):
        """Verifies that `b` received each SEND, once and in order."""
        for wc in self.b.cq.poll(4 * DEPTH)[1]:
            number = self.received - 2 * DEPTH
            equal((wc.status, wc.wr_id), (OK, number), "receive")
            data = self.data(number * len(OPCODES))
            offset = 2 * AREA + number % (2 * DEPTH) * PLACE
            equal((wc.byte_len, held(self.b, len(data), offset)), (len(data), data), f"receive {number}")
            self.receive()

    def until(self, condition, what):
        """Runs the stream until the condition holds; no message may fail."""
        late = time.monotonic() + PATIENCE * SLOWNESS
        while not condition():
            failed = [(wc.wr_id, e_name(wc.status)) for wc in self.step()]
            true(not failed, f"failed before {what}: {failed}")
            true(time.monotonic() < late, f"timeout before {what}")

    def more(self):
        """Runs the stream until each slot was used twice."""
        wanted = self.done + 2 * DEPTH * len(OPCODES)
        self.until(lambda: self.done >= wanted, "messages are done")

    def finish(self):
        """Completes all posted messages."""
        late = time.monotonic() + PATIENCE * SLOWNESS
        self.ending = True
        self.until(lambda: self.done >= self.begun, "all messages are done")
        while self.received - 2 * DEPTH < -(-self.begun // len(OPCODES)):
            true(time.monotonic() < late, "a receive is missing")
            self.taken()


class Firewall:
    """A rule that drops packets to the RoCE port, at a hook of a namespace."""

    def __init__(self, where, hook):
        self.nft = ["ip", "netns", "exec", where, "nft"] if where else ["nft"]
        self.hook = hook

    def start(self, text):
        """Starts an nft command, which applies completely or not at all."""
        return subprocess.Popen([*self.nft, text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def up(self):
        """Adds the rule."""
        return self.start("add table inet cut; add chain inet cut it { type filter hook " + self.hook +
                          " priority 0; }; add rule inet cut it udp dport 4791 counter drop")

    def down(self):
        """Removes the rule."""
        return self.start("delete table inet cut")

    def swallowed(self):
        """Number of packets that the rule dropped."""
        said = self.start("list table inet cut").communicate()[0]
        return int(re.search(r"packets (\d+)", said)[1])


def beside(stream, program):
    """Runs the stream until a program has succeeded."""
    stream.until(lambda: program.poll() is not None, "the firewall's program has ended")
    equal(program.returncode, 0, program.stdout.read())


def nothing_wrong():
    """Skips the test if packets cannot be dropped here."""
    not_for_rxe("for rxe a packet that cannot be sent is fatal")
    fire = Firewall("", "output")
    try:
        with fire.up() as program:
            said = program.communicate()[0]
    except FileNotFoundError:
        raise Skip("no nft") from None
    if program.returncode:
        raise Skip(f"no nftables: {said.strip().splitlines()[0]}")
    fire.down().communicate()


def at_work(**settings):
    """Two ends with memory for a stream."""
    size = {"size": 4 * AREA}
    return across(a=size, b=size, **settings)


def for_good(where, hook):
    """{} are dropped until the end: the oldest request exceeds its retries in time, and the rest is flushed"""
    nothing_wrong()
    code, retries = 16, 3
    least, most = waits(code, retries)
    fire = Firewall(where, hook)
    for _ in range(3):
        with at_work(timeout=code, retry_cnt=retries) as (a, b):
            stream = Stream(a, b)
            stream.more()
            given_up, timeouts = (counter(name, DEVICE) for name in ("retry_exceeded_err", "ack_timeouts"))
            with fire.up() as program:
                beside(stream, program)
            try:
                failed, late = [], time.monotonic() + most + PATIENCE * SLOWNESS
                while not failed and time.monotonic() < late:
                    failed = stream.step()
                now = time.monotonic()
                true(failed, "no request failed")
                equal((failed[0].wr_id, e_name(failed[0].status)),
                      (stream.done, e_name(e.IBV_WC_RETRY_EXC_ERR)), "the oldest incomplete request")
                rest = failed[1:] + a.completions(stream.begun - stream.done - len(failed))
                equal([(wc.wr_id, e_name(wc.status)) for wc in rest],
                      [(number, e_name(FLUSHED)) for number in range(stream.done + 1, stream.begun)], "the rest")
                true(fire.swallowed() > retries, f"only {fire.swallowed()} packets were dropped")
            finally:
                fire.down().communicate()
            equal((a.state(), b.state()), (e.IBV_QPS_ERR, e.IBV_QPS_RTS), "states")
            counted("retry_exceeded_err", given_up + 1)
            true(counter("ack_timeouts", DEVICE) > timeouts + retries, "too few ack_timeouts")
        # Bounds of the time it took.
        longest, shortest = now - stream.progress[0], stream.looked - stream.progress[1]
        true(longest >= least, f"gave up after {longest:.3f} s, wanted {least:.3f} s")
        if shortest <= most:
            return
    # A machine that stalls for so long rarely does so again.
    raise AssertionError(f"{retries} retries took {shortest:.3f} s, at most {most:.3f} s, three times")


def for_a_while(where, hook):
    """{} are dropped for a while: no request fails, and all messages arrive once and in order"""
    nothing_wrong()
    # The rule is removed after 3 T; the connection would fail after 27 T, 7.2 s.
    fire = Firewall(where, hook)
    with at_work(timeout=16, retry_cnt=7) as (a, b):
        stream = Stream(a, b)
        stream.more()
        given_up = counter("retry_exceeded_err", DEVICE)
        for _ in range(2):
            timeouts = counter("ack_timeouts", DEVICE)
            with fire.up() as program:
                beside(stream, program)
            try:
                stream.until(lambda least=timeouts + 2: counter("ack_timeouts", DEVICE) >= least, "two time-outs")
                true(fire.swallowed() >= 2, "no packet was dropped")
            finally:
                with fire.down() as program:
                    beside(stream, program)
            stream.more()
        stream.finish()
        equal((a.state(), b.state()), (e.IBV_QPS_RTS,) * 2, "states")
        counted("retry_exceeded_err", given_up)


def named(test, place, what):
    """A test of one hook, with its name."""
    found = update_wrapper(partial(test, *place), test)
    found.__doc__ = test.__doc__.format(what[0].upper() + what[1:])
    return found


if __name__ == "__main__":
    run([named(test, place, what) for place, what in PLACES.items() for test in (for_good, for_a_while)])
