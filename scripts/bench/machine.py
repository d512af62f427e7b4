# SPDX-License-Identifier: GPL-2.0
"""On what machine and of what sources something was measured, and how busy the machine was."""

import contextlib
import os
import pathlib
import platform
import subprocess
import time


#: Whose versions matter: the measuring programs, and the library below them.
PACKAGES = ("perftest", "qperf", "iperf3", "ibverbs-providers")
#: Twice the pages of the largest region that is registered.
MAPPINGS = 2 << 20


def _first(path, name):
    """The value of the first line `NAME : VALUE` of a file."""
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return None


def _says(*command):
    """The output of a command; nothing if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def memory_for_guest():
    """How much the guest gets: enough to register 4 GiB, where the machine has that to spare."""
    available = int((_first("/proc/meminfo", "MemAvailable") or "0 kB").split()[0]) >> 20
    return "7G" if available >= 16 else "3G"


def load():
    """How many processes wanted to run: over the last minute, and over five."""
    return list(os.getloadavg()[:2])


@contextlib.contextmanager
def awake():
    """Keeps idle processors from sleeping as long as it is held, if permitted (see the kernel's
    Documentation/power/pm_qos_interface.rst). Returns whether they stay awake.

    A user-mode kernel hands each system call from thread to thread. On a virtual processor that sleeps, each hand-over
    costs some ten microseconds, and a machine with nothing else to do is slower than a busy one.
    """
    try:
        latency = open("/dev/cpu_dma_latency", "wb", buffering=0)  # pylint: disable=consider-using-with
    except OSError:
        yield False
        return
    with latency:
        latency.write((0).to_bytes(4, "little"))
        yield True


@contextlib.contextmanager
def many_mappings():
    """Allows a process one mapping per page as long as it is held, if permitted.

    A user-mode kernel maps the memory of its processes page by page. For 1 GiB that exceeds Linux's default limit,
    and registering that much would fail.
    """
    limit = pathlib.Path("/proc/sys/vm/max_map_count")
    try:
        before = int(limit.read_text(encoding="ascii"))
        limit.write_text(f"{max(before, MAPPINGS)}\n", encoding="ascii")
    except OSError:
        yield
        return
    try:
        yield
    finally:
        limit.write_text(f"{before}\n", encoding="ascii")


def description(tree):
    """What stays the same during a run."""
    scripts = os.path.join(tree, "scripts")
    kernel = _says(os.path.join(scripts, "kernel", "kernel.sh"), "-k", "uml")
    release = None
    if kernel:
        with open(os.path.join(kernel, "release"), encoding="ascii") as file:
            release = file.read().strip()
    query = ("dpkg-query", "-Wf", "${Package} ${Version}\n")
    versions = _says(os.path.join(scripts, "root", "in-root.sh"), *query, *PACKAGES)
    return {
        "processor": _first("/proc/cpuinfo", "model name"),
        "mhz": _first("/proc/cpuinfo", "cpu MHz"),
        "processors": os.cpu_count(),
        "memory": _first("/proc/meminfo", "MemTotal"),
        "host": platform.release(),
        "virtual": _says("systemd-detect-virt"),
        "kernel": release,
        # Emulated machines are as fast as it: before 8.2 it emulates PCLMULQDQ bit by bit.
        "qemu": (_says("qemu-system-x86_64", "--version") or "none").splitlines()[0],
        # Of the module, see tests/vm/lib/lib.sh; empty for everything as it comes.
        "settings": os.environ.get("VM_ENV", ""),
        "commit": _says("git", "-C", tree, "describe", "--always", "--dirty", "--abbrev=12"),
        "packages": dict(line.split() for line in (versions or "").splitlines() if " " in line),
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
    }
