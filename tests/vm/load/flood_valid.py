# SPDX-License-Identifier: GPL-2.0
"""The cost of a flood of valid packets: a peer with a QP of its own sends only permitted requests.

As in flood.py, which covers packets that are dropped, the cost is the time of a sender for many packets, all of which
are received in that time, and the unit is a packet to a closed port. A request with many response packets counts with
these. Factors are judged only if a limit is given. The tests always check that all requests are carried out, and that
others make progress.
"""

import contextlib
import ctypes
import os
import socket
import struct
import time

from pyverbs.addr import AHAttr, GID, GlobalRoute

import enums as e
import frame as f
from bystander import Bystander
from drops import NOBODY, Stranger, deth, reth
from flood import LEAST_SHARE, PACKETS, SOME_ROUNDS, TIMES, WORST_FACTOR, pace
from netns import within_namespace
from rc import PORT, SLOWNESS, End, context, eventually, gid_index
from tap import equal, run, true
from ud import QKEY, gid_text
from unreliable import modify
from wire import BATCH, ETH_ALL, SO_RCVBUFFORCE

PSN, BODY = 0x1000, 256
# Packets of a READ response at a path MTU of 1024, and the number of outstanding READs.
ANSWER, OPEN = 64, 16
# Packets of a super-packet: far below 64 KiB, and all of one length.
BURST = 32
ACKNOWLEDGE = 0x80
# One more batch of READs may arrive before the responses of a batch are known to be complete.
DEPTH = 2 * OPEN
# Instructions of a packet filter as in linux/filter.h, and the length that it passes: the whole frame.
BYTE, HALF, WORD, MASK, UNLESS, RETURN = 0x30, 0x28, 0x20, 0x54, 0x15, 0x06
SO_ATTACH_FILTER, WHOLE = 26, 1 << 20
# Offsets in a frame of IPv4 without options: EtherType, protocol, port, opcode, QPN, PSN.
KIND, PROTOCOL, TO_PORT, OPCODE, TO_PAIR, ITS_PSN = 12, 23, 36, 42, 46, 50
# Payload of a full response packet.
PAYLOAD = 1024


def psn_of(frame):
    """The PSN of a packet."""
    return int.from_bytes(frame[ITS_PSN:ITS_PSN + 4], "big") & 0xFFFFFF


