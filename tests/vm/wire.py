# SPDX-License-Identifier: GPL-2.0
"""A peer that sends what it likes to port 4791: wire.py DESTINATION SOURCE COUNT QPN...

Packets of any length, with any opcode, some cut short, some with IP options, some in fragments, to QPs that
exist and to others; half of them with a right ICRC, so that they are believed so far. Raw IPv4, because only
so the identification is ours, which the ICRC covers.
"""

import os
import random
import socket
import struct
import sys
import zlib

SEED = int(os.environ.get("SEED", "4791"))
PORT = 4791


def icrc(ip, udp, payload):
    """The ICRC of a packet: fields that routers change count as ones."""
    ip = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:20]
    udp = udp[:6] + b"\xff\xff"
    payload = payload[:4] + b"\xff" + payload[5:]
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + payload))


def packet(chance, numbers, source, destination):
    """One packet, from the IP header on."""
    opcode = chance.choice((chance.randrange(256), chance.randrange(0x1E)))
    pad = chance.choice((0, 0, 0, chance.randrange(4)))
    flags = chance.choice((0x40, chance.getrandbits(8) & 0xCF)) | pad << 4
    qpn = chance.choice((*numbers, 0, 1, 0xFFFFFF, chance.getrandbits(24)))
    key = chance.choice((0xFFFF, 0xFFFF, 0xFFFF, chance.getrandbits(16)))
    psn = chance.getrandbits(24) | chance.choice((0, 1 << 31))
    body = chance.randbytes(chance.choice((0, 4, 16, 20, 28, 256, 1024, 1028, chance.randrange(1300))))
    payload = struct.pack(">BBHII", opcode, flags, key, qpn, psn) + body
    if chance.random() < 0.1:
        payload = payload[: chance.randrange(len(payload))]
    options = b"\x01" * 4 * chance.choice((0, 0, 0, 1, 10))
    total = 20 + len(options) + 8 + len(payload) + 4
    head = struct.pack(">BBHHHBBH", 0x45 + len(options) // 4, chance.getrandbits(8), total,
                       chance.randrange(1, 65536), 0x4000, 64, socket.IPPROTO_UDP, 0)
    ip = head + socket.inet_aton(source) + socket.inet_aton(destination)
    udp = struct.pack(">HHHH", chance.randrange(49152, 65536), PORT, 12 + len(payload), 0)
    check = icrc(ip, udp, payload) if len(payload) > 4 and chance.random() < 0.5 else chance.randbytes(4)
    return ip + options + udp + payload + check


def fragments(whole):
    """The same packet in two pieces."""
    head, body = whole[:20], whole[20:]
    cut = len(body) // 16 * 8
    more = head[:6] + struct.pack(">H", 0x2000) + head[8:]
    last = head[:6] + struct.pack(">H", cut // 8) + head[8:]
    return [more + body[:cut], last + body[cut:]]


def main():
    destination, source, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    numbers = [int(number) for number in sys.argv[4:]]
    chance = random.Random(SEED)
    wire = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for _ in range(count):
        whole = packet(chance, numbers, source, destination)
        pieces = [whole]
        if whole[0] == 0x45 and len(whole) > 60 and chance.random() < 0.1:
            pieces = fragments(whole)
        for piece in pieces:
            try:
                wire.sendto(piece, (destination, 0))
            except OSError:
                pass  # The kernel may refuse what it is to send; then it is not sent.
    print(f"# seed {SEED}: {count} packets to QPs {numbers}")


if __name__ == "__main__":
    main()
