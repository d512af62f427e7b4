# SPDX-License-Identifier: GPL-2.0
"""One crafted packet for each drop reason: the packet is counted under that reason, once, and under no other.

The packets come from namespace b, from the address that the QPs of DEV are connected to. That peer does not answer.
"""

import collections
import os
import socket
import struct
import subprocess

from pyverbs.addr import AHAttr, GID, GlobalRoute

import enums as e
import frame as f
from counters import counter
from netns import within_namespace
from rc import PORT, End, context, eventually, gid_index
from tap import equal, run
from ud import GSI_QKEY, QKEY, gid_text
from unreliable import modify
from wire import Wire
from work import OK, READ, SEND, status

DEV = os.environ["DEV"]
COUNTERS = f"/sys/class/infiniband/{DEV}/ports/1/hw_counters"
# QPN of the absent peer of every QP, and the PSN expected from it.
NOBODY, PSN = 0xF00000, 0x1000
ELSEWHERE = "10.0.66.1"
RC, UC, UD = e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD
SERVICE = {RC: f.RC, UC: f.UC, UD: f.UD}
NOTIFICATION = 0x81


def counts():
    """All drop counters, and some others."""
    names = [name for name in os.listdir(COUNTERS) if name.startswith("rx_")]
    return collections.Counter({name: counter(name, DEV) for name in [*names, "duplicate_request",
                                                                      "out_of_seq_request"]})


class Victim(End):
    """A QP whose peer is the sender of the crafted packets."""

    def __init__(self, service=RC, state=e.IBV_QPS_RTS):
        super().__init__(service=service)
        attr = self.attr(NOBODY, rq_psn=PSN, sq_psn=PSN, timeout=20)
        attr.qkey = QKEY
        route = GlobalRoute(dgid=GID(gid_text(os.environ["PEER_ADDR"])), sgid_index=gid_index(4), hop_limit=64)
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=PORT)
        if state == e.IBV_QPS_INIT:
            self.qp.to_init(attr)
        else:
            self.qp.to_rts(attr)
            modify(self.qp, state)
        self.service = service

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Stranger:
    """Builds and sends packets."""

    def __init__(self):
        with within_namespace("b"):
            self.wire = Wire(os.environ["PEER_NETDEV"])
        with open(f"/sys/class/net/{os.environ['NETDEV']}/address", encoding="ascii") as file:
            to = bytes.fromhex(file.read().strip().replace(":", ""))
        self.usual = {"version": 4, "source": socket.inet_aton(os.environ["PEER_ADDR"]), "ether_to": to,
                      "destination": socket.inet_aton(os.environ["ADDR"]), "psn": PSN}

    def send(self, victim, opcode, body=b"", **fields):
        """Sends a packet to a QP; the fields are those of frame.py."""
        service = 0 if opcode == NOTIFICATION else SERVICE[victim.service]
        given = {"opcode": service | opcode, "qpn": victim.qp.qp_num, "body": body, **fields}
        self.wire.send([f.build({**self.usual, **given})])

    def dropped(self, reason, victim, opcode, body=b"", also=(), **fields):
        """Sends a packet that is dropped for that reason and no other; `also` lists further counters of it."""
        before, wanted = counts(), {name: 1 for name in (f"rx_{reason}", *also)}
        self.send(victim, opcode, body, **fields)
        eventually(lambda: set(wanted) <= set(counts() - before), f"{reason} is counted")
        found = counts() - before
        if reason != "unknown_qp":
            # The responses of the QP have no destination QP.
            del found["rx_unknown_qp"]
        equal(dict(found), wanted, f"counts of {opcode:#x} {fields}")


def reth(address, key, length):
    """An RETH."""
    return struct.pack(">QII", address, key, length)


def deth(qkey=QKEY):
    """A DETH."""
    return struct.pack(">II", qkey, NOBODY)


def aeth(syndrome):
    """An AETH."""
    return struct.pack(">I", syndrome << 24)


def malformed():
    """A malformed packet is counted under its defect"""
    stranger = Stranger()
    with Victim() as rc:
        stranger.dropped("too_short", rc, f.SEND_ONLY, cut=8)
        stranger.dropped("unknown_opcode", rc, f.RD | f.SEND_ONLY)
        stranger.dropped("bad_version", rc, f.SEND_ONLY, flags=0x41)
        stranger.dropped("bad_pad", rc, f.SEND_ONLY, flags=0x70)
        stranger.dropped("bad_ip_header", rc, f.SEND_ONLY, options=b"\1\1\1\1")
        stranger.dropped("bad_icrc", rc, f.SEND_ONLY, icrc=1)
        equal(rc.state(), e.IBV_QPS_RTS)
    with Victim(UD) as ud:
        # Datagrams have no connection that could slow down.
        stranger.dropped("congestion_notification", ud, NOTIFICATION, bytes(16))


