# SPDX-License-Identifier: GPL-2.0
"""Which packets GRO joins: a peer sends the packets of one WRITE one by one, and GRO waits for more of them.

	DEV over v0 ------ v1, in namespace b, where this program sends frames
"""

import contextlib
import ipaddress
import os
import socket
import time
from pathlib import Path

import frame as f
from counters import counter
from netns import within_namespace
from rc import SLOWNESS, End
from tap import equal, run, true
from ud import gid_text
from work import fill, held, pattern

DEV = os.environ["DEV"]
PEER, PSN, MTU, PACKETS = 0x2345, 0x1000, 1024, 6
# How long GRO waits for packets, in ns: longer than it takes to send them.
WAIT = 300_000_000
ACK_REQUEST, NONE = 0x80, 0
# Packets are counted when the run that has placed their payload ends.
SETTLING = 0.05 * SLOWNESS
OPCODES = [f.WRITE_FIRST] + [f.WRITE_MIDDLE] * (PACKETS - 2) + [f.WRITE_LAST]


def address(netdev):
    """The MAC address of an interface of this namespace."""
    return bytes.fromhex(Path(f"/sys/class/net/{netdev}/address").read_text(encoding="ascii").replace(":", ""))


@contextlib.contextmanager
def patient():
    """Has GRO wait."""
    wait = Path(f"/sys/class/net/{os.environ['NETDEV']}/gro_flush_timeout")
    wait.write_text(str(WAIT), encoding="ascii")
    try:
        yield
    finally:
        wait.write_text("0", encoding="ascii")


class Sender:
    """Sends the packets of one WRITE to an end."""

    def __init__(self, end, version):
        self.to_here = address(os.environ["NETDEV"])
        with within_namespace("b"):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.socket.bind((os.environ["PEER_NETDEV"], 0))
        self.from_there = self.socket.getsockname()[4]
        self.end, self.data = end, pattern(PACKETS * MTU, 5)
        family = "" if version == 4 else "6"
        self.common = {
            "version": version, "ether_to": self.to_here, "ether_from": self.from_there, "qpn": end.qp.qp_num,
            "source": ipaddress.ip_address(os.environ["PEER_ADDR" + family]).packed,
            "destination": ipaddress.ip_address(os.environ["ADDR" + family]).packed,
        }

    def send(self, change):
        """Sends all packets, with the fields that `change` returns for the number of a packet."""
        va, key = self.end.remote()
        for number, opcode in enumerate(OPCODES):
            body = self.data[number * MTU:][:MTU]
            if number == 0:
                body = va.to_bytes(8, "big") + key.to_bytes(4, "big") + len(self.data).to_bytes(4, "big") + body
            last = number == PACKETS - 1
            fields = {"opcode": f.RC | opcode, "psn": PSN + number, "ack": ACK_REQUEST if last else NONE, "body": body}
            self.socket.send(f.build({**self.common, **fields, **change(number)}))


def bursts(change, version=4, lost=False):
    """Sends a WRITE. Returns how many joined packets arrived."""
    end = End()
    peer = os.environ["PEER_ADDR" if version == 4 else "PEER_ADDR6"]
    end.to_rts(PEER, dgid=gid_text(peer), gid=int(os.environ[f"GID{version}"]), rq_psn=PSN)
    fill(end, bytes(PACKETS * MTU))
    sender = Sender(end, version)
    before, packets = counter("rcvd_bursts", DEV), counter("rcvd_pkts", DEV)
    with patient():
        sender.send(change)
        wait_until = time.monotonic() + 5 * SLOWNESS
        while time.monotonic() < wait_until and not lost and held(end, len(sender.data)) != sender.data:
            time.sleep(0.01)
        if lost:
            time.sleep(2 * WAIT / 1e9)
    time.sleep(SETTLING)
    if not lost:
        true(held(end, len(sender.data)) == sender.data, "the payload of the WRITE is wrong")
        equal(counter("rcvd_pkts", DEV) - packets, PACKETS, "packets received")
    joined = counter("rcvd_bursts", DEV) - before
    end.close()
    return joined


def increasing():
    """Packets with increasing IPv4 identifications are joined"""
    equal(bursts(lambda number: {"ident": 0xFFFE + number & 0xFFFF}), 1)


def fixed():
    """Packets with one IPv4 identification, as adapters send them, are joined"""
    equal(bursts(lambda number: {"ident": 0}), 1)


def internet6():
    """Packets over IPv6 are joined"""
    equal(bursts(lambda number: {}, version=6), 1)


def others():
    """Packets with other IPv4 identifications are not joined, as the stack could not split them again"""
    equal(bursts(lambda number: {"ident": number * 7}), 0)


def marked():
    """A packet that a switch has marked is not joined to one that it has not"""
    equal(bursts(lambda number: {"tos": 3 if number == 3 else 2, "ident": number}), 2)


def requested():
    """A packet that asks for an acknowledgement does not wait"""
    equal(bursts(lambda number: {"ident": 0, "ack": ACK_REQUEST if number % 3 == 2 else NONE}), 2)


def gap():
    """Packets after a gap are not joined to those before it"""
    equal(bursts(lambda number: {"ident": 0, "psn": PSN + number + 1000 * (number > 2)}, lost=True), 2)


def damaged():
    """The ICRC of each joined packet is checked"""
    before = counter("rx_bad_icrc", DEV)
    equal(bursts(lambda number: {"ident": 0, "icrc": 1 if number == 4 else 0}, lost=True), 1)
    equal(counter("rx_bad_icrc", DEV) - before, 1, "packets with a wrong ICRC")


run([increasing, fixed, internet6, others, marked, requested, gap, damaged])
