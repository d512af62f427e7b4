# SPDX-License-Identifier: GPL-2.0
"""Delivery of datagrams: keys, namespaces, addresses, lengths.

	DEV over v0 ------ PEER_DEV over v1, in namespace b
"""

import os
import socket
import struct

import enums as e
from counters import counter
from headers import ip
from netns import within_namespace
from rc import eventually
from tap import equal, not_for_rxe, run, true
from ud import GRH, GSI_QKEY, PORT, QKEY, UdEnd

DEV, PEER = os.environ["DEV"], os.environ["PEER_DEV"]
GID4, PEER_GID4 = int(os.environ["GID4"]), int(os.environ["PEER_GID4"])
# Opcode SEND Only of UD.
UD_SEND_ONLY = 0x64
RXE = os.environ["DRIVER"] == "rxe"


def wrong_key():
    """A datagram with a wrong Q_Key is dropped and counted by the port"""
    a, b = UdEnd(DEV), UdEnd(PEER)
    a.receive(2)
    with b.handle_for(os.environ["ADDR"], PEER_GID4) as handle:
        before = a.ctx.query_port(PORT).qkey_viol_cntr
        equal(b.send(handle, qpn=a.qp.qp_num, qkey=QKEY + 1), e.IBV_WC_SUCCESS)
        equal(b.send(handle, b"right", qpn=a.qp.qp_num), e.IBV_WC_SUCCESS)
        equal(a.completion().byte_len, GRH + 5)
        a.silent()
        if not RXE:
            equal(a.ctx.query_port(PORT).qkey_viol_cntr - before, 1, "Q_Key violations")
    a.close()
    b.close()


def other_namespace():
    """A datagram does not reach a QP of a device in another namespace"""
    not_for_rxe("looks up QPs by the netdev")
    a, b = UdEnd(DEV), UdEnd(PEER)
    a.receive(1)
    before = counter("rx_unknown_qp", PEER)
    # The destination is the peer's own address, so the packet stays in that namespace. The QPN and the Q_Key are valid
    # in ours.
    with b.handle_for(os.environ["PEER_ADDR"], PEER_GID4) as handle:
        equal(b.send(handle, qpn=a.qp.qp_num), e.IBV_WC_SUCCESS)
    a.silent()
    eventually(lambda: counter("rx_unknown_qp", PEER) > before, "counted")
    equal(counter("rx_unknown_qp", PEER) - before, 1, "rx_unknown_qp")
    with b.handle_for(os.environ["ADDR"], PEER_GID4) as handle:
        equal(b.send(handle, qpn=a.qp.qp_num), e.IBV_WC_SUCCESS)
    true(a.completion().byte_len > GRH, "no datagram over the wire")
    a.close()
    b.close()


def other_address():
    """A datagram to an address that is not the device's does not reach its QP"""
    not_for_rxe("looks up QPs by the netdev of the address")
    other = "10.77.0.1"
    a, b = UdEnd(DEV), UdEnd(PEER)
    a.receive(1)
    before = counter("rx_not_our_address", DEV)
    ip("addr", "add", other, "dev", "lo")
    ip("route", "add", other, "via", os.environ["ADDR"], where="b")
    try:
        with b.handle_for(other, PEER_GID4) as handle:
            equal(b.send(handle, qpn=a.qp.qp_num), e.IBV_WC_SUCCESS)
        eventually(lambda: counter("rx_not_our_address", DEV) > before, "counted")
        a.silent()
    finally:
        ip("route", "del", other, where="b")
        ip("addr", "del", other, "dev", "lo")
    with b.handle_for(os.environ["ADDR"], PEER_GID4) as handle:
        equal(b.send(handle, qpn=a.qp.qp_num), e.IBV_WC_SUCCESS)
    true(a.completion().byte_len > GRH, "no datagram to the device's own address")
    equal(counter("rx_not_our_address", DEV) - before, 1, "rx_not_our_address")
    a.close()
    b.close()


def too_long():
    """A datagram that is longer than the receive is dropped, and the next one uses that receive"""
    a, b = UdEnd(DEV), UdEnd(PEER, qkey=GSI_QKEY)
    a.receive(1)
    counters = () if RXE else ("rx_bad_length", "rx_bad_mad")
    before = [counter(name, DEV) for name in counters]
    with b.handle_for(os.environ["ADDR"], PEER_GID4) as handle:
        equal(b.send(handle, bytes(256 - GRH + 1), qpn=a.qp.qp_num), e.IBV_WC_SUCCESS)
        a.silent()
        equal(b.send(handle, b"right", qpn=a.qp.qp_num), e.IBV_WC_SUCCESS)
        equal((a.completion().status, a.received(0, GRH + 5)[GRH:]), (e.IBV_WC_SUCCESS, b"right"))
        # The scripts' connections show later that the general services survived this.
        equal(b.send(handle, bytes(1000), qpn=1, qkey=GSI_QKEY), e.IBV_WC_SUCCESS)
        # This datagram arrives behind the long one, so its completion shows that the long one was handled.
        a.receive(1)
        equal(b.send(handle, b"last", qpn=a.qp.qp_num), e.IBV_WC_SUCCESS)
        a.completion()
    for name, count in zip(counters, before):
        equal(counter(name, DEV) - count, 1, name)
    a.close()
    b.close()


def longer_than_any():
    """A packet that is longer than any path MTU is dropped before it is queued"""
    not_for_rxe("has no counter for it")
    a = UdEnd(DEV)
    before = counter("rx_bad_length", DEV)
    with within_namespace("b"), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) as attacker:
        # A BTH, and more payload than any packet may have; IP fragments it.
        packet = struct.pack(">BBHII", UD_SEND_ONLY, 0, 0xFFFF, a.qp.qp_num, 0) + bytes(5000)
        attacker.sendto(struct.pack(">HHHH", 0xC000, 4791, 8 + len(packet), 0) + packet, (os.environ["ADDR"], 0))
        eventually(lambda: counter("rx_bad_length", DEV) == before + 1, "rx_bad_length")
    a.close()


if __name__ == "__main__":
    run([wrong_key, other_namespace, other_address, too_long, longer_than_any])