class Ear:
    """Receives only the responses to the peer."""

    def __init__(self):
        lines = [(HALF, KIND), (UNLESS, 0x0800), (BYTE, PROTOCOL), (UNLESS, socket.IPPROTO_UDP), (HALF, TO_PORT),
                 (UNLESS, 4791), (WORD, TO_PAIR), (MASK, 0xFFFFFF), (UNLESS, NOBODY), (RETURN, WHOLE), (RETURN, 0)]
        # Any other frame jumps to the last line.
        code = b"".join(struct.pack("=HBBI", what, 0, len(lines) - at - 2 if what == UNLESS else 0, value)
                        for at, (what, value) in enumerate(lines))
        program = ctypes.create_string_buffer(code, len(code))
        with within_namespace("b"):
            # Unbound until the filter is attached, so that it receives nothing before.
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                               struct.pack("@HP", len(lines), ctypes.addressof(program)))
        # Much more than the responses to all outstanding READs.
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
        self.socket.bind((os.environ["PEER_NETDEV"], ETH_ALL))
        self.head = bytearray(64)

    def next(self, late):
        """PSNs of the next packets. Many may arrive as one frame, with the headers of the first only, or of all. All
        headers and ICRCs of a frame are shorter than a packet."""
        self.socket.settimeout(max(0.1, late - time.monotonic()))
        length = self.socket.recv_into(self.head, flags=socket.MSG_TRUNC)
        opcode, first = self.head[OPCODE], psn_of(self.head)
        true(f.READ_FIRST <= opcode <= f.READ_LAST, f"answered with opcode {opcode:#x}, {bytes(self.head[54:58])}")
        return range(first, first + (length - OPCODE - f.BTH) // PAYLOAD)

    def close(self):
        """Closes the socket."""
        self.socket.close()


class Flood(Stranger):
    """The peer of a QP of its own, and its packets: each strike sends a batch and adds the time of the send. The time
    to build packets and to take completions is excluded."""

    service, length = e.IBV_QPT_RC, BATCH

    def __init__(self):
        super().__init__()
        self.depth = min(DEPTH, context().query_device().max_qp_rd_atom)
        self.end = End(size=1 << 16, wr=1024, cqe=1024, sge=1, service=self.service)
        self.sent = self.packets = 0
        self.seconds = 0.0
        self.connect()

    def connect(self):
        """Moves the QP to RTS from any state."""
        modify(self.end.qp, e.IBV_QPS_RESET)
        attr = self.end.attr(NOBODY, rq_psn=PSN, sq_psn=PSN, max_dest_rd_atomic=self.depth)
        attr.qkey = QKEY
        route = GlobalRoute(dgid=GID(gid_text(os.environ["PEER_ADDR"])), sgid_index=gid_index(4), hop_limit=64)
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=PORT)
        self.end.qp.to_rts(attr)

    def frame(self, opcode, number, body, **fields):
        """One frame, with the AckReq bit."""
        return f.build({**self.usual, "opcode": opcode, "qpn": self.end.qp.qp_num, "psn": PSN + number & 0xFFFFFF,
                        "ident": number & 0xFFFF, "ack": ACKNOWLEDGE, "body": body, **fields})

    def made(self):
        """The frames of the next strike."""
        raise NotImplementedError

    def carried_out(self):
        """Raises unless the last strike was carried out."""

    def strike(self):
        """Sends a batch, all of which is carried out."""
        frames = self.made()
        start = time.monotonic()
        self.put(frames)
        self.seconds += time.monotonic() - start
        self.sent += len(frames)
        self.packets += len(frames)
        self.carried_out()

    def put(self, frames):
        """Sends the frames."""
        self.wire.send(frames)

    def cost(self):
        """Seconds for each packet."""
        return self.seconds / self.packets

    def close(self):
        """Destroys the QP."""
        self.end.close()


class Closed(Flood):
    """a closed port"""

    def __init__(self):
        super().__init__()
        body = reth(self.end.mr.buf, self.end.mr.rkey, BODY) + bytes(BODY)
        self.frames = [self.frame(f.WRITE_ONLY, number, body, dport=4999) for number in range(BATCH)]

    def made(self):
        return self.frames


class Writes(Flood):
    """WRITEs with consecutive PSNs"""

    def write(self, number):
        """A WRITE of its own number to a slot that later WRITEs reuse."""
        at = number * BODY % (1 << 16)
        body = reth(self.end.mr.buf + at, self.end.mr.rkey, BODY) + struct.pack("<Q", number) + bytes(BODY - 8)
        return self.frame(f.WRITE_ONLY, number, body)

    def made(self):
        return [self.write(self.sent + at) for at in range(self.length)]

    def carried_out(self):
        last = self.sent - 1
        place = self.end.mr.buf + last * BODY % (1 << 16)
        eventually(lambda: struct.unpack("<Q", ctypes.string_at(place, 8))[0] == last, f"write {last} is carried out")


class Bursts(Writes):
    """WRITEs in super-packets"""

    def put(self, frames):
        for first in range(0, len(frames), BURST):
            parts = [one[42:] for one in frames[first:first + BURST]]
            # Sent as one datagram that the stack splits: the pseudo-header has the length of all packets.
            head, whole = frames[first][:14], b"".join(parts)
            given = {**f.DEFAULTS, **self.usual, "ident": int.from_bytes(frames[first][18:20], "big")}
            udp = frames[first][34:38] + struct.pack(">HH", 8 + len(whole), 0)
            self.wire.send_burst(head + f.ip_header(given, len(udp) + len(whole)) + udp + whole, len(parts[0]))


