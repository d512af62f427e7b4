# SPDX-License-Identifier: GPL-2.0
"""RoCE that a host with a device forwards: senders x ways x what the egress takes.

The ways and the namespaces are those of 38-foreign.sh, which sets up all but the ways themselves.
"""

import ipaddress
import os
import random
import select
import socket
import subprocess
import time
from pathlib import Path

from pyverbs.device import Context
from pyverbs.wr import SendWR

import enums as e
import features
import frame as f
from netns import within_namespace
from rc import SLOWNESS, End
from tap import Skip, equal, run, true
from ud import gid_text
from work import fill, pattern

NETDEV, PEER_NETDEV = os.environ["NETDEV"], os.environ["PEER_NETDEV"]
ROUTER = bytes.fromhex(Path(f"/sys/class/net/{NETDEV}/address").read_text(encoding="ascii").replace(":", ""))
DSCP, HOPS = 26, 64
# Features of an egress that takes super-packets in lists.
LISTS = ("tx-gso-list", "tx-udp_tnl-segmentation")
# How long GRO waits for packets, in ns: longer than it takes to send them.
PATIENCE = 200_000_000
# A message of several packets, and one packet each in a list of requests.
LONG, SHORT, SHORTS, MTU = 8192, 64, 8, 1024
# How often each way carries wrong frames, at least.
ROUNDS = 2
PSN, NOBODY = 0x1000, 0x1234
# How long packets may take, and how long no more may come once all have: the last wait in GRO.
SETTLING, AFTER = 0.4 * SLOWNESS, 1.5e-9 * PATIENCE
V4, V6 = "10.9.0.2", "fd09::2"


def shell(*lines):
    """Runs command lines, which must succeed: one process runs all, where they are of `ip` alone."""
    if all(line.startswith("ip ") and not set(line) & set("-;&|") for line in lines):
        command, text = ["ip", "-batch", "-"], "\n".join(line.removeprefix("ip ") for line in lines)
    else:
        command, text = ["sh", "-ec", "\n".join(lines)], ""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    true(done.returncode == 0, f"{lines}: {done.stderr.strip()}")


def mac(netdev, space):
    """The MAC address of an interface in another namespace."""
    with packet_socket(netdev, space) as opened:
        return opened.getsockname()[4]


def packet_socket(netdev, space, protocol=0):
    """A packet socket of an interface in another namespace."""
    with within_namespace(space):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
        made.bind((netdev, protocol))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    return made


def inner(frame):
    """The IP header, and what follows it, of the RoCE packet in a frame, however deep; None if there is none."""
    at = frame.find(b"\x12\xb7", 14)
    while at >= 0:
        udp = at - 2
        length = int.from_bytes(frame[at + 2:at + 4], "big")
        for size, first in ((20, 4), (40, 6)):
            ip = frame[udp - size:udp]
            if udp >= size and ip[0] >> 4 == first and ip[9 if first == 4 else 6] == f.UDP_PROTOCOL:
                total = ip[2:4] if first == 4 else ip[4:6]
                if int.from_bytes(total, "big") == length + (20 if first == 4 else 0):
                    return ip, frame[udp:udp + length]
        at = frame.find(b"\x12\xb7", at + 1)
    return None


def hops_and_dscp(ip):
    """TTL or hop limit, and DSCP; an IPv4 header must have the right checksum."""
    if ip[0] >> 4 == 6:
        return ip[7], (ip[0] & 15) << 2 | ip[1] >> 6
    equal(f.internet_sum(int.from_bytes(ip[i:i + 2], "big") for i in range(0, 20, 2)), 0, "checksum of the IP header")
    return ip[8], ip[1] >> 2


def seen(capture, wanted):
    """All RoCE packets that were captured, as (IP header, rest). So many should come; more would be seen as well."""
    found, end = [], time.monotonic() + SETTLING
    while select.select([capture], [], [], max(0, end - time.monotonic()))[0]:
        frame, address = capture.recvfrom(70000)
        # What the end itself sends are errors that quote a packet.
        packet = inner(frame) if address[2] != socket.PACKET_OUTGOING else None
        if packet:
            found.append(packet)
            if len(found) == wanted:
                end = time.monotonic() + AFTER
    return found


