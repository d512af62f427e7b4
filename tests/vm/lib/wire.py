# SPDX-License-Identifier: GPL-2.0
"""A malicious peer that sends to port 4791: wire.py TARGETS COUNT.

Listens at its own end of the wire, and sends: packets of the real peer with some fields changed; requests and
responses of its own, with the expected PSN, keys that it should not have, and some fields changed; management
datagrams to QP 1, and datagrams to a group; and noise. Most have a correct ICRC, otherwise all would be dropped at
the same check. TARGETS is a JSON file, see hostile_wire.py, which starts this program and reads its last line. SEED
is the seed of the random choices; the packets received also depend on timing.
"""

import collections
import ctypes
import json
import os
import random
import socket
import struct
import sys
import time

import frame as f
from ud import GSI_QKEY, MULTICAST_QPN

SEED = int(os.environ.get("SEED", "4791"))
BATCH = 256
ETH_ALL = 3
SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_VNET_HDR, PACKET_QDISC_BYPASS = 263, 15, 20
PACKET_OUTGOING = 4
# struct virtio_net_hdr: needs a checksum; VIRTIO_NET_HDR_GSO_UDP_L4.
NEEDS_CSUM, GSO_UDP_L4 = 1, 5
ENDS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
# Opcodes that begin a message: on any connection, and on a reliable one; opcodes that continue it, and that end it.
BEGIN = (f.SEND_FIRST, f.SEND_ONLY, f.SEND_ONLY_IMM, f.WRITE_FIRST, f.WRITE_ONLY, f.WRITE_ONLY_IMM)
BEGIN_RELIABLE = BEGIN + (f.READ, f.SWAP, f.ADD, f.FLUSH, f.ATOMIC_WRITE, f.SEND_ONLY_INV)
GO_ON = {f.SEND_FIRST: f.SEND_MIDDLE, f.WRITE_FIRST: f.WRITE_MIDDLE}
END = {f.SEND_FIRST: (f.SEND_LAST, f.SEND_LAST_IMM), f.WRITE_FIRST: (f.WRITE_LAST, f.WRITE_LAST_IMM)}
REQUESTS = (*BEGIN, *GO_ON.values(), *sum(END.values(), ()), f.SEND_LAST_INV)
WITH_DATA = REQUESTS + (f.SEND_ONLY_INV,)
ADDRESSED = (f.WRITE_FIRST, f.WRITE_ONLY, f.WRITE_ONLY_IMM, f.READ)
# Management classes with methods and attributes that the kernel may handle: subnet, its administration, performance,
# and connections (messages that create, keep or end a connection, or look an identifier up).
ASKED = (1, 2, 3, 5, 6)
MANAGEMENT = ((0x01, ASKED, (1, 2, 0x10, 0x11, 0x12, 0x15)), (0x03, ASKED, (1, 0x11, 0x35, 0x38)),
              (0x04, ASKED, (1, 0x12, 0x15, 0x1D)), (0x07, (3,), range(0x10, 0x1B)), (0x07, (3,), range(0x10, 0x1B)))
WITH_IMM = (f.SEND_LAST_IMM, f.SEND_ONLY_IMM, f.WRITE_LAST_IMM, f.WRITE_ONLY_IMM)


class Wire:
    """Our end of the wire: sends frames in batches, and receives every frame that passes."""

    def __init__(self, interface):
        self.out = self.opened(interface, 0)
        self.out.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        self.bursts = self.opened(interface, 0, PACKET_VNET_HDR)
        self.ears = self.opened(interface, ETH_ALL)
        self.ears.setblocking(False)
        self.buffer = bytearray(1 << 16)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.iovecs = ctypes.create_string_buffer(16 * BATCH)
        start = ctypes.addressof(self.iovecs)
        # struct mmsghdr: no name, one iovec each.
        self.heads = ctypes.create_string_buffer(
            b"".join(struct.pack("QQQQQQQQ", 0, 0, start + 16 * at, 1, 0, 0, 0, 0) for at in range(BATCH)), 64 * BATCH)

    @staticmethod
    def opened(interface, protocol, option=None):
        """Returns a packet socket of the interface."""
        found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        if option:
            found.setsockopt(SOL_PACKET, option, 1)
        found.bind((interface, protocol))
        return found

    def send(self, frames):
        """Sends up to BATCH frames; returns the indices of those that the kernel refused."""
        whole = ctypes.create_string_buffer(b"".join(frames))
        at = ctypes.addressof(whole)
        for index, one in enumerate(frames):
            struct.pack_into("QQ", self.iovecs, 16 * index, at, len(one))
            at += len(one)
        done, refused = 0, set()
        while done < len(frames):
            heads = ctypes.byref(self.heads, 64 * done)
            sent = self.libc.sendmmsg(self.out.fileno(), heads, len(frames) - done, 0)
            if sent <= 0:
                refused.add(done)
            done += max(1, sent)
        return refused

    def send_burst(self, whole, size):
        """Sends one frame that the kernel splits into datagrams of that many bytes."""
        start = 34 if whole[12:14] == b"\x08\0" else 54
        head = struct.pack("=BBHHHH", NEEDS_CSUM, GSO_UDP_L4, start + 8, size, start, 6)
        try:
            self.bursts.send(head + whole)
        except OSError:
            pass  # The kernel refuses invalid sizes.

    def heard(self):
        """Yields frames that have passed: (whether the real peer sent it, its bytes)."""
        for _ in range(BATCH):
            try:
                length, origin = self.ears.recvfrom_into(self.buffer)
            except BlockingIOError:
                return
            yield origin[2] == PACKET_OUTGOING, bytes(self.buffer[:length])