def misdirected():
    """A packet for another QP or from another source is counted as misdirected"""
    stranger = Stranger()
    subprocess.run(["ip", "addr", "add", f"{ELSEWHERE}/32", "dev", "lo"], check=True)
    with Victim() as rc, Victim(UD) as ud:
        before = counter("rx_unknown_qp", os.environ["PEER_DEV"])
        stranger.dropped("unknown_qp", rc, f.SEND_ONLY, qpn=0xABCDEF)
        equal(counter("rx_unknown_qp", os.environ["PEER_DEV"]), before, "counted by a device of another namespace")
        stranger.dropped("wrong_service", rc, f.UC | f.SEND_ONLY)
        stranger.dropped("wrong_source", rc, f.SEND_ONLY, source=socket.inet_aton("10.0.0.77"))
        stranger.dropped("not_our_address", ud, f.SEND_ONLY, deth(GSI_QKEY) + bytes(256), qpn=1,
                         destination=socket.inet_aton(ELSEWHERE))
        equal(rc.state(), e.IBV_QPS_RTS)
    subprocess.run(["ip", "addr", "del", f"{ELSEWHERE}/32", "dev", "lo"], check=True)
    for service, body in ((RC, b""), (UC, b""), (UD, deth())):
        for state in (e.IBV_QPS_INIT, e.IBV_QPS_ERR):
            with Victim(service, state) as victim:
                stranger.dropped("wrong_qp_state", victim, f.SEND_ONLY, body)


def keys():
    """A wrong P_Key and a wrong Q_Key are counted, for the port as well"""
    stranger, port = Stranger(), context().query_port(PORT)
    with Victim(UD) as ud:
        stranger.dropped("bad_pkey", ud, f.SEND_ONLY, deth(), pkey=0x8001)
        stranger.dropped("bad_qkey", ud, f.SEND_ONLY, deth(QKEY + 1))
    now = context().query_port(PORT)
    # The port counters have 16 bits and saturate.
    equal((now.bad_pkey_cntr, now.qkey_viol_cntr),
          tuple(min(count + 1, 0xFFFF) for count in (port.bad_pkey_cntr, port.qkey_viol_cntr)))


def datagrams():
    """A datagram without a receive is counted, and the next one finds a receive"""
    stranger = Stranger()
    with Victim(UD) as ud:
        stranger.dropped("no_receive_buffer", ud, f.SEND_ONLY, deth())
        ud.receive()
        stranger.send(ud, f.SEND_ONLY, deth())
        status(ud, OK, "the next datagram")


def management():
    """An invalid management datagram to QP 1 is counted and not answered"""
    stranger = Stranger()
    get = bytes((1, 4, 1, 1))
    with Victim(UD) as ud:
        sent = counter("sent_pkts", DEV)
        for mad in (b"", get, get + bytes(251), get + bytes(256), b"\2" + bytes(255), b"\x80" + bytes(255)):
            stranger.dropped("bad_mad", ud, f.SEND_ONLY, deth(GSI_QKEY) + mad + bytes(-len(mad) % 4), qpn=1,
                             flags=0x40 | -len(mad) % 4 << 4)
        equal(counter("sent_pkts", DEV), sent, "packets sent")


def unreliable():
    """A packet that UC refuses is counted, and the next message is accepted"""
    stranger = Stranger()
    with Victim(UC) as uc:
        stranger.dropped("no_receive_buffer", uc, f.SEND_ONLY)
        stranger.dropped("bad_sequence", uc, f.SEND_LAST, psn=PSN + 1)
        stranger.dropped("access_denied", uc, f.WRITE_ONLY, reth(uc.mr.buf, uc.mr.rkey ^ 0x55, 8) + bytes(8),
                         psn=PSN + 2)
        uc.receive()
        stranger.dropped("bad_length", uc, f.SEND_ONLY, bytes(1028), psn=PSN + 3)
        stranger.dropped("bad_sequence", uc, f.SEND_ONLY, psn=PSN + 1)
        stranger.send(uc, f.SEND_ONLY, psn=PSN + 4)
        status(uc, OK, "the next message")


def requests():
    """A request too early and one too old are counted and have no other effect"""
    stranger = Stranger()
    with Victim() as rc:
        stranger.dropped("ahead_of_sequence", rc, f.SEND_ONLY, also=["out_of_seq_request"], psn=PSN + 5)
        stranger.dropped("unknown_duplicate", rc, f.READ, reth(rc.mr.buf, rc.mr.rkey, 8), also=["duplicate_request"],
                         psn=PSN - 1)
        rc.receive()
        stranger.send(rc, f.SEND_ONLY)
        status(rc, OK, "the expected request")


def answers():
    """An unsolicited, an early and a reserved response are counted"""
    stranger = Stranger()
    with Victim() as rc:
        stranger.dropped("stale_response", rc, f.ACK, aeth(f.ACKNOWLEDGED))
        rc.send(READ, wr_id=1, pieces=[rc.sge(0, 3000)], remote=(0, 1))
        rc.send(SEND, wr_id=2, pieces=[rc.sge(0, 8)])
        stranger.dropped("bad_syndrome", rc, f.ACK, aeth(0x40), psn=PSN + 3)
        stranger.dropped("response_gap", rc, f.READ_MIDDLE, bytes(1024), psn=PSN + 1)
        stranger.send(rc, f.READ_FIRST, aeth(f.ACKNOWLEDGED) + b"1" * 1024)
        stranger.send(rc, f.READ_MIDDLE, b"2" * 1024, psn=PSN + 1)
        stranger.send(rc, f.READ_LAST, aeth(f.ACKNOWLEDGED) + b"3" * 952, psn=PSN + 2)
        equal(status(rc, OK, "read").wr_id, 1)
        stranger.send(rc, f.ACK, aeth(f.ACKNOWLEDGED), psn=PSN + 3)
        equal(status(rc, OK, "send").wr_id, 2)


if __name__ == "__main__":
    run([malformed, misdirected, keys, datagrams, management, unreliable, requests, answers])