# ---- senders ---------------------------------------------------------------------------------


class Raw:
    """Frames as an adapter sends them: no UDP checksum, one IPv4 identification."""

    name, packets = "frames of an adapter", 8

    def __init__(self, way):
        self.way = way
        self.socket = packet_socket(*way.get("from", (PEER_NETDEV, "b")))
        self.sent = []

    def send(self):
        """Sends the packets of a WRITE, all but the last in one burst."""
        version = ipaddress.ip_address(self.way["to"]).version
        source = os.environ["PEER_ADDR6" if version == 6 else "PEER_ADDR"]
        for number in range(self.packets):
            opcode = f.WRITE_FIRST if number == 0 else f.WRITE_LAST if number == 7 else f.WRITE_MIDDLE
            frame = f.build({
                "version": version, "ether_to": self.way.get("mac") or ROUTER, "ident": 0, "qpn": NOBODY,
                "ether_from": self.socket.getsockname()[4], "source": ipaddress.ip_address(source).packed,
                "destination": ipaddress.ip_address(self.way["to"]).packed, "psn": PSN + number,
                "ack": 0, "opcode": f.RC | opcode, "body": (bytes(16) if number == 0 else b"") + bytes([number]) * MTU})
            tag = self.way.get("tag", b"")
            self.sent.append(frame[34 if version == 4 else 54:])
            self.socket.send(frame[:12] + tag + frame[12:])

    def check(self, found, times, _whole):
        """Each packet arrives, byte for byte."""
        equal(len(found), len(self.sent) * times, "packets")
        true(sorted(rest for _, rest in found) == sorted(self.sent * times), "other bytes arrive")

    def close(self):
        """Ends the sender."""
        self.socket.close()


class Device:
    """A QP of a device in another namespace, whose peer does not answer."""

    packets = LONG // MTU + SHORTS

    def __init__(self, way, device, gids):
        version = ipaddress.ip_address(way["to"]).version
        self.end = End(Context(name=device))
        self.end.to_rts(NOBODY, gid=int(gids[version == 6]), dgid=gid_text(way["to"]), sq_psn=PSN, timeout=0)
        self.data = pattern(LONG, 3)
        fill(self.end, self.data)

    def send(self):
        """Posts a long WRITE and short ones with one doorbell."""
        # pyverbs does not keep what follows.
        following, kept = None, []
        for number in range(SHORTS, -1, -1):
            length = SHORT if number else LONG
            request = SendWR(wr_id=number, num_sge=1, sg=[self.end.sge(0, length)], opcode=e.IBV_WR_RDMA_WRITE,
                             send_flags=0, **({"next_wr": following} if following else {}))
            request.set_wr_rdma(1, 0)
            following = request
            kept.append(request)
        self.end.qp.post_send(following)

    def check(self, found, times, whole):
        """All packets arrive, each with the right ICRC, and the bytes that were sent."""
        if whole:
            return
        packets = {}
        for ip, rest in found:
            equal(f.icrc(ip, rest[:8], rest[8:-4]), rest[-4:], "ICRC")
            psn = int.from_bytes(rest[17:20], "big")
            skip = 20 + (16 if rest[8] & 31 in (f.WRITE_FIRST, f.WRITE_ONLY) else 0)
            packets.setdefault(psn, []).append(rest[skip:-4])
        equal(sorted(packets), list(range(PSN, PSN + self.packets)), "PSNs")
        true(all(len(set(copies)) == 1 and len(copies) == times for copies in packets.values()), "copies differ")
        data = b"".join(packets[psn][0] for psn in sorted(packets))
        true(data == self.data + self.data[:SHORT] * SHORTS, "other bytes arrive")

    def close(self):
        """Ends the sender."""
        self.end.close()


class Rxe(Device):
    """A device of rdma_rxe."""

    name = "rdma_rxe"

    def __init__(self, way):
        if not os.environ["RXE"]:
            raise Skip("no rdma_rxe")
        super().__init__(way, "rxe9", os.environ["RXE"].split())


