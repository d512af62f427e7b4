# SPDX-License-Identifier: GPL-2.0
"""RoCEv2 packets as Ethernet frames: parser and builder.

A field may hold a value that no valid packet has: lengths are offsets to the correct value, and checksums are correct
unless the caller requests a wrong one. Independent of QPs and sockets.
"""

import struct
import zlib

PORT = 4791
ICRC = 4
BTH = 12
UDP_PROTOCOL = 17
# Opcodes without the service, which is in the upper three bits.
(SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM, WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST,
 WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM, READ, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK,
 SWAP, ADD) = range(0x15)
SEND_LAST_INV, SEND_ONLY_INV, FLUSH, ATOMIC_WRITE = 0x16, 0x17, 0x1C, 0x1D
RC, UC, RD, UD = 0x00, 0x20, 0x40, 0x60
RESPONSES = range(READ_FIRST, ATOMIC_ACK + 1)
# AETH: the syndromes of an ACK with unlimited credit, and of a NAK for a PSN sequence error.
ACKNOWLEDGED, OUT_OF_SEQUENCE = 0x1F, 0x60

DEFAULTS = {
    "ether_to": b"\xff" * 6, "ether_from": b"\2\0\0\0\0\1", "tos": 0, "total": 0, "ident": 1, "fragment": 0x4000,
    "hops": 64, "protocol": UDP_PROTOCOL, "sum": 0, "options": b"", "flow": 0, "sport": 0xC000, "dport": PORT,
    "udp_length": 0, "udp_sum": 0, "opcode": RC | SEND_ONLY, "flags": 0x40, "pkey": 0xFFFF, "reserved": 0, "qpn": 0,
    "ack": 1, "psn": 0, "body": b"", "icrc": 0, "cut": None,
}


def parse(frame):
    """Fields of a frame to the RoCE port; None for any other frame. The body includes the ICRC."""
    kind = frame[12:14]
    if kind == b"\x08\0" and frame[14] == 0x45 and frame[23] == UDP_PROTOCOL:
        version, at = 4, 34
        fields = {"tos": frame[15], "ident": frame[18] << 8 | frame[19], "hops": frame[22], "source": frame[26:30],
                  "destination": frame[30:34]}
    elif kind == b"\x86\xdd" and frame[20] == UDP_PROTOCOL:
        version, at = 6, 54
        fields = {"hops": frame[21], "source": frame[22:38], "destination": frame[38:54]}
    else:
        return None
    if len(frame) < at + 8 + BTH + ICRC:
        return None
    sport, dport = struct.unpack_from(">HH", frame, at)
    opcode, flags, pkey, qpn, psn = struct.unpack_from(">BBHII", frame, at + 8)
    if dport != PORT:
        return None
    fields.update(version=version, ether_to=frame[:6], ether_from=frame[6:12], sport=sport, opcode=opcode, flags=flags,
                  pkey=pkey, qpn=qpn & 0xFFFFFF, reserved=qpn >> 24, psn=psn & 0xFFFFFF, ack=psn >> 24,
                  body=frame[at + 8 + BTH:])
    return fields


def internet_sum(words):
    """The IPv4 header checksum over 16-bit words."""
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def icrc(ip, udp, payload):
    """The ICRC: fields that routers change count as ones."""
    if ip[0] >> 4 == 4:
        ip = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:20]
    else:
        ip = bytes((ip[0] | 0xF,)) + b"\xff\xff\xff" + ip[4:7] + b"\xff" + ip[8:]
    head = b"\xff" * 8 + ip + udp[:6] + b"\xff\xff" + payload[:4] + b"\xff" + payload[5:]
    return struct.pack("<I", zlib.crc32(head))


def ip_header(given, length):
    """The IP header for `length` bytes; without IPv4 options."""
    total = length + given["total"]
    if given["version"] == 6:
        head = 6 << 28 | given["tos"] << 20 | given["flow"]
        return struct.pack(">IHBB", head, total & 0xFFFF, given["protocol"], given["hops"]) + \
            given["source"] + given["destination"]
    options = given["options"]
    total += 20 + len(options)
    head = struct.pack(">BBHHHBBH4s4s", 0x45 + len(options) // 4, given["tos"], total & 0xFFFF, given["ident"],
                       given["fragment"], given["hops"], given["protocol"], 0, given["source"], given["destination"])
    words = struct.unpack(">10H", head) + struct.unpack(f">{len(options) // 2}H", options)
    return head[:10] + struct.pack(">H", internet_sum(words) ^ given["sum"]) + head[12:]


def build(fields):
    """Builds a frame from any fields; missing fields have correct values."""
    given = {**DEFAULTS, **fields}
    payload = struct.pack(">BBHII", given["opcode"], given["flags"], given["pkey"],
                          given["reserved"] << 24 | given["qpn"], given["ack"] << 24 | given["psn"])
    payload = (payload + given["body"])[:given["cut"]]
    length = 8 + len(payload) + ICRC
    udp = struct.pack(">HHHH", given["sport"], given["dport"], length + given["udp_length"] & 0xFFFF,
                      given["udp_sum"])
    ip = ip_header(given, length)
    check = struct.pack("<I", given["icrc"]) if given["icrc"] or len(payload) < 5 else icrc(ip, udp, payload)
    kind = b"\x08\0" if given["version"] == 4 else b"\x86\xdd"
    return given["ether_to"] + given["ether_from"] + kind + ip + given["options"] + udp + payload + check


def fragments(frame):
    """Splits an IPv4 frame into two fragments."""
    ether, head, body = frame[:14], frame[14:34], frame[34:]
    cut = len(body) // 16 * 8

    def piece(offset, part):
        start = head[:2] + struct.pack(">H", 20 + len(part)) + head[4:6] + struct.pack(">H", offset) + head[8:10]
        check = internet_sum(struct.unpack(">10H", start + b"\0\0" + head[12:]))
        return ether + start + struct.pack(">H", check) + head[12:] + part

    return [piece(0x2000, body[:cut]), piece(cut // 8, body[cut:])]
