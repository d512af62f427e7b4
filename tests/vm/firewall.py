# SPDX-License-Identifier: GPL-2.0
"""A firewall that swallows all packets of a connection at work, for good or for a while, in either namespace, on the
way out or in.

	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b; `a` of DEV asks, `b` of PEER_DEV answers

For good: what is under way fails in the time that the waits take together, the rest is flushed. For a while: nothing
fails, and all that was sent and read before, meanwhile and afterwards is right, once, and in order.
"""

import re
import subprocess
import time
from functools import partial, update_wrapper

import pyverbs.enums as e

from counters import counter
from mistakes import counted, waits
from rc import DEVICE, SLOWNESS, across
from tap import Skip, equal, not_for_rxe, run, true
from work import FLUSHED, OK, READ, SEND, WRITE, e_name, fill, held, pattern

# Namespace, and hook: what is swallowed.
PLACES = {("b", "input"): "requests that come in at the peer", ("", "output"): "requests that go out",
          ("b", "output"): "answers that go out at the peer", ("", "input"): "answers that come in"}
# So many messages are under way, each in a place of its own; what they are, and how long, goes round.
DEPTH, PLACE = 8, 8192
OPCODES = (SEND, WRITE, READ)
LENGTHS = (8, 5000, 1, 1024, 4097)
AREA = DEPTH * PLACE
PATIENCE = 60


def area(end, which, number, data=None, length=0):
    """The bytes of a message, in the area `which` of an end's memory; puts them there if there are data."""
    offset = which * AREA + number % DEPTH * PLACE
    return held(end, length, offset) if data is None else fill(end, data, offset)


