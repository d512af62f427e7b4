# SPDX-License-Identifier: GPL-2.0
"""Locked instructions and transfers of two independent pairs of queue pairs; see 87-sharing.sh."""

import collections
import os
import struct
import subprocess
import time

import plugin
import tap

CPUS = (0, 1)
PORT = 18515
# Seconds that a program may take.
PATIENCE = 120
MODULE = {"ferroce": "ferroce", "rxe": "rdma_rxe"}[os.environ["DRIVER"]]
LIST = "/ferroce/sharing.list"

# The figures, in the order of the list, and so many of each that set-up and the clock may add to one run and not to the
# other. A line that is shared counts at least once per call, that is 100 times in 6400 messages of each pair.
FIGURES = ("locked", "behind", "transfers", "transfers_behind")
NOISE = (600, 1000, 100, 1000)
# Shown are the most frequent of each kind, from so many per message on.
SHOWN, LEAST = 24, 0.02

SYMBOLS = plugin.Symbols(MODULE)


def words(path, cpu, command, count):
    """The command lines of the server and of the client of a pair."""
    env = os.environ
    tool = ["taskset", "-c", str(cpu), *command.split(), "-N", "-F", "-n", str(count), "-p", str(PORT + cpu)]
    server = [*tool, "-d", env["DEV"], "-x", env["GID4"]]
    if path == "device":
        return server, [*server, env["ADDR"]]
    return server, [
        *("ip", "netns", "exec", "b"),
        *tool,
        *("-d", env["PEER_DEV"], "-x", env["PEER_GID4"], env["ADDR"]),
    ]


def listens(port):
    """Whether a server waits there."""
    return subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, check=True).stdout


def begin(line):
    """Starts a program."""
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def complaint(program):
    """Waits for a program; returns what it said if it failed."""
    try:
        said = program.communicate(timeout=PATIENCE)[0].decode()
    except subprocess.TimeoutExpired:
        program.kill()
        return f"no end after {PATIENCE} s: " + program.communicate()[0].decode()
    return f"returned {program.returncode}: {said}" if program.returncode else None


def run(path, command, count):
    """Runs both pairs at once; returns what the plugin counted."""
    pairs = [words(path, cpu, command, count) for cpu in CPUS]
    servers = [begin(server) for server, _ in pairs]
    end = time.monotonic() + 60
    while not all(listens(PORT + cpu) for cpu in CPUS):
        tap.true(time.monotonic() < end, "the servers listen within a minute")
        time.sleep(0.1)
    plugin.start()
    faults = [said for said in map(complaint, [begin(client) for _, client in pairs]) if said]
    # A server does not end by itself if its client has failed.
    for server in servers if faults else ():
        server.kill()
    faults += [said for said in map(complaint, servers) if said]
    result = plugin.stop()
    tap.true(not faults, "\n".join(faults))
    tap.true(result.taken * 20 <= result.turns, f"{result.taken} of {result.turns} turns did not end in time")
    return result


def is_ours(event):
    """Whether the module locks: itself, or in a function that it calls directly, such as one of a spinlock."""
    name, begin = SYMBOLS.function(event.address)
    if event.address in SYMBOLS.module or name.startswith(plugin.HELPER):
        return True
    return event.callee and begin == SYMBOLS.function(event.callee)[1]


def site(event):
    """The function of an address, and that of the module that ran before it."""
    text = SYMBOLS.place(event.address)
    if event.block and event.address not in SYMBOLS.module:
        text += f" after {SYMBOLS.place(event.block)}"
    return text


def note(text):
    """A comment on the result."""
    print(f"# {text}", flush=True)


def show(kind, sites):
    """The most frequent sites of a kind, with their number per message."""
    for text, number in sites.most_common(SHOWN):
        if number >= LEAST:
            note(f"{number:8.2f} {kind}: {text}")