class Own(Device):
    """A device of the driver under test."""

    name = "the driver"

    def __init__(self, way):
        super().__init__(way, os.environ["PEER_DEV"], (os.environ["PEER_GID4"], os.environ["PEER_GID6"]))


# ---- ways ------------------------------------------------------------------------------------

# `up` makes the way, and `down` removes it. `to`: the destination. `routed`: the router writes TTL and DSCP.
# `times`: copies of each packet.
# `raw`: for raw frames only. `singly`: it drops super-packets (38-singly).
TUNNELS = {
    "ipip": ("ipip local 10.70.0.1 remote 10.70.0.2", V4),
    "gre": ("gre local 10.70.0.1 remote 10.70.0.2", V4),
    "sit": ("sit local 10.70.0.1 remote 10.70.0.2", V6),
    "ip6tnl": ("ip6tnl mode any local fd70::1 remote fd70::2", V4),
    "IPv6 in ip6tnl": ("ip6tnl mode any local fd70::1 remote fd70::2", V6),
    "ip6gre": ("ip6gre local fd70::1 remote fd70::2", V6),
    "vxlan": ("vxlan id 7 local 10.70.0.1 remote 10.70.0.2 dstport 4789", V4),
    "vxlan over IPv6": ("vxlan id 7 local fd70::1 remote fd70::2 dstport 4789", V4),
    "gretap": ("gretap local 10.70.0.1 remote 10.70.0.2", V4),
}
OPTIONS = "4081:1:" + "00" * 64
NEIGHBOUR = "ip neigh replace {to} lladdr 02:00:00:00:00:09 dev {dev}"


def tunnel(kind, to):
    """A tunnel device."""
    up = [f"ip link add t0 type {kind}", "ip link set t0 mtu 2000 up", f"ip route replace {to} dev t0 mtu 1200"]
    if "tap" in kind or "vxlan" in kind:
        up.append(NEIGHBOUR.format(to=to, dev="t0"))
    return {"to": to, "routed": 1, "up": up, "down": "ip link del t0"}


def tagged(*kinds):
    """VLANs on top of each other, whose tags are in the packets."""
    up, below = ["ethtool -K p0 txvlan off tx-vlan-stag-hw-insert off"], "p0"
    for number, kind in enumerate(kinds):
        up += [f"ip link add link {below} name t{number} type vlan id {5 + number} protocol {kind}",
               f"ip link set t{number} up"]
        below = f"t{number}"
    return {"to": V4, "routed": 1, "up": [*up, f"ip route replace {V4} dev {below}",
                                          NEIGHBOUR.format(to=V4, dev=below)],
            "down": "ip link del t0; ethtool -K p0 txvlan on"}


