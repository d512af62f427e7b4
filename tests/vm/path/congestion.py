# SPDX-License-Identifier: GPL-2.0
"""ECN marks and CNPs, packet by packet: a peer sends frames and looks at those of the device.

	DEV over v0 ------ v1, in namespace b, where this program sends and receives frames
"""

import contextlib
import functools
import ipaddress
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from pyverbs.qp import QPAttr

import enums as e
import frame as f
from counters import counter
from netns import within_namespace
from rc import SLOWNESS, End, across
from tap import equal, run, true
from ud import gid_text
from verbs import RTS_MASK, rts_attr
from work import OK, SEND, WRITE, piece, status
from wire import ETH_ALL, PACKET_OUTGOING

DEV = os.environ["DEV"]
PEER, PSN = 0x2345, 0x1000
CNP, BECN = 0x81, 0x40
ECT_0, MARKED, ECN = 0b10, 0b11, 0b11
# Traffic class of CNPs: DSCP 48, and ECT(0).
CNP_CLASS = 48 << 2 | ECT_0
INTERVAL = 50e-6
# A frame passes the wire in far less time.
SETTLING = 0.05 * SLOWNESS


def mac(netdev):
    """The MAC address of an interface of this namespace."""
    return bytes.fromhex(Path(f"/sys/class/net/{netdev}/address").read_text(encoding="ascii").replace(":", ""))


class Peer:
    """The other end of the wire: the peer of a QP, in frames."""

    def __init__(self, end, version=4):
        with within_namespace("b"):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, ETH_ALL)
            self.socket.bind((os.environ["PEER_NETDEV"], ETH_ALL))
        self.socket.settimeout(SETTLING)
        family = "" if version == 4 else "6"
        self.end, self.common = end, {
            "version": version, "ether_to": mac(os.environ["NETDEV"]), "ether_from": self.socket.getsockname()[4],
            "source": ipaddress.ip_address(os.environ["PEER_ADDR" + family]).packed,
            "destination": ipaddress.ip_address(os.environ["ADDR" + family]).packed,
        }

    def send(self, **fields):
        """Sends one frame."""
        self.socket.send(f.build({**self.common, "qpn": self.end.qp.qp_num, **fields}))

    def write(self, psn, tos):
        """Sends an RDMA WRITE of no bytes, which asks for an acknowledgement."""
        va, key = self.end.remote()
        body = va.to_bytes(8, "big") + key.to_bytes(4, "big") + bytes(4)
        self.send(opcode=f.RC | f.WRITE_ONLY, psn=psn, tos=tos, ack=0x80, body=body)

    def cnp(self, **fields):
        """Sends a CNP as adapters do."""
        self.send(**{"opcode": CNP, "flags": 0, "reserved": BECN, "psn": 0, "sport": 0, "tos": CNP_CLASS, "ident": 0,
                     "body": bytes(16), **fields})

    def heard(self):
        """The packets of the device until it is silent."""
        found = []
        while True:
            try:
                data, origin = self.socket.recvfrom(1 << 16)
            except TimeoutError:
                return found
            fields = origin[2] != PACKET_OUTGOING and f.parse(data)
            if fields:
                fields.setdefault("tos", (data[14] & 0xF) << 4 | data[15] >> 4)
                found.append(fields)


@contextlib.contextmanager
def connected(version=4, service=e.IBV_QPT_RC, **settings):
    """A QP whose peer is made of frames. `tc`: its traffic class."""
    end = End(service=service)
    peer = os.environ["PEER_ADDR" if version == 4 else "PEER_ADDR6"]
    end.to_rts(PEER, dgid=gid_text(peer), gid=int(os.environ[f"GID{version}"]), rq_psn=PSN, **settings)
    try:
        yield end, Peer(end, version)
    finally:
        end.close()


def classes(version):
    """The traffic classes of the packets that a QP sends: a request, and an acknowledgement."""
    with connected(version, timeout=0) as (end, peer):
        end.send(SEND, pieces=piece(end, 64))
        peer.write(PSN, 0)
        heard = peer.heard()
    true({f.RC | f.SEND_ONLY, f.RC | f.ACK} <= {fields["opcode"] for fields in heard}, f"heard {heard}")
    return {fields["tos"] for fields in heard}


def capable():
    """Requests and acknowledgements say that their sender reacts to marks: ECT(0)"""
    equal([classes(4), classes(6)], [{ECT_0}] * 2, "traffic classes")