class Flow:
    """One attacked QP, with the state that its peer has."""

    def __init__(self, told, ends):
        self.qpn, self.peer, self.service, self.mtu = told["qpn"], told["peer"], told["service"], told["mtu"]
        self.qkey = told.get("qkey", 0)
        self.ends = {name: bytes.fromhex(value) for name, value in ends[str(told["version"])].items()}
        self.ends["version"] = told["version"]
        # The PSN that the victim expects next, and its last request: PSN and opcode.
        self.expected = told["psn"]
        self.asked = (told["psn"], f.SEND_ONLY)
        # First opcode of the message in progress, and the number of its packets left.
        self.message, self.left = None, 0
        self.captured = collections.deque(maxlen=64)

    def from_peer(self, fields, length):
        """Records a packet of the real peer."""
        fields["body"] = fields["body"][:self.mtu + 28]
        self.captured.append(fields)
        if fields["opcode"] & 0x1F not in f.RESPONSES:
            # A super-packet passes as one frame.
            self.expected = fields["psn"] + max(1, (length - 54) // self.mtu) & 0xFFFFFF

    def from_victim(self, fields):
        """Records a packet of the victim."""
        opcode = fields["opcode"] & 0x1F
        if opcode == f.ACK:
            accepted = fields["body"][0] < 0x20
            self.expected = fields["psn"] + accepted & 0xFFFFFF
        elif opcode not in f.RESPONSES:
            self.asked = fields["psn"], opcode


class Attacker:
    """Creates packets."""

    def __init__(self, targets):
        self.chance = random.Random(SEED)
        self.targets = targets
        self.flows = [Flow(told, targets["ends"]) for told in targets["flows"]]
        self.by_qpn = {flow.qpn: flow for flow in self.flows}
        self.by_peer = {flow.peer: flow for flow in self.flows}
        self.secret = bytes.fromhex(targets["secret"])
        self.leaks = 0
        self.changes = [getattr(self, name) for name in dir(self) if name.startswith("change_")]

    def listen(self, wire):
        """Records the frames that pass."""
        for is_peers, data in wire.heard():
            fields = f.parse(data)
            if not fields:
                continue
            if is_peers:
                flow = self.by_qpn.get(fields["qpn"])
                if flow:
                    flow.from_peer(fields, len(data))
                continue
            if self.secret in data:
                self.leaks += 1
            flow = self.by_peer.get(fields["qpn"])
            if flow:
                flow.from_victim(fields)

    # ---- packets -----------------------------------------------------------------------------

    def packet(self):
        """Returns the fields of one frame."""
        chance = self.chance
        flow = chance.choice(self.flows)
        if chance.random() < 0.06:
            return chance.choice((self.management, self.to_group))(flow)
        kind = chance.random()
        if kind < 0.2 and flow.captured:
            fields = dict(chance.choice(flow.captured))
            if chance.random() < 0.5:
                fields["psn"] = flow.expected
            changes = chance.choice((1, 1, 2, 3))
        elif kind < 0.7 or flow.service != f.RC:
            fields = self.request(flow)
            changes = chance.choice((0, 0, 0, 0, 0, 0, 1, 2))
        elif kind < 0.95:
            fields = self.response(flow)
            changes = chance.choice((0, 1, 1, 2))
        else:
            fields = self.noise(flow)
            changes = chance.randrange(4)
        for _ in range(changes):
            chance.choice(self.changes)(fields)
        if not changes and fields["opcode"] & 0x1F not in f.RESPONSES:
            flow.expected = flow.expected + 1 & 0xFFFFFF
        return fields

    def base(self, flow, opcode, psn, body, size=0):
        """Returns the fields of a valid packet; `size` is the length of its payload without padding."""
        return {**flow.ends, "opcode": opcode, "psn": psn, "qpn": flow.qpn, "body": body,
                "sport": 0xC000 | flow.qpn & 0x3FFF, "ident": self.chance.randrange(1, 65536),
                "flags": 0x40 | (-size & 3) << 4}

    def place(self, size):
        """Returns an address followed by that many bytes, and a key: mostly valid ones."""
        chance = self.chance
        address, length, key = self.targets["keys"][0]
        if chance.random() < 0.2:
            address, length, key = chance.choice(self.targets["keys"])
        where = chance.randrange(length) if chance.random() < 0.1 else chance.randrange(length - size) & ~7
        return address + where, key

    def data(self, size):
        """Returns payload of that many bytes, with padding."""
        return self.chance.randbytes(size + (-size & 3))

    def request(self, flow):
        """Returns a request that is likely to be executed."""
        chance, mtu = self.chance, flow.mtu
        if flow.service == f.UD:
            body = struct.pack(">II", flow.qkey, flow.peer) + self.data(chance.choice((0, 8, 200, 1024)))
            return self.base(flow, f.UD | f.SEND_ONLY, chance.getrandbits(24), body)
        opcode, size = self.step(flow)
        address, key = self.place(size)
        head = b""
        if opcode in ADDRESSED:
            head = struct.pack(">QII", address, key, size)
        elif opcode in (f.SWAP, f.ADD):
            head = struct.pack(">QIQQ", address, key, chance.getrandbits(64), 0)
        elif opcode == f.FLUSH:
            head = struct.pack(">IQII", chance.choice((1, 1, chance.randrange(64))), address, key, size)
        elif opcode == f.ATOMIC_WRITE:
            head = struct.pack(">QIIQ", address, key, 8, chance.getrandbits(64))
        elif opcode in (f.SEND_LAST_INV, f.SEND_ONLY_INV):
            head = struct.pack(">I", key)
        elif opcode in WITH_IMM:
            head = chance.randbytes(4)
        if opcode == f.WRITE_ONLY_IMM:
            head += chance.randbytes(4)
        if opcode in WITH_DATA:
            left = mtu if opcode in GO_ON or opcode in GO_ON.values() else min(size, mtu)
            head += self.data(left)
        return self.base(flow, flow.service | opcode, flow.expected, head, size)

    def management(self, flow):
        """Returns a management datagram with a valid header: most invalid ones are dropped at the same check."""
        chance = self.chance
        kind, methods, attributes = chance.choice(MANAGEMENT)
        if chance.random() < 0.1:
            kind, methods = chance.randrange(256), range(0x80)
        mad = struct.pack(">BBBBHHQHHI", 1, kind, chance.choice((1, 2)), chance.choice(methods), 0, 0,
                          chance.getrandbits(64), chance.choice(attributes), 0, chance.getrandbits(32))
        mad += chance.choice((bytes(232), chance.randbytes(232)))
        body = struct.pack(">II", GSI_QKEY, chance.choice((1, flow.peer))) + mad
        return {**self.base(flow, f.UD | f.SEND_ONLY, chance.getrandbits(24), body), "qpn": 1}

    def to_group(self, flow):
        """Returns a datagram to a group with members, sometimes with a wrong Q_Key or too long."""
        chance, group = self.chance, self.targets["group"]
        qkey = group["qkey"] ^ (chance.random() < 0.1)
        body = struct.pack(">II", qkey, flow.peer) + self.data(chance.choice((0, 8, 200, 200, 1024)))
        ends = {"version": 4, "destination": bytes.fromhex(group["address"]), "qpn": MULTICAST_QPN,
                "ether_to": bytes.fromhex(group["ether"]), "source": bytes.fromhex(self.targets["ends"]["4"]["source"])}
        return {**self.base(flow, f.UD | f.SEND_ONLY, chance.getrandbits(24), body), **ends}

    def step(self, flow):
        """Returns the opcode of a message's next packet and the message's length; sometimes a random opcode."""
        chance, mtu = self.chance, flow.mtu
        last = chance.choice((0, 1, 8, 255, mtu, chance.randrange(mtu)))
        if chance.random() < 0.03:
            return chance.choice(REQUESTS), last
        if flow.message is None:
            opcode = chance.choice(BEGIN_RELIABLE if flow.service == f.RC else BEGIN)
            if opcode in GO_ON:
                # The last packet has this length, so that the announced length is met.
                flow.message, flow.left = opcode, chance.randrange(4)
                return opcode, mtu * (flow.left + 1) + 256
            return opcode, chance.choice((last, 5000)) if opcode == f.READ else last
        flow.left -= 1
        if flow.left >= 0:
            return GO_ON[flow.message], mtu
        opcode, flow.message = chance.choice(END[flow.message]), None
        return opcode, 256

    def response(self, flow):
        """Returns a response to the victim's last request."""
        chance = self.chance
        psn, asked = flow.asked
        psn = psn + chance.choice((0, 0, 0, 1, -1, chance.randrange(64))) & 0xFFFFFF
        if asked == f.READ and chance.random() < 0.8:
            opcode = chance.choice((f.READ_FIRST, f.READ_MIDDLE, f.READ_LAST, f.READ_ONLY))
        elif asked in (f.SWAP, f.ADD, f.ATOMIC_WRITE):
            opcode = chance.choice((f.ATOMIC_ACK, f.ATOMIC_ACK, f.ACK))
        else:
            opcode = chance.choice((f.ACK, f.ACK, chance.choice(f.RESPONSES)))
        syndrome = chance.choice((f.ACKNOWLEDGED, f.ACKNOWLEDGED, f.OUT_OF_SEQUENCE, chance.randrange(256)))
        body = b""
        if opcode != f.READ_MIDDLE:
            body = struct.pack(">I", syndrome << 24 | chance.choice((1, chance.getrandbits(24))))
        if opcode == f.ATOMIC_ACK:
            body += chance.randbytes(8)
            return self.base(flow, opcode, psn, body)
        if opcode == f.ACK:
            return self.base(flow, opcode, psn, body)
        size = flow.mtu if opcode in (f.READ_FIRST, f.READ_MIDDLE) else chance.choice((600, chance.randrange(1025)))
        return self.base(flow, opcode, psn, body + self.data(size), size)

    def noise(self, flow):
        """Returns a random packet."""
        chance = self.chance
        body = chance.randbytes(chance.randrange(1300))
        fields = self.base(flow, chance.randrange(256), chance.getrandbits(24), body)
        fields["qpn"] = chance.choice((flow.qpn, 0, 1, 0xFFFFFF, chance.getrandbits(24)))
        if fields["qpn"] in self.targets["spared"]:
            fields["qpn"] = 0
        return fields

    # ---- changes: each in one header ------------------------------------------------------------

    def change_ether(self, fields):
        """Another sender, or a broadcast frame."""
        fields[self.chance.choice(("ether_from", "ether_to"))] = self.chance.choice(
            (b"\xff" * 6, b"\1\0\x5e\0\0\1", b"\2" + self.chance.randbytes(5)))

    def change_ip(self, fields):
        """A field of the IP header, with a correct checksum or not."""
        chance = self.chance
        name = chance.choice(("tos", "total", "ident", "fragment", "hops", "protocol", "sum", "flow", "options"))
        fields[name] = {
            "tos": lambda: chance.randrange(256), "total": lambda: chance.choice((-8, -4, -1, 1, 4, 1000)),
            "ident": lambda: chance.randrange(65536), "hops": lambda: chance.choice((0, 1, 255)),
            "fragment": lambda: chance.choice((0, 0x2000, 0x8000, 1, 0x1FFF)),
            "protocol": lambda: chance.choice((17, 17, 6, 136, chance.randrange(256))),
            "sum": lambda: chance.randrange(65536), "flow": lambda: chance.getrandbits(20),
            "options": lambda: b"\x01" * 4 * chance.choice((0, 1, 10)) if fields["version"] == 4 else b"",
        }[name]()

    def change_address(self, fields):
        """Another source or destination."""
        name = self.chance.choice(("source", "destination"))
        size = len(fields[name])
        fields[name] = self.chance.choice((fields["source"], fields["destination"], bytes(size), b"\xff" * size,
                                           fields[name][:-1] + b"\x63", self.chance.randbytes(size)))

    def change_udp(self, fields):
        """A field of the UDP header."""
        chance = self.chance
        name = chance.choice(("sport", "dport", "udp_length", "udp_sum"))
        fields[name] = {"sport": lambda: chance.randrange(65536), "dport": lambda: chance.choice((0, 4790, f.PORT)),
                        "udp_length": lambda: chance.choice((-12, -4, -1, 1, 4, 60000)),
                        "udp_sum": lambda: chance.randrange(65536)}[name]()

    def change_opcode(self, fields):
        """Another operation, of the same or another service."""
        chance = self.chance
        fields["opcode"] = chance.choice((fields["opcode"] & 0xE0 | chance.randrange(0x1F), chance.randrange(256),
                                          fields["opcode"] ^ chance.choice((f.UC, f.UD, 0x80))))

    def change_flags(self, fields):
        """Solicited, migration, pad count, version; or the reserved bits, or the AckReq bit."""
        name = self.chance.choice(("flags", "flags", "reserved", "ack"))
        fields[name] = self.chance.randrange(256)
        if name == "flags" and self.chance.random() < 0.7:
            fields[name] &= 0xF0

    def change_pkey(self, fields):
        """The P_Key."""
        fields["pkey"] = self.chance.choice((0, 0x7FFF, 0x8000, self.chance.randrange(65536)))

    def change_qpn(self, fields):
        """Another queue pair, perhaps of another service."""
        fields["qpn"] = self.chance.choice((self.chance.choice(self.flows).qpn, 0, 1, 0xFFFFFF))

    def change_psn(self, fields):
        """A PSN before or after, and on either side of half the range."""
        step = self.chance.choice((1, -1, 2, -2, 16, -16, -300, 0x7FFFFF, 0x800000, 0x800001,
                                   self.chance.getrandbits(24)))
        fields["psn"] = fields["psn"] + step & 0xFFFFFF

    def change_headers(self, fields):
        """A word behind the BTH: addresses, keys, lengths, syndromes."""
        chance, body = self.chance, fields["body"]
        if len(body) < 4:
            return
        at = chance.randrange(min(len(body), 32) // 4) * 4
        word = chance.choice((*ENDS, chance.getrandbits(32), chance.choice(self.targets["keys"])[2],
                              int.from_bytes(body[at:at + 4], "big") ^ 1 << chance.randrange(32)))
        fields["body"] = body[:at] + struct.pack(">I", word) + body[at + 4:]

    def change_length(self, fields):
        """Fewer bytes behind the headers than announced, or more, or none."""
        body, chance = fields["body"], self.chance
        fields["body"] = chance.choice((b"", body[:chance.randrange(len(body) + 1)], body[:-1], body[:-4],
                                        body + bytes(chance.choice((1, 4, 64))), body + bytes(1024)))[:3900]

    def change_cut(self, fields):
        """A frame that ends within a header."""
        if self.chance.random() < 0.3:
            fields["cut"] = self.chance.randrange(40)

    def change_icrc(self, fields):
        """A wrong ICRC."""
        if self.chance.random() < 0.5:
            fields["icrc"] = self.chance.randrange(1, 1 << 32)


def flood(attacker, wire, count):
    """Sends that many packets; returns the number sent, and the number of them with our sender address."""
    chance, done, ours, tried = attacker.chance, 0, 0, 0
    us = attacker.flows[0].ends["ether_from"]
    while done < count and tried < 2 * count + BATCH:
        attacker.listen(wire)
        frames = []
        while len(frames) < BATCH - 1:
            whole = f.build(attacker.packet())
            cut = chance.random()
            if cut < 0.01 and whole[14] == 0x45:
                frames += f.fragments(whole)
            else:
                frames.append(whole)
            if cut > 0.999:
                wire.send_burst(whole + chance.randbytes(4000), chance.choice((1, 64, 500, 1024 + 16, 1600)))
        refused = wire.send(frames)
        tried += len(frames)
        done += len(frames) - len(refused)
        ours += sum(frame[6:12] == us for at, frame in enumerate(frames) if at not in refused)
    return done, ours


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        targets = json.load(file)
    attacker, wire = Attacker(targets), Wire(targets["interface"])
    start = time.monotonic()
    done, ours = flood(attacker, wire, int(sys.argv[2]))
    seconds = time.monotonic() - start
    print(f"# seed {SEED}: {done} packets to {len(attacker.flows)} QPs in {seconds:.1f} s", flush=True)
    print(f"# the secret was received {attacker.leaks} times", flush=True)
    print(json.dumps({"done": done, "ours": ours}), flush=True)
    sys.exit(1 if attacker.leaks else 0)


if __name__ == "__main__":
    main()
