#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""dlslime.end.py NAME OTHER DEVICE: one end of DLSlime's RDMA endpoint.

The end called `one` writes 1 MiB to the other and reads 1 MiB.
"""

import ctypes
import json
import mmap
import os
import sys
import time

import dlslime

BYTES = 1 << 20
SECONDS = 60


def tell(name, text):
    """Makes a file that is seen whole or not at all."""
    with open(f"/tmp/dlslime-{name}.new", "w", encoding="ascii") as file:
        file.write(text)
    os.rename(f"/tmp/dlslime-{name}.new", f"/tmp/dlslime-{name}")


def hear(name):
    """Waits for what the other end tells."""
    end = time.monotonic() + SECONDS
    while not os.path.exists(f"/tmp/dlslime-{name}"):
        if time.monotonic() > end:
            sys.exit(f"nothing from {name}")
        time.sleep(0.05)
    with open(f"/tmp/dlslime-{name}", encoding="ascii") as file:
        return file.read()


def main():
    """Returns whether all bytes are right."""
    name, other, device = sys.argv[1:]
    endpoint = dlslime.RDMAEndpoint(device_name=device, ib_port=1, link_type="RoCE", num_qp=1)
    memory = mmap.mmap(-1, 4 * BYTES)
    memory[:] = name[:1].encode() * len(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    here = endpoint.register_memory_region(7, address, 0, len(memory))
    tell(name, json.dumps([endpoint.endpoint_info(), endpoint.mr_info()]))
    peer, regions = json.loads(hear(other))
    endpoint.connect(peer)
    tell(name + "-connected", "")
    hear(other + "-connected")
    if name != "one":
        hear("end")
        return memory[:BYTES] == other[:1].encode() * BYTES
    key, region = next(iter(regions.items()))
    there = endpoint.register_remote_memory_region(key, region)
    written = endpoint.write([(here, there, 0, 0, BYTES)]).wait()
    read = endpoint.read([(here, there, BYTES, BYTES, BYTES)]).wait()
    tell("end", "")
    print(f"write {written}, read {read}")
    return memory[BYTES : 2 * BYTES] == other[:1].encode() * BYTES


good = main()
print("the bytes are right" if good else "the bytes are wrong", flush=True)
# The library's threads do not end by themselves.
os._exit(not good)
