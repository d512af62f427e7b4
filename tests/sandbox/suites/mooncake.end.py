#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""mooncake.end.py ADDRESS DEVICE [PEER]: one end of Mooncake's transfer engine.

The end without a peer is the target. The other writes 8 MiB of random bytes to it and reads them back; both compare.
"""

import ctypes
import mmap
import os
import sys
import time

from mooncake.engine import TransferEngine

BYTES = 8 << 20
# What the two ends tell each other, and how long they wait for it.
TARGET, WRITTEN = "/tmp/mooncake-target", "/tmp/mooncake-written"
SECONDS = 120


def tell(name, data):
    """Makes a file that is seen whole or not at all."""
    with open(name + ".new", "wb") as file:
        file.write(data)
    os.rename(name + ".new", name)


def hear(name):
    """Waits for what the other end tells."""
    end = time.monotonic() + SECONDS
    while not os.path.exists(name):
        if time.monotonic() > end:
            sys.exit(f"nothing in {name}")
        time.sleep(0.05)
    with open(name, "rb") as file:
        return file.read()


def initiator(engine, memory, address, peer):
    """Writes, reads back into the other half, and compares."""
    data = os.urandom(BYTES)
    memory[:BYTES] = data
    port, there = hear(TARGET).decode().split()
    session = f"{peer}:{port}"
    written = engine.transfer_sync_write(session, address, int(there), BYTES)
    read = engine.transfer_sync_read(session, address + BYTES, int(there), BYTES)
    tell(WRITTEN, data)
    print(f"write {written}, read {read}")
    return written == read == 0 and memory[BYTES:] == data


def main():
    """Returns whether all bytes are right."""
    host, device = sys.argv[1:3]
    engine = TransferEngine()
    memory = mmap.mmap(-1, 2 * BYTES)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if engine.initialize(host, "P2PHANDSHAKE", "rdma", device) or engine.register_memory(address, 2 * BYTES):
        sys.exit("the engine does not start")
    if len(sys.argv) > 3:
        return initiator(engine, memory, address, sys.argv[3])
    tell(TARGET, f"{engine.get_rpc_port()} {address}".encode())
    return hear(WRITTEN) == memory[:BYTES]


good = main()
print("the bytes are right" if good else "the bytes are wrong", flush=True)
# The engine's threads do not end by themselves.
os._exit(not good)
