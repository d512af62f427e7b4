# SPDX-License-Identifier: GPL-2.0
"""Who gets a datagram, and who does not: keys, namespaces.

	DEV over v0 ------ PEER_DEV over v1, in namespace b
"""

import os

import pyverbs.enums as e

from tap import Skip, equal, run, true
from ud import GRH, PORT, QKEY, UdEnd

DEV, PEER = os.environ["DEV"], os.environ["PEER_DEV"]
GID4, PEER_GID4 = int(os.environ["GID4"]), int(os.environ["PEER_GID4"])
RXE = os.environ["DRIVER"] == "rxe"


def counter(name, device):
    """A counter of a device."""
    with open(f"/sys/class/infiniband/{device}/ports/1/hw_counters/{name}", encoding="ascii") as file:
        return int(file.read())


def wrong_key():
    """A datagram with another Q_Key is dropped and counted by the port"""
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
    """A datagram within a namespace does not reach a queue pair of a device in another"""
    if RXE:
        raise Skip("rxe: looks queue pairs up by the netdev")
    a, b = UdEnd(DEV), UdEnd(PEER)
    a.receive(1)
    before = counter("rx_unknown_qp", PEER)
    # To the peer's own address: it never leaves that namespace. Number and key are those of an end in ours.
    with b.handle_for(os.environ["PEER_ADDR"], PEER_GID4) as handle:
        equal(b.send(handle, qpn=a.qp.qp_num), e.IBV_WC_SUCCESS)
    a.silent()
    equal(counter("rx_unknown_qp", PEER) - before, 1, "rx_unknown_qp")
    with b.handle_for(os.environ["ADDR"], PEER_GID4) as handle:
        equal(b.send(handle, qpn=a.qp.qp_num), e.IBV_WC_SUCCESS)
    true(a.completion().byte_len > GRH, "over the wire it does")
    a.close()
    b.close()


if __name__ == "__main__":
    run([wrong_key, other_namespace])
