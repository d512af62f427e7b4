#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""migrate.py [CAPABILITY...]: a running virtual machine of QEMU's migrates by RDMA from this namespace to `peer`.

Fails unless all of its memory arrives, and it goes on there. Its first processor changes some pages all the time, so
they are sent several times.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time

MEMORY = 128 << 20
# What only the source has: bytes that cannot be told as a page of zeros.
PATTERN_AT, PATTERN_BYTES = 64 << 20, 32 << 20
# A boot sector that adds one to the first byte of each page between these addresses, for ever.
CHANGED = range(0x20000, 0x90000, 4096)
BOOT_SECTOR = (
    b"\xb8\x00\x20"  # again: mov ax, 0x2000
    b"\x8e\xc0"  # next: mov es, ax
    b"\x26\xfe\x06\x00\x00"  # inc byte es:[0]
    b"\x05\x00\x01"  # add ax, 0x100
    b"\x3d\x00\x90"  # cmp ax, 0x9000
    b"\x72\xf1"  # jb next
    b"\xeb\xec"  # jmp again
).ljust(510, b"\0") + b"\x55\xaa"
PORT = 4444
PATIENCE = 120  # seconds


class Machine:
    """A virtual machine, and the socket that controls it."""

    def __init__(self, folder, name, prefix, *options):
        self.folder, self.name = folder, name
        disk, control = self.path("disk"), self.path("control")
        with open(disk, "wb") as file:
            file.write(BOOT_SECTOR.ljust(1 << 20, b"\0"))
        self.process = subprocess.Popen([
            *prefix, "qemu-system-x86_64", "-machine", "pc,accel=tcg", "-m", f"{MEMORY >> 20}M", "-nodefaults",
            "-no-user-config", "-display", "none", "-drive", f"file={disk},format=raw,if=ide",
            "-qmp", f"unix:{control},server=on,wait=off", *options])
        wait_for(lambda: os.path.exists(control), f"{name} starts")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(control)
        self.lines = self.socket.makefile("r")
        self.lines.readline()
        self.do("qmp_capabilities")

    def path(self, what):
        return os.path.join(self.folder, f"{self.name}.{what}")

    def do(self, command, **arguments):
        """Executes a command of QMP, and returns its result."""
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        for line in self.lines:
            answer = json.loads(line)
            if "error" in answer:
                sys.exit(f"{self.name}: {command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
        sys.exit(f"{self.name} ended during {command}")

    def memory(self, start=0, size=MEMORY):
        """Bytes of its physical memory."""
        file = self.path("memory")
        self.do("pmemsave", val=start, size=size, filename=file)
        with open(file, "rb") as memory:
            return memory.read()

    def changes(self):
        """The bytes that the processor changes."""
        return [self.memory(address, 1) for address in CHANGED]

    def quit(self):
        self.do("quit")
        self.process.wait(PATIENCE)


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"not within {PATIENCE} s: {what}")
        time.sleep(0.1)


def migrate(source, target, capabilities):
    """Returns what the source says of the migration."""
    chosen = [{"capability": name, "state": True} for name in capabilities]
    for machine in (source, target):
        machine.do("migrate-set-capabilities", capabilities=chosen)
    uri = f"rdma:{os.environ['FERROCE_PEER_ADDRESS']}:{PORT}"
    target.do("migrate-incoming", uri=uri)
    source.do("migrate", uri=uri)
    ends = ("completed", "failed", "cancelled")
    wait_for(lambda: source.do("query-migrate").get("status") in ends, "the migration")
    report = source.do("query-migrate")
    if report["status"] != "completed":
        sys.exit(f"the migration: {report}")
    # The target is ready a little later than the source knows that it has everything.
    wait_for(lambda: target.do("query-status")["status"] != "inmigrate", "the target has the machine")
    return report


def main():
    with tempfile.TemporaryDirectory(dir=".") as folder:
        pattern = os.path.join(folder, "pattern")
        with open(pattern, "wb") as file:
            file.write(os.urandom(PATTERN_BYTES))
        source = Machine(folder, "source", [], "-device", f"loader,file={pattern},addr={PATTERN_AT},force-raw=on")
        # -S: what has arrived does not change before it is compared.
        target = Machine(folder, "target", ["ferroce-on", "peer"], "-S", "-incoming", "defer")
        before = source.changes()
        wait_for(lambda: source.changes() != before, "the processor changes memory")
        report = migrate(source, target, sys.argv[1:])
        sent, arrived = source.memory(), target.memory()
        if sent[PATTERN_AT:PATTERN_AT + PATTERN_BYTES] == bytes(PATTERN_BYTES):
            sys.exit("the source lacks its pattern")
        if sent != arrived:
            wrong = [page for page in range(0, MEMORY, 4096) if sent[page:page + 4096] != arrived[page:page + 4096]]
            sys.exit(f"{len(wrong)} pages differ, the first one at {wrong[0]:#x}")
        before = target.changes()
        target.do("cont")
        wait_for(lambda: target.changes() != before, "the processor goes on")
        source.quit()
        target.quit()
        ram = report["ram"]
        print(f"{ram['transferred'] >> 20} MiB in {report['total-time']} ms, paused for {report['downtime']} ms")


if __name__ == "__main__":
    main()
