# SPDX-License-Identifier: GPL-2.0
"""Processor time of a user-mode machine, as its host accounts it.

The machine is a process (its kernel, with one thread per processor) and that process's children (the programs
in it). The host counts all of it exactly; the guest counts ticks. Reads only /proc of the host.
"""

import os

TICKS = os.sysconf("SC_CLK_TCK")


def parse_stat(text):
    """(parent, seconds of the process and of its children that have ended) from /proc/PID/stat."""
    # The name stands in parentheses and may hold anything.
    words = text.rpartition(")")[2].split()
    return int(words[1]), sum(int(word) for word in words[11:15]) / TICKS


def processes():
    """{pid: (parent, seconds)} of all processes."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    found[int(name)] = parse_stat(file.read())
            except OSError:
                continue
    return found


def descendants(table, root):
    """A process and all below it, the nearest first."""
    children = {}
    for pid, (parent, _seconds) in table.items():
        children.setdefault(parent, []).append(pid)
    below, waiting = [], [root]
    while waiting:
        pid = waiting.pop(0)
        below.append(pid)
        waiting.extend(children.get(pid, ()))
    return below


def machine(root):
    """The process of the user-mode kernel below a process, the one nearest to it; nothing if there is none."""
    for pid in descendants(processes(), root):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                if file.read().strip() == "vmlinuz":
                    return pid
        except OSError:
            continue
    return None


def used(root):
    """Seconds of processor time that a process and all below it have used up to now."""
    table = processes()
    return sum(table[pid][1] for pid in descendants(table, root) if pid in table)
