# SPDX-License-Identifier: GPL-2.0
"""Makes two taps, the second one in a namespace, and passes each frame from one to the other, like a switch for
virtual machines. usage: taps.py NAME NAME NAMESPACE"""

import fcntl
import os
import select
import struct
import subprocess
import sys

TUNSETIFF = 0x400454CA
TAP_WITHOUT_HEADER = 0x0002 | 0x1000
FRAME_BYTES = 1 << 16


def tap(name):
    """Returns the descriptor of a new tap."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), TAP_WITHOUT_HEADER))
    return descriptor


def main(near, far, namespace):
    """Passes frames until it is killed."""
    ends = [tap(near), tap(far)]
    subprocess.run(["ip", "link", "set", far, "netns", namespace], check=True)
    print("ready", flush=True)
    while True:
        for end in select.select(ends, [], [])[0]:
            frame = os.read(end, FRAME_BYTES)
            try:
                os.write(ends[1 - ends.index(end)], frame)
            except OSError:
                # The other end is down.
                pass


main(*sys.argv[1:])