def ways():
    """All ways by name; those without routing carry raw frames only."""
    found = {"router": {"to": V4, "routed": 1, "up": [f"ip route replace {V4} via 10.70.0.2"]},
             "router, IPv6": {"to": V6, "routed": 1, "up": [f"ip route replace {V6} via fd70::2"]}}
    for name, (kind, to) in TUNNELS.items():
        found[name] = tunnel(kind, to)
    found["geneve with options"] = {
        "to": V4, "routed": 1, "down": "ip link del t0",
        "up": ["ip link add t0 type geneve external", "ip link set t0 mtu 2000 up",
               f"ip route replace {V4} encap ip id 7 dst 10.70.0.2 geneve_opts {OPTIONS} dev t0",
               NEIGHBOUR.format(to=V4, dev="t0")]}
    # The kernel encapsulates before it forwards.
    found["seg6"] = {"to": V6, "singly": 1, "up": [
        f"ip route replace {V6} encap seg6 mode encap segs fd70::2,fd70::3,fd70::2 via fd70::2 dev p0"]}
    found["mpls"] = {"to": V4, "routed": 1, "singly": 1, "up": [
        "modprobe mpls_router", "modprobe mpls_iptunnel",
        f"ip route replace {V4} encap mpls 100 via inet 10.70.0.2 dev p0"]}
    found["vlan in band"] = tagged("802.1q")
    found["QinQ in band"] = tagged("802.1ad", "802.1q")
    found["netem duplicate"] = {
        "to": V4, "routed": 1, "times": 2, "down": "tc qdisc del dev p0 root",
        "up": [f"ip route replace {V4} via 10.70.0.2", "tc qdisc add dev p0 root netem duplicate 100%"]}
    found["from a vlan in band"] = {
        "to": V4, "routed": 1, "raw": 1, "tag": bytes.fromhex("81000064"), "down": "ip link del w0",
        "up": [f"ethtool -K {NETDEV} rxvlan off", f"ip link add link {NETDEV} name w0 type vlan id 100",
               "ip link set w0 up; sysctl -qw net.ipv4.conf.w0.rp_filter=0", f"ip route replace {V4} via 10.70.0.2"]}
    mirror = "tc qdisc add dev {0} clsact && tc filter add dev {0} ingress matchall action mirred egress mirror dev {1}"
    found["mirrored"] = {"to": os.environ["ADDR"], "raw": 1, "up": [mirror.format(NETDEV, "p0")],
                         "down": f"tc qdisc del dev {NETDEV} clsact"}
    found["mirrored into gretap"] = {
        "to": os.environ["ADDR"], "raw": 1, "up": [*tunnel("gretap local 10.70.0.1 remote 10.70.0.2", V4)["up"],
                                                   mirror.format(NETDEV, "t0")],
        "down": f"tc qdisc del dev {NETDEV} clsact; ip link del t0"}
    found["macvlan"] = {
        "to": "10.0.0.9", "raw": 1, "up": [f"ip link add m0 link {NETDEV} netns c type macvlan mode bridge",
                                           "ip -n c link set m0 up"],
        "capture": "m0", "down": "ip -n c link del m0"}
    found["bridge"] = {
        "to": os.environ["ADDR"], "raw": 1, "from": ("y1", "b"), "capture": "z1",
        "down": "ip link del br0; ip link del y0; ip link del z0",
        "up": ["ip link add br0 mtu 4200 type bridge",
               "ip link add y0 type veth peer name y1 netns b; ip link add z0 type veth peer name z1 netns c",
               "for p in y0 z0; do ip link set $p mtu 4200 master br0 up; ethtool -K $p gro on; done",
               "ip -n b link set y1 mtu 4200 up; ip -n c link set z1 mtu 4200 up; ip link set br0 up",
               "ip netns exec b ethtool -K y1 tso off tx-gso-list off tx-udp_tnl-segmentation off"]}
    return found


class Laid:
    """The way that is there. It stays for the next test, unless a test fails."""

    def __init__(self):
        self.name = self.down = None

    def lay(self, name, way):
        """Makes a way, if it is not there."""
        if self.name != name:
            self.clear()
            self.down = way.get("down")
            shell(*way["up"])
            self.name = name

    def clear(self):
        """Removes the way. Part of it may be missing."""
        if self.down:
            subprocess.run(self.down, shell=True, check=False, capture_output=True)
        self.name = self.down = None


laid = Laid()


def one(name, way, sender, takes):
    """Sends over a way, and checks what arrives."""
    try:
        laid.lay(name, way)
    except AssertionError as missing:
        raise Skip(f"this kernel has no {name}: {missing}") from missing
    if name in ("macvlan", "bridge"):
        way = {**way, "mac": mac(way["capture"], "c")}
    capture = packet_socket(way.get("capture", "p1"), "c", 3)
    source = sender(way)
    try:
        source.send()
        found = seen(capture, source.packets * way.get("times", 1))
        source.check(found, way.get("times", 1), takes)
        true(found, "nothing arrives")
        wanted = {(HOPS - 1, DSCP) if way.get("routed") else (HOPS, 0)}
        equal({hops_and_dscp(ip) for ip, _ in found}, wanted, "TTL and DSCP")
    finally:
        source.close()
        capture.close()