def not_capable():
    """Without DCQCN no packet says that its sender reacts to marks"""
    equal([classes(4), classes(6)], [{0}] * 2, "traffic classes")


def answered(version=4):
    """A marked packet causes a CNP to the queue pair that sent it, with the form that adapters use"""
    with connected(version) as (_, peer):
        before = [counter(name, DEV) for name in ("np_ecn_marked_roce_packets", "np_cnp_sent")]
        peer.write(PSN, MARKED)
        heard = peer.heard()
        after = [counter(name, DEV) for name in ("np_ecn_marked_roce_packets", "np_cnp_sent")]
    equal([new - old for new, old in zip(after, before)], [1, 1], "marked packets, and CNPs")
    [found] = [fields for fields in heard if fields["opcode"] == CNP]
    wanted = {"flags": 0, "reserved": BECN, "pkey": 0xFFFF, "qpn": PEER, "ack": 0, "psn": 0, "tos": CNP_CLASS}
    equal({name: found[name] for name in wanted}, wanted, "fields of the CNP")
    equal(found["body"][:-f.ICRC], bytes(16), "reserved bytes of the CNP")
    true(any(fields["opcode"] == f.RC | f.ACK for fields in heard), "the marked packet was not acknowledged")


def answered6():
    """The same over IPv6"""
    answered(6)


def unmarked():
    """Packets without a mark cause no CNP"""
    with connected() as (_, peer):
        for number, tos in enumerate((0, 1, ECT_0, 0x68)):
            peer.write(PSN + number, tos)
        equal([fields for fields in peer.heard() if fields["opcode"] == CNP], [])


def seldom():
    """Many marked packets cause at most one CNP in 50 us"""
    with connected() as (_, peer):
        start, count = time.monotonic(), 200
        for number in range(count):
            peer.write(PSN + number, MARKED)
        heard = peer.heard()
        elapsed = time.monotonic() - start
    found = sum(fields["opcode"] == CNP for fields in heard)
    print(f"# {found} CNPs for {count} marked packets in {elapsed * 1e6:.0f} us", flush=True)
    true(0 < found <= min(count, elapsed / INTERVAL + 1), f"{found} CNPs in {elapsed} s")


def damaged_mark():
    """A marked packet with a wrong ICRC causes no CNP"""
    with connected() as (end, peer):
        va, key = end.remote()
        body = va.to_bytes(8, "big") + key.to_bytes(4, "big") + bytes(4)
        peer.send(opcode=f.RC | f.WRITE_ONLY, psn=PSN, tos=MARKED, ack=0x80, body=body, icrc=1)
        equal(peer.heard(), [])


def not_answered():
    """A marked acknowledgement or CNP causes no CNP: the peer's data met no congestion"""
    names = "np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled"

    def marked():
        peer.send(opcode=f.RC | f.ACK, psn=PSN, tos=MARKED, body=bytes(4))
        peer.cnp(tos=MARKED)
    with connected(timeout=0, sq_psn=PSN) as (end, peer):
        end.send(SEND, pieces=piece(end, 64))
        peer.heard()
        equal(moves(names, marked), [2, 0, 1], "marked packets, and CNPs sent and handled")
        status(end, OK, "the acknowledged SEND")
        equal([fields for fields in peer.heard() if fields["opcode"] == CNP], [])


def too_early():
    """A CNP that comes before RTS does not slow down what is sent after it"""
    end = End()
    attr = end.attr(PEER, dgid=gid_text(os.environ["PEER_ADDR"]), gid=int(os.environ["GID4"]), rq_psn=PSN, timeout=0)
    end.qp.to_init(attr)
    end.qp.to_rtr(attr)
    peer = Peer(end)
    equal(moves(NAMES, peer.cnp), [1, 0, 0, 0], "counters")
    end.qp.modify(rts_attr(attr), RTS_MASK)
    end.send(SEND, pieces=piece(end, 64))
    peer.heard()
    equal(rate(end), None, "the rate")
    end.close()


def moves(names, act):
    """How far the counters move while `act` runs."""
    before = [counter(name, DEV) for name in names]
    act()
    time.sleep(SETTLING)
    return [counter(name, DEV) - old for name, old in zip(names, before)]


NAMES = ("rp_cnp_handled", "rx_wrong_source", "rx_bad_icrc", "rx_congestion_notification")


