# SPDX-License-Identifier: GPL-2.0
"""usage: rds.py NODE ADDRESS PEER-ADDRESS: a thousand datagrams from a to b, each of which comes back."""

import hashlib
import socket
import sys

COUNT = 1000
PORT = 4000


def payload(number):
    """What the datagram of this number holds: from 1 byte to 8 KiB."""
    seed = hashlib.sha256(str(number).encode()).digest()
    return (seed * 257)[:1 + number * 8191 // COUNT]


def main():
    """Node a sends and checks what comes back, in order; node b returns everything."""
    node, mine, theirs = sys.argv[1:4]
    endpoint = socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET)
    endpoint.bind((mine, PORT))
    endpoint.settimeout(60)
    for number in range(COUNT):
        if node == "a":
            endpoint.sendto(payload(number), (theirs, PORT))
        data, sender = endpoint.recvfrom(65536)
        assert sender[0] == theirs, sender
        assert data == payload(number), f"datagram {number}: {len(data)} bytes that are not what was sent"
        if node == "b":
            endpoint.sendto(data, sender)
    # What was sent last must have arrived before the socket goes.
    if node == "a":
        endpoint.sendto(b"end", (theirs, PORT))
    else:
        assert endpoint.recv(16) == b"end"


main()