def case(name, way, sender, takes):
    """A test of one way, one sender and one kind of egress."""
    def test():
        features.switch("p0", LISTS, takes == "on")
        # A veth receives by GRO what comes from one that segments nothing.
        features.switch(PEER_NETDEV, (*LISTS, features.TSO), sender is not Raw, "b")
        try:
            one(name, way, sender, takes == "on" and sender is Own)
        except BaseException:
            laid.clear()
            raise

    test.__name__ = name.replace(" ", "_")
    test.__doc__ = f"{name}, {sender.name}, an egress that takes {'' if takes == 'on' else 'no '}lists"
    return test


def cases():
    """The whole matrix."""
    found = []
    for name, way in ways().items():
        for sender in (Raw, Rxe, Own):
            if sender is Raw or not way.get("raw"):
                if not (sender is Own and way.get("singly")):
                    found += [case(name, way, sender, takes) for takes in ("off", "on")]
    return found


# ---- bad input -------------------------------------------------------------------------------


def mutated(chance, to):
    """A frame to the router that is almost right."""
    version = ipaddress.ip_address(to).version
    fields = {"version": version, "ether_to": ROUTER, "ident": chance.choice((0, chance.getrandbits(16))),
              "source": ipaddress.ip_address(os.environ["PEER_ADDR6" if version == 6 else "PEER_ADDR"]).packed,
              "destination": ipaddress.ip_address(to).packed, "qpn": NOBODY, "psn": chance.getrandbits(24),
              "opcode": chance.choice((f.WRITE_FIRST, f.WRITE_MIDDLE, f.WRITE_LAST, chance.getrandbits(8))),
              "body": bytes(chance.choice((0, 1, 16, 1024, 4096)))}
    wrong = {"total": lambda: chance.randint(-30, 30), "udp_length": lambda: chance.randint(-9000, 9000),
             "udp_sum": lambda: chance.getrandbits(16), "sum": lambda: chance.getrandbits(16),
             "icrc": lambda: chance.getrandbits(32), "hops": lambda: chance.choice((0, 1, 2, 255)),
             "fragment": lambda: chance.getrandbits(16), "protocol": lambda: chance.getrandbits(8),
             "cut": lambda: chance.randint(0, 40), "tos": lambda: chance.getrandbits(8)}
    if version == 4:
        wrong["options"] = lambda: bytes(chance.choice((0x00, 0x01, 0x07, 0x44, 0x83, 0xFF))
                                         for _ in range(4 * chance.randint(1, 10)))
    for name in chance.sample(sorted(wrong), chance.choice((0, 1, 1, 2))):
        fields[name] = wrong[name]()
    return f.build(fields)


def send_wrong(chance, source, way):
    """Sends one such frame to a way or to the router itself, sometimes in fragments."""
    made = mutated(chance, chance.choice((way["to"], way["to"], os.environ["ADDR"])))
    pieces = f.fragments(made) if made[12:15] == b"\x08\0\x45" and chance.random() < 0.1 else [made]
    for piece in pieces:
        try:
            source.send(piece)
        except OSError:
            pass


def almost():
    """Frames that are almost right, through each way: nothing but counters"""
    chance = random.Random(os.environ.get("SEED", "4791"))
    end = time.monotonic() + int(os.environ.get("BAD_SECONDS", "0"))
    usable = [(name, way) for name, way in ways().items() if not way.get("raw")]
    rounds = 0
    with packet_socket(PEER_NETDEV, "b") as source:
        while rounds < ROUNDS or time.monotonic() < end:
            rounds += 1
            for name, way in chance.sample(usable, len(usable)):
                try:
                    laid.lay(name, way)
                except AssertionError:
                    continue
                for _ in range(200):
                    send_wrong(chance, source, way)
                laid.clear()


def setup():
    """The sender does not take lists, so that the router gets single frames; and GRO waits for more of them."""
    shell("nft 'add table inet t; add chain inet t f { type filter hook forward priority 0; }; "
          f"add rule inet t f udp dport 4791 ip dscp set {DSCP}; add rule inet t f udp dport 4791 ip6 dscp set {DSCP}'")
    for netdev in (NETDEV, "x0"):
        Path(f"/sys/class/net/{netdev}/gro_flush_timeout").write_text(str(PATIENCE), encoding="ascii")


setup()
run(cases(), [almost])
