# SPDX-License-Identifier: GPL-2.0
"""Headers of sent packets: VLAN tag, IP header and UDP port follow the address vector.

The test reads packets from a raw socket in the peer's namespace.
"""

import os
import socket
import struct
import subprocess
import time

from pyverbs.addr import AH, AHAttr, GID, GlobalRoute

import enums as e
from netns import within_namespace
from rc import End, FULL_ACCESS, PORT
from tap import Skip, equal, not_for_rxe, run, true
from ud import QKEY, UdEnd, gid_text

ROCE = 4791
AUXDATA, SOL_PACKET = 8, 263
TAGGED = 1 << 4
VLAN = 5
HERE, THERE = ("10.0.55.1", "fd55::1"), ("10.0.55.2", "fd55::2")


class Tap:
    """Reads RoCE packets from the peer's interface."""

    def __init__(self):
        with within_namespace("b"):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self.socket.bind((os.environ["PEER_NETDEV"], 3))
            self.socket.setsockopt(SOL_PACKET, AUXDATA, 1)

    def packet(self, seconds=10):
        """The next RoCE packet, as a dictionary of its fields."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.socket.settimeout(max(end - time.monotonic(), 0.01))
            data, extra, _, _ = self.socket.recvmsg(4096, 256)
            found = parse(data, extra)
            if found:
                return found
        raise AssertionError("no RoCE packet")

    def close(self):
        """Closes the socket."""
        self.socket.close()


def parse(data, extra):
    """The fields of an Ethernet frame if it is a RoCE packet, or None."""
    tag = None
    for level, kind, aux in extra:
        if (level, kind) == (SOL_PACKET, AUXDATA):
            status, _, _, _, _, tci = struct.unpack_from("=IIIHHH", aux)
            tag = tci if status & TAGGED else None
    at, ethertype = 14, struct.unpack_from("!H", data, 12)[0]
    if ethertype == 0x8100:
        tag, ethertype = struct.unpack_from("!HH", data, 14)
        at = 18
    found = {"dmac": data[:6].hex(":"), "vlan": None if tag is None else tag & 0xFFF,
             "pcp": None if tag is None else tag >> 13}
    if ethertype == 0x0800 and data[at + 9] == 17:
        found.update(family=4, traffic_class=data[at + 1], hop_limit=data[at + 8], flow_label=0)
        at += 20
    elif ethertype == 0x86DD and data[at + 6] == 17:
        word = struct.unpack_from("!I", data, at)[0]
        found.update(family=6, traffic_class=word >> 20 & 0xFF, flow_label=word & 0xFFFFF, hop_limit=data[at + 7])
        at += 40
    else:
        return None
    found["sport"], port = struct.unpack_from("!HH", data, at)
    return found if port == ROCE else None


def udp_port(flow_label):
    """The UDP source port of a flow label: its halves, folded into the dynamic range."""
    return 0xC000 | (flow_label & 0x3FFF) ^ (flow_label >> 14)


def default_label(number, peer):
    """The default flow label, derived from two QPNs."""
    product = number * peer
    product ^= product >> 20
    product ^= product >> 40
    return product & 0xFFFFF


def gid_of(address):
    """Index of the GID of an address."""
    wanted = gid_text(address)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        for index in range(10):
            path = f"/sys/class/infiniband/{os.environ['DEV']}/ports/1/gids/{index}"
            try:
                with open(path, encoding="ascii") as file:
                    if file.read().strip() == wanted:
                        return index
            except OSError:
                pass
        time.sleep(0.05)
    raise AssertionError(f"no GID for {address}")


def send_datagram(to, gid, qpn=0x2345, sl=0, **route):
    """A datagram as it arrives at the peer's interface, and the QPN of its sender."""
    tap, end = Tap(), UdEnd()
    path = GlobalRoute(dgid=GID(gid_text(to)), sgid_index=gid, **{"hop_limit": 64, **route})
    with AH(end.pd, attr=AHAttr(gr=path, is_global=1, port_num=PORT, sl=sl)) as handle:
        equal(end.send(handle, qpn=qpn, qkey=QKEY), e.IBV_WC_SUCCESS, "send")
    found = tap.packet()
    tap.close()
    number = end.qp.qp_num
    end.close()
    return found, number