class Stream:
    """Messages of every kind from `a` to `b` without end; each is looked at when it completes."""

    def __init__(self, a, b):
        self.a, self.b = a, b
        self.begun = self.done = self.received = 0
        self.ending = False
        # When it looked last, and between which times the last message has completed.
        self.looked = time.monotonic()
        self.progress = self.looked, self.looked
        for _ in range(2 * DEPTH):
            self.receive()

    @staticmethod
    def data(number):
        """What a message consists of."""
        return pattern(LENGTHS[number % len(LENGTHS)], number)

    def receive(self):
        """One more receive of `b`, whose memory is its number's."""
        number = self.received
        self.received += 1
        self.b.receive(wr_id=number, pieces=[self.b.sge(2 * AREA + number % (2 * DEPTH) * PLACE, PLACE)])

    def begin(self):
        """As many messages as there is room for."""
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
        """Takes and looks at what has completed, and goes on; what has failed, if something has."""
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
        """What was written, or read, is there."""
        data, opcode = self.data(number), OPCODES[number % len(OPCODES)]
        if opcode != SEND:
            end = self.a if opcode == READ else self.b
            equal(area(end, 1, number, length=len(data)), data, f"message {number}")

    def taken(self):
        """What `b` has received is what was sent, in order, each once."""
        for wc in self.b.cq.poll(4 * DEPTH)[1]:
            number = self.received - 2 * DEPTH
            equal((wc.status, wc.wr_id), (OK, number), "receive")
            data = self.data(number * len(OPCODES))
            offset = 2 * AREA + number % (2 * DEPTH) * PLACE
            equal((wc.byte_len, held(self.b, len(data), offset)), (len(data), data), f"receive {number}")
            self.receive()

    def until(self, condition, what):
        """Goes on until then; nothing may fail."""
        late = time.monotonic() + PATIENCE * SLOWNESS
        while not condition():
            failed = [(wc.wr_id, e_name(wc.status)) for wc in self.step()]
            true(not failed, f"failed until {what}: {failed}")
            true(time.monotonic() < late, f"not in time: {what}")

    def more(self):
        """Goes on until so many messages are done that each place was used twice."""
        wanted = self.done + 2 * DEPTH * len(OPCODES)
        self.until(lambda: self.done >= wanted, "messages are done")

    def finish(self):
        """What has been begun comes to its end."""
        late = time.monotonic() + PATIENCE * SLOWNESS
        self.ending = True
        self.until(lambda: self.done >= self.begun, "all messages are done")
        while self.received - 2 * DEPTH < -(-self.begun // len(OPCODES)):
            true(time.monotonic() < late, "a receive is missing")
            self.taken()


class Firewall:
    """A rule that swallows what goes to the port of RoCE, at a hook of a namespace."""

    def __init__(self, where, hook):
        self.nft = ["ip", "netns", "exec", where, "nft"] if where else ["nft"]
        self.hook = hook

    def start(self, text):
        """Begins to carry out a command, all of it or nothing."""
        return subprocess.Popen([*self.nft, text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def up(self):
        """The rule is to be."""
        return self.start("add table inet cut; add chain inet cut it { type filter hook " + self.hook +
                          " priority 0; }; add rule inet cut it udp dport 4791 counter drop")

    def down(self):
        """The rule is to go."""
        return self.start("delete table inet cut")

    def swallowed(self):
        """How many packets it has swallowed."""
        said = self.start("list table inet cut").communicate()[0]
        return int(re.search(r"packets (\d+)", said)[1])


def beside(stream, program):
    """The stream goes on until a program has ended well."""
    stream.until(lambda: program.poll() is not None, "the firewall's program has ended")
    equal(program.returncode, 0, program.stdout.read())


def nothing_wrong():
    """Skips if nothing can be swallowed here."""
    not_for_rxe("a packet that cannot be sent is fatal")
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
    """{} are swallowed for good: retry exceeded, in the time that was set, and the rest is flushed"""
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
                true(failed, "nothing has failed")
                equal((failed[0].wr_id, e_name(failed[0].status)),
                      (stream.done, e_name(e.IBV_WC_RETRY_EXC_ERR)), "the first that has not arrived")
                rest = failed[1:] + a.completions(stream.begun - stream.done - len(failed))
                equal([(wc.wr_id, e_name(wc.status)) for wc in rest],
                      [(number, e_name(FLUSHED)) for number in range(stream.done + 1, stream.begun)], "the rest")
                true(fire.swallowed() > retries, f"only {fire.swallowed()} packets were swallowed")
            finally:
                fire.down().communicate()
            equal((a.state(), b.state()), (e.IBV_QPS_ERR, e.IBV_QPS_RTS), "states")
            counted("retry_exceeded_err", given_up + 1)
            true(counter("ack_timeouts", DEVICE) > timeouts + retries, "time-outs are counted")
        # It has taken no longer, and no less, than this.
        longest, shortest = now - stream.progress[0], stream.looked - stream.progress[1]
        true(longest >= least, f"gave up after {longest:.3f} s, wanted {least:.3f} s")
        if shortest <= most:
            return
    # A machine that stands still for so long does so again seldom.
    raise AssertionError(f"{retries} retries took {shortest:.3f} s, at most {most:.3f} s, three times")


def for_a_while(where, hook):
    """{} are swallowed for a while: nothing fails, and everything arrives, once, in order"""
    nothing_wrong()
    # The rule goes after 3 T; the connection would fail after 27 T, 7.2 s.
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
                true(fire.swallowed() >= 2, "nothing was swallowed")
            finally:
                with fire.down() as program:
                    beside(stream, program)
            stream.more()
        stream.finish()
        equal((a.state(), b.state()), (e.IBV_QPS_RTS,) * 2, "states")
        counted("retry_exceeded_err", given_up)


def named(test, place, what):
    """A test of a place, under its name."""
    found = update_wrapper(partial(test, *place), test)
    found.__doc__ = test.__doc__.format(what[0].upper() + what[1:])
    return found


if __name__ == "__main__":
    run([named(test, place, what) for place, what in PLACES.items() for test in (for_good, for_a_while)])