def handled():
    """A CNP of the peer is handled, on RC and UC"""
    for service in (e.IBV_QPT_RC, e.IBV_QPT_UC):
        with connected(service=service) as (_, peer):
            equal(moves(NAMES, peer.cnp), [1, 0, 0, 0], f"counters of service {service}")
            odd = {"reserved": 0, "flags": 0x40, "psn": 77, "tos": 0}
            equal(moves(NAMES, functools.partial(peer.cnp, **odd)), [1, 0, 0, 0], "fields that do not matter")


def rate(end):
    """The rate of a queue pair in Mbit/s that `rdma resource` shows, if any."""
    shown = subprocess.run(["rdma", "-dd", "resource", "show", "qp", "link", DEV, "lqpn", str(end.qp.qp_num)],
                           check=True, capture_output=True, text=True).stdout
    true("cwnd" in shown, f"shown: {shown}")
    found = re.search(r"rate_mbit_s (\d+)", shown)
    return found and int(found[1])


def shown():
    """The rate of a queue pair that a CNP has slowed down is shown: half of that of the port"""
    with connected() as (end, peer):
        equal(rate(end), None, "the rate before")
        moves(NAMES, peer.cnp)
        found = rate(end)
    port = Path(f"/sys/class/infiniband/{DEV}/ports/1/rate").read_text(encoding="ascii")
    # That of the port is rounded.
    true(found and 0.45 < found / 1000 / float(port.split()[0]) < 0.55, f"rate of {found} Mbit/s, port: {port}")


def not_handled():
    """Without DCQCN a CNP is dropped, and counted as that"""
    with connected() as (_, peer):
        equal(moves(NAMES, peer.cnp), [0, 0, 0, 1])


def forged():
    """A CNP of a stranger, or with a wrong ICRC, is dropped"""
    with connected() as (_, peer):
        stranger = ipaddress.ip_address("10.0.0.77").packed
        equal(moves(NAMES, lambda: peer.cnp(source=stranger)), [0, 1, 0, 0], "a stranger")
        equal(moves(NAMES, lambda: peer.cnp(icrc=1)), [0, 0, 1, 0], "a wrong ICRC")


def datagram():
    """A CNP to a datagram queue pair is dropped"""
    end = End(service=e.IBV_QPT_UD)
    attr = QPAttr(port_num=1)
    attr.qkey = 1
    end.qp.to_rts(attr)
    equal(moves(NAMES, lambda: Peer(end).cnp()), [0, 0, 0, 1])
    end.close()


def flooded():
    """The real peer's CNPs, as fast as a host sends them, slow a connection down and do not stop it"""
    length, count = 1 << 16, 4
    with across({"size": length}, {"size": length}, timeout=18) as (here, there):
        forger = Peer(here)
        start, cnps = time.monotonic(), 0
        for _ in range(count):
            here.send(WRITE, pieces=[here.sge(0, length)], remote=there.remote())
            found = []
            while not found and time.monotonic() < start + 60 * SLOWNESS:
                forger.cnp()
                cnps += 1
                found = here.cq.poll(1)[1]
            equal([wc.status for wc in found], [OK], "status of a WRITE under a flood of CNPs")
        flooded_time = time.monotonic() - start
        start = time.monotonic()
        while time.monotonic() < start + 0.5:
            here.send(WRITE, pieces=[here.sge(0, length)], remote=there.remote())
            status(here, OK, "a WRITE after the flood")
        start = time.monotonic()
        for _ in range(count):
            here.send(WRITE, pieces=[here.sge(0, length)], remote=there.remote())
            status(here, OK, "a WRITE after the flood")
        calm = time.monotonic() - start
    print(f"# {cnps} CNPs: {count * length * 8e-6 / flooded_time:.1f} Mbit/s; afterwards "
          f"{count * length * 8e-6 / calm:.1f} Mbit/s", flush=True)
    # The lowest rate is 10 Mbit/s; a slow host is given twice the time.
    true(flooded_time < 2 * SLOWNESS * count * length * 8 / 10e6 + 1, f"{flooded_time} s for {count} WRITEs")


if __name__ == "__main__":
    ON = (capable, answered, answered6, unmarked, seldom, damaged_mark, not_answered, handled, shown, too_early, forged,
          datagram, flooded)
    run(ON + (not_capable, not_handled) if sys.argv[1:] else ON)
