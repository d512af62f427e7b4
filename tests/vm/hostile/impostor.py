# SPDX-License-Identifier: GPL-2.0
"""Attempts to impersonate the peer of another process's connection.

Reads the expected PSN over netlink and writes packets from user space. Used by isolation.py.
"""

import os
import socket

import enums as e
import frame
import nldev
from rc import DEVICE
from tap import equal, true
from work import pattern

# linux/in.h.
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
SERVICE = {e.IBV_QPT_RC: frame.RC, e.IBV_QPT_UC: frame.UC}


def expected_by(number):
    """Returns the PSN that a QP expects next, as the core reports it over netlink."""
    device = {nldev.DEV_INDEX: nldev.index_of(DEVICE)}
    for answer in nldev.ask(nldev.RES_QP_GET, device, dump=True):
        for entry in nldev.within(answer, nldev.RES_QP, nldev.RES_QP_ENTRY):
            if nldev.number(nldev.within(entry, nldev.RES_LQPN)[0]) == number:
                return nldev.number(nldev.within(entry, nldev.RES_RQ_PSN)[0])
    raise AssertionError(f"no queue pair {number}")


def by_datagrams(told):
    """to impersonate the peers of the owner's queue pairs through a UDP socket: the kernel sends nothing"""
    to, sent = os.environ["ADDR"], []
    host = socket.inet_aton(to)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        # With DF the IPv4 identification is 0, so every byte that the ICRC covers is known.
        out.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        out.bind(("", 0))
        for number, service in told["connected"]:
            whole = frame.build({"version": 4, "source": host, "destination": host, "ident": 0, "qpn": number,
                                 "sport": out.getsockname()[1], "psn": expected_by(number), "body": pattern(64, 9),
                                 "opcode": SERVICE[service] | frame.SEND_ONLY})
            # The kernel writes the headers: Ethernet, IPv4, UDP.
            sent.append(_sends(out, whole[14 + 20 + 8:], (to, frame.PORT)))
        true(_sends(out, bytes(64), (to, frame.PORT + 1)), "other ports are not restricted")
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as out:
        for address in os.environ["ADDR6"], "::ffff:" + to:
            sent.append(_sends(out, bytes(64), (address, frame.PORT)))
    equal(sent, [False] * (len(told["connected"]) + 2), "what is sent")


def _sends(out, datagram, address):
    """Returns whether the kernel sends the datagram."""
    try:
        out.sendto(datagram, address)
    except PermissionError:
        return False
    return True