class Reads(Flood):
    """READs of 64 packets with consecutive PSNs"""

    length = OPEN

    def __init__(self):
        super().__init__()
        self.ear = Ear()

    def question(self, number):
        """A READ of the whole region."""
        body = reth(self.end.mr.buf, self.end.mr.rkey, ANSWER * 1024)
        return self.frame(f.READ, number * ANSWER, body)

    def made(self):
        return [self.question(self.sent + at) for at in range(self.length)]

    def put(self, frames):
        super().put(frames)
        # A thread may send some of the responses later.
        late = time.monotonic() + 20 * SLOWNESS
        wanted = [psn_of(one) + at for one in frames for at in range(ANSWER)]
        heard = []
        while len(heard) < len(wanted):
            heard += self.ear.next(late)
        true(heard == wanted, f"responses from {wanted[0]:#x} on are {heard}")
        self.packets += len(frames) * ANSWER

    def close(self):
        super().close()
        self.ear.close()


class Again(Reads):
    """repeated duplicates of the same READs"""

    def __init__(self):
        super().__init__()
        self.first = [self.question(number) for number in range(OPEN)]

    def made(self):
        return self.first


class Datagrams(Flood):
    """datagrams with a receive each"""

    service = e.IBV_QPT_UD

    def __init__(self):
        super().__init__()
        self.frames = [self.frame(f.UD | f.SEND_ONLY, number, deth() + bytes(BODY)) for number in range(BATCH)]

    def made(self):
        for number in range(BATCH):
            self.end.receive(pieces=[self.end.sge(number % 64 * 512, 40 + BODY)])
        return self.frames

    def carried_out(self):
        equal({(wc.status, wc.byte_len) for wc in self.end.completions(BATCH)}, {(0, 40 + BODY)}, "received datagrams")


KINDS = [Writes, Bursts, Reads, Again, Datagrams]


@contextlib.contextmanager
def on_one_processor():
    """Stays on one CPU, so that packets stay in order."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def flooding(kind):
    """`with flooding(kind) as flood`; the QP must not have failed at the end."""
    one = kind()
    try:
        yield one
        equal(one.end.state(), e.IBV_QPS_RTS, f"state of the QP: {kind.__doc__}")
    finally:
        one.close()


def costs():
    """Floods of valid packets are carried out; their cost is printed"""
    took = {}
    for kind in (Closed, *KINDS):
        for _ in range(TIMES):
            with on_one_processor(), flooding(kind) as one:
                while one.packets < PACKETS:
                    one.strike()
                took[kind] = min(took.get(kind, float("inf")), one.cost())
    unit = took.pop(Closed)
    print(f"# a closed port: {unit * 1e6:.2f} us a packet", flush=True)
    for kind, seconds in took.items():
        print(f"# {kind.__doc__}: factor {seconds / unit:.2f}", flush=True)
    worst = max(took.values()) / unit
    true(worst < WORST_FACTOR, f"factor {worst:.1f} relative to a closed port")


def beside():
    """A connection makes progress beside each flood of valid packets"""
    bystander = Bystander()
    quiet = pace(bystander, lambda: time.sleep(0.01))
    true(quiet[0] >= SOME_ROUNDS, f"{quiet[0]} whole rounds without a flood")
    for kind in KINDS:
        # The bystander is not pinned: it was forked before.
        with on_one_processor(), flooding(kind) as one:
            flooded = pace(bystander, one.strike, lambda one=one: one.packets >= PACKETS)
            print(f"# {kind.__doc__}: {one.packets} packets; rounds a second: {quiet[1]:.0f} without, {flooded[1]:.0f} "
                  "with them", flush=True)
        true(flooded[0] >= SOME_ROUNDS, f"{flooded[0]} whole rounds: {kind.__doc__}")
        share = flooded[1] / quiet[1]
        true(WORST_FACTOR == float("inf") or share > LEAST_SHARE, f"{share:.3f} of the rounds: {kind.__doc__}")
    bystander.end()


if __name__ == "__main__":
    context()
    run([costs, beside])