def send_connected(to, gid, qpn=0x2345, sl=0, **route):
    """The same for RC; the peer does not respond."""
    tap, end = Tap(), End()
    attr = end.attr(qpn, timeout=10, retry_cnt=0)
    path = GlobalRoute(dgid=GID(gid_text(to)), sgid_index=gid, **{"hop_limit": 64, **route})
    attr.ah_attr = AHAttr(gr=path, is_global=1, port_num=PORT, sl=sl)
    attr.qp_access_flags = FULL_ACCESS
    end.qp.to_rts(attr)
    end.send(e.IBV_WR_SEND, pieces=[end.sge(0, 8)])
    found = tap.packet()
    tap.close()
    end.completion(20)
    number = end.qp.qp_num
    end.close()
    return found, number


def both(to, gid, **settings):
    """A packet of each service."""
    for name, send in (("UD", send_datagram), ("RC", send_connected)):
        yield name, *send(to, gid, **settings)


def ecn(name):
    """The ECN field of packets: connected queue pairs react to marks, and say so; ECT(0)."""
    return 2 if name == "RC" and os.environ["DRIVER"] == "ferroce" else 0


def plain():
    """By default packets have the path's hop limit, DSCP 0, no tag, and a port derived from the QPNs"""
    for family in (4, 6):
        to = os.environ["PEER_ADDR" if family == 4 else "PEER_ADDR6"]
        for name, found, number in both(to, int(os.environ[f"GID{family}"])):
            equal((found["family"], found["traffic_class"], found["vlan"]), (family, ecn(name), None), name)
            equal(found["sport"], udp_port(default_label(number, 0x2345)), f"{name}: UDP source port")
            true(found["hop_limit"] > 0, f"{name}: hop limit {found['hop_limit']}")


def traffic_class():
    """The traffic class becomes the DSCP of IPv4 and IPv6"""
    for family in (4, 6):
        to = os.environ["PEER_ADDR" if family == 4 else "PEER_ADDR6"]
        for name, found, _ in both(to, int(os.environ[f"GID{family}"]), traffic_class=0xB8):
            equal(found["traffic_class"], 0xB8 | ecn(name), f"{name} over IPv{family}")


def flow_label():
    """The flow label appears in the IPv6 header and selects the UDP source port"""
    not_for_rxe("sends no flow label")
    for family in (4, 6):
        to = os.environ["PEER_ADDR" if family == 4 else "PEER_ADDR6"]
        for name, found, _ in both(to, int(os.environ[f"GID{family}"]), flow_label=0xABCDE):
            equal(found["sport"], udp_port(0xABCDE), f"{name} over IPv{family}: port")
            if family == 6:
                equal(found["flow_label"], 0xABCDE, name)


def ip(*words, where=None):
    """Runs the ip program."""
    subprocess.run(["ip", *(["-n", where] if where else []), *words], check=True)


def vlan():
    """Packets from the GID of a VLAN carry its tag and the priority mapped from SL or traffic class"""
    not_for_rxe("sets no priority")
    if subprocess.run(["modprobe", "8021q"], check=False).returncode:
        raise Skip("no 8021q in this kernel")
    for netdev, where, addresses in ((os.environ["NETDEV"], None, HERE), (os.environ["PEER_NETDEV"], "b", THERE)):
        name = f"{netdev}.{VLAN}"
        ip("link", "add", "link", netdev, "name", name, "type", "vlan", "id", str(VLAN),
           "egress-qos-map", "0:0", "3:6", "4:2", where=where)
        for address, length in zip(addresses, (24, 64)):
            ip("addr", "add", f"{address}/{length}", "dev", name, *(["nodad"] if length == 64 else []), where=where)
        ip("link", "set", name, "up", where=where)
    for here, there in zip(HERE, THERE):
        gid = gid_of(here)
        for name, found, _ in both(there, gid):
            equal((found["vlan"], found["pcp"]), (VLAN, 0), f"{name} to {there}")
        for name, found, _ in both(there, gid, sl=3):
            equal((found["vlan"], found["pcp"]), (VLAN, 6), f"{name} to {there} with SL 3")
        # The kernel's table maps class 0x18 to priority 4, "interactive bulk".
        for name, found, _ in both(there, gid, traffic_class=0x18):
            equal((found["vlan"], found["pcp"]), (VLAN, 2), f"{name} to {there} with class 0x18")


if __name__ == "__main__":
    run([plain, traffic_class, flow_label, vlan])
