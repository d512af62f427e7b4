# SPDX-License-Identifier: GPL-2.0
"""usage: rds.py NODE ADDRESS PEER-ADDRESS: sends a thousand datagrams from a to b, which returns each of them."""

import hashlib
import socket
import sys

COUNT = 1000
PORT = 4000
HELLO, END = b"hello", b"end"


def payload(number):
    """Returns the payload of the datagram with this number: from 1 byte to 8 KiB."""
    seed = hashlib.sha256(str(number).encode()).digest()
    return (seed * 257)[:1 + number * 8191 // COUNT]


def ask(endpoint, peer):
    """Node a sends datagrams, and checks that they return in order. Datagrams to a port without a socket are lost, so
    it first sends HELLO until it gets a response.
    """
    endpoint.settimeout(1)
    for _ in range(60):
        endpoint.sendto(HELLO, peer)
        try:
            assert endpoint.recvfrom(16) == (HELLO, peer)
            break
        except TimeoutError:
            pass
    endpoint.settimeout(60)
    for number in range(COUNT):
        endpoint.sendto(payload(number), peer)
        data = HELLO
        while data == HELLO:
            data, sender = endpoint.recvfrom(65536)
        assert sender == peer, sender
        assert data == payload(number), f"datagram {number}: {len(data)} bytes that differ from those sent"
    # The last datagram must arrive before the socket is closed.
    endpoint.sendto(END, peer)
    assert endpoint.recvfrom(16) == (END, peer)


def answer(endpoint, peer):
    """Node b returns everything."""
    endpoint.settimeout(120)
    data, count = b"", 0
    while data != END:
        data, sender = endpoint.recvfrom(65536)
        assert sender == peer, sender
        assert data in (HELLO, END, payload(count)), f"datagram {count}: {len(data)} bytes that were not sent"
        count += data not in (HELLO, END)
        endpoint.sendto(data, sender)
    assert count == COUNT, count


def main():
    """Plays the part of a node."""
    node, mine, theirs = sys.argv[1:4]
    endpoint = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET)
    endpoint.bind((mine, PORT))
    (ask if node == "a" else answer)(endpoint, (theirs, PORT))


main()
