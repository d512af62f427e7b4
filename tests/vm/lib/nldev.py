# SPDX-License-Identifier: GPL-2.0
"""The netlink messages of the RDMA core, sent by this thread itself: with failing allocations a child process would
fail long before its request. Covers only the commands that the tests need.

C header: rdma/rdma_netlink.h.
"""

import errno
import os
import socket
import struct

NETLINK_RDMA, NLDEV = 20, 5
GET, NEWLINK, DELLINK, RES_GET, RES_QP_GET, RES_CQ_GET, RES_MR_GET, STAT_SET, STAT_GET, STAT_DEL, RES_SRQ_GET = \
    1, 3, 4, 9, 10, 12, 13, 16, 17, 18, 23
RES_SUMMARY, RES_SUMMARY_ENTRY, RES_SUMMARY_NAME, RES_SUMMARY_CURRENT = range(15, 19)
DEV_INDEX, DEV_NAME, PORT_INDEX, RES_QP, RES_QP_ENTRY, RES_LQPN, RES_RQ_PSN, RES_CQ, RES_MR = \
    1, 2, 3, 19, 20, 21, 23, 35, 40
RES_PID, NDEV_NAME, DRIVER, RES_CQN, RES_MRN, LINK_TYPE, STAT_MODE, STAT_RES = 28, 51, 52, 61, 62, 65, 74, 75
STAT_AUTO_MODE_MASK, STAT_COUNTER, STAT_COUNTER_ENTRY, STAT_COUNTER_ID, STAT_HWCOUNTERS = range(76, 81)
HWCOUNTER_ENTRY, HWCOUNTER_NAME, HWCOUNTER_VALUE, RES_SRQ, RES_SRQN, DRIVER_DETAILS = 81, 82, 83, 88, 90, 97
AUTO, MANUAL = 1, 2
# Errors when there is no memory for a socket, or for a response.
LACKING = (errno.ENFILE, errno.ENOBUFS)
_REQUEST_ACK, _DUMP, _ERROR, _DONE = 5, 0x300, 2, 3


def attribute(kind, data):
    """Returns one attribute: of text, of bytes, or of a 32-bit number."""
    if isinstance(data, str):
        data = data.encode() + b"\0"
    elif isinstance(data, int):
        data = struct.pack("=I", data)
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def ask(command, attributes, dump=False):
    """Sends a command with attributes {kind: data}. Returns the bodies of its responses; raises OSError if it is
    refused.

    Opens a new socket each time: on a socket that missed a response, a late one would be mistaken for the next
    response.
    """
    body = b"".join(attribute(*one) for one in attributes.items())
    flags = _REQUEST_ACK | (_DUMP if dump else 0)
    answers = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA) as link:
        link.settimeout(60)
        link.send(struct.pack("=IHHII", 16 + len(body), NLDEV << 10 | command, flags, 1, 0) + body)
        while True:
            data = link.recv(1 << 17)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind in (_ERROR, _DONE):
                    error = -struct.unpack_from("=i", data, 16)[0]
                    if error:
                        raise OSError(error, os.strerror(error))
                    return answers
                answers.append(data[16:length])
                data = data[length + 3 & ~3:]


def within(data, *kinds):
    """Returns the data of all attributes that match a path of kinds."""
    found, kind = [], kinds[0]
    while len(data) >= 4:
        length, its = struct.unpack_from("=HH", data)
        # The upper bits are flags.
        if its & 0x3FFF == kind:
            found += within(data[4:length], *kinds[1:]) if len(kinds) > 1 else [data[4:length]]
        data = data[length + 3 & ~3:]
    return found


def number(data):
    """Returns a number of 32 or 64 bits."""
    return int.from_bytes(data, "little")


def text(data):
    """Returns a text."""
    return data.rstrip(b"\0").decode()


def names():
    """Returns the names of the devices in the namespace of this thread."""
    return [text(within(answer, DEV_NAME)[0]) for answer in ask(GET, {}, dump=True)]


def index_of(device):
    """Returns the core's index of a device."""
    return next(number(within(answer, DEV_INDEX)[0]) for answer in ask(GET, {}, dump=True)
                if text(within(answer, DEV_NAME)[0]) == device)


def delete(device):
    """Removes a device, as `rdma link del` does."""
    ask(DELLINK, {DEV_INDEX: index_of(device)})


def counted(device):
    """Returns the number of objects of each kind on a device, by name; nothing if there is no such device."""
    entries = [entry for answer in ask(RES_GET, {}, dump=True) if text(within(answer, DEV_NAME)[0]) == device
               for entry in within(answer, RES_SUMMARY, RES_SUMMARY_ENTRY)]
    return {text(within(entry, RES_SUMMARY_NAME)[0]): number(within(entry, RES_SUMMARY_CURRENT)[0])
            for entry in entries}