class Figures:
    """What a message takes: the difference of two runs, the second of which has twice the messages."""

    def __init__(self, once, twice, count):
        messages = len(CPUS) * count
        self.locked = self.behind = self.elsewhere = self.program = 0
        self.sites = {"ours": collections.Counter(), "behind": collections.Counter()}
        locked = collections.Counter(twice.locked)
        locked.subtract(once.locked)
        for event, number in locked.items():
            number /= messages
            if event.context == plugin.USER:
                self.program += number
            elif not event.block:
                self.elsewhere += number
            elif is_ours(event):
                self.locked += number
                self.sites["ours"][site(event)] += number
            else:
                self.behind += number
                self.sites["behind"][site(event)] += number
        moved = {place: (twice.moved[place] - once.moved[place]) / messages for place in range(4)}
        self.transfers, self.transfers_behind = moved[plugin.OURS], moved[plugin.BEHIND]
        self.transfers_elsewhere = moved[plugin.KERNEL] + moved[plugin.PROGRAM]
        self.instructions = sum((twice.instructions - once.instructions).values()) / messages
        self.lines = self.moves(twice, 2 * messages)

    @staticmethod
    def moves(result, messages):
        """Transfers by site and, in the module, by line."""
        found = collections.Counter()
        for event, number in result.transfers.items():
            text = site(event)
            if event.address in SYMBOLS.module:
                text += f", of {SYMBOLS.variable(event.virtual)}, physical {event.physical:#x}"
            found[text] += number / messages
        return found

    def tell(self):
        """Prints all of it."""
        note(
            f"locked: {self.locked:.2f} ours, {self.behind:.2f} behind, {self.elsewhere:.2f} elsewhere,"
            f" {self.program:.2f} in programs; transfers: {self.transfers:.2f} ours, {self.transfers_behind:.2f}"
            f" behind, {self.transfers_elsewhere:.2f} elsewhere; {self.instructions:.0f} instructions"
        )
        for whose, sites in self.sites.items():
            show(f"locked, {whose}", sites)
        show("transfers", self.lines)


def measure(path, command, count):
    """The figures of one case. The first run reads the program from the disk, and fills caches."""
    run(path, command, 256)
    found = Figures(run(path, command, count), run(path, command, 2 * count), count)
    found.tell()
    return found


def case(line):
    """The test of one line of the list."""
    _, *expected, tolerance, count, path = line[:8]
    command = " ".join(line[8:])

    def judge():
        found = measure(path, command, int(count))
        if MODULE != "ferroce":
            return
        faults = []
        for name, most, noise in zip(FIGURES, map(float, expected), NOISE):
            number, room = getattr(found, name), most * int(tolerance) / 100 + noise / (len(CPUS) * int(count))
            if number > most + room:
                faults.append(f"{name}: {number:.2f}, expected {most:.2f}")
            elif number < most - room:
                note(f"{name}: {number:.2f}, less than expected; lower the number in the list")
        tap.true(not faults, "; ".join(faults))

    judge.__doc__ = f"{path}, {command}"
    return judge


def two_writers():
    """The plugin sees a line that two processors write."""
    rounds = 100000
    shared = plugin.shared_line()
    # mov $SHARED, %rax; lock incl 8(%rax); 1: cmpl $CPUS, 8(%rax); jne 1b
    loop = b"\x48\xb8" + struct.pack("<Q", shared) + b"\xf0\xff\x40\x08"
    loop += b"\x83\x78\x08" + bytes([len(CPUS)]) + b"\x75\xfa"
    # mov $ROUNDS, %ecx; 1: lock incq (%rax); dec %ecx; jnz 1b
    loop += b"\xb9" + struct.pack("<I", rounds) + b"\xf0\x48\xff\x00\xff\xc9\x75\xf8"
    plugin.start()
    children = []
    for cpu in CPUS:
        children.append(os.fork())
        if not children[-1]:
            os.sched_setaffinity(0, {cpu})
            plugin.execute(loop)
            os._exit(0)
    for child in children:
        os.waitpid(child, 0)
    result = plugin.stop()
    locked = sum(number for event, number in result.locked.items() if event.context == plugin.USER)
    tap.true(locked >= 2 * rounds, f"locked instructions: {locked} of {2 * rounds}")
    most = max(result.transfers, key=result.transfers.get)
    moved = result.transfers[most]
    note(f"{locked} locked instructions, {moved} transfers")
    tap.equal(most.virtual, shared, "the line")
    # The processors take turns of 500 instructions, and the loop has three.
    tap.true(moved >= 2 * rounds * 3 // 500 // 2, f"{moved} transfers")


def main():
    """Measures the cases of the list that are chosen."""
    os.sched_setaffinity(0, {CPUS[0]})
    SYMBOLS.tell()
    with open(LIST, encoding="ascii") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    everything = os.environ.get("SHARING") == "all"
    tap.run([two_writers], [case(line) for line in lines if everything or line[0] == "*"])


main()
