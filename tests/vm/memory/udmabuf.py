# SPDX-License-Identifier: GPL-2.0
"""DMA buffers of memory files."""

import fcntl
import os
import struct

from tap import Skip

UDMABUF, UDMABUF_CREATE = "/dev/udmabuf", 0x40187542
SIZE = 1 << 20


def of_file():
    """Creates a buffer of the pages of a memory file (udmabuf); returns its descriptor."""
    if not os.path.exists(UDMABUF):
        raise Skip(f"{UDMABUF} (CONFIG_UDMABUF)")
    file = os.memfd_create("dma_buf", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, SIZE)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    maker = os.open(UDMABUF, os.O_RDWR)
    try:
        return fcntl.ioctl(maker, UDMABUF_CREATE, bytearray(struct.pack("=IIQQ", file, 1, 0, SIZE)))
    finally:
        os.close(maker)
        os.close(file)
