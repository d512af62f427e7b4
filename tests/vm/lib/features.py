# SPDX-License-Identifier: GPL-2.0
"""Features of interfaces, such as segmentation, switched on and off by this process: `ethtool` is a slow process for
each change.

C header: linux/ethtool.h.
"""

import array
import contextlib
import fcntl
import fnmatch
import socket
import struct

from netns import within_namespace
from tap import equal, true

SIOCETHTOOL = 0x8946
GSTRINGS, GSSET_INFO, SFEATURES = 0x1B, 0x37, 0x3B
ETH_SS_FEATURES, ETH_GSTRING_LEN = 4, 32
# What `ethtool -K` calls tso. Which ones there are depends on the kernel.
TSO = "tx-tcp*-segmentation"
_known = []


def _request(opened, netdev, data):
    """Returns the answer to a request, and the result of the ioctl."""
    held = array.array("B", data)
    # The result is returned for what can be changed; for bytes, those would be.
    result = fcntl.ioctl(opened, SIOCETHTOOL, bytearray(struct.pack("16sP", netdev.encode(), held.buffer_info()[0])))
    return held.tobytes(), result


def _names(opened, netdev):
    """The names of all features, in the order of their numbers."""
    told, _ = _request(opened, netdev, struct.pack("=IIQI", GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0))
    count = struct.unpack_from("=I", told, 16)[0]
    told, _ = _request(opened, netdev, struct.pack("=III", GSTRINGS, ETH_SS_FEATURES, count) +
                       bytes(count * ETH_GSTRING_LEN))
    return [told[at:at + ETH_GSTRING_LEN].split(b"\0")[0].decode()
            for at in range(12, len(told), ETH_GSTRING_LEN)]


def switch(netdev, patterns, enabled, space=None):
    """Switches features of an interface, perhaps in another namespace, on or off. Each pattern is that of one at least.
    """
    with within_namespace(space) if space else contextlib.nullcontext():
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with opened:
        if not _known:
            _known.extend(_names(opened, netdev))
        blocks = [[0, 0] for _ in range(-(-len(_known) // 32))]
        for pattern in patterns:
            numbers = [number for number, name in enumerate(_known) if fnmatch.fnmatchcase(name, pattern)]
            true(numbers, f"this kernel has no {pattern}")
            for number in numbers:
                blocks[number // 32][0] |= 1 << number % 32
                blocks[number // 32][1] |= enabled << number % 32
        words = [word for block in blocks for word in block]
        _, lacking = _request(opened, netdev, struct.pack(f"=II{len(words)}I", SFEATURES, len(blocks), *words))
        equal(lacking, 0, f"what {netdev} does not switch")
