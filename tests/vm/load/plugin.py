# SPDX-License-Identifier: GPL-2.0
"""The guest's side of tests/plugin: commands, results, and names for the addresses in them."""

import bisect
import collections
import ctypes
import dataclasses
import functools
import mmap
import os
import struct

# As in the plugin.
MAGIC = 0xFE44C000
START, STOP, MODULE_BEGIN, MODULE_END, HELPERS_BEGIN, HELPERS_END, SCHEDULE, INTERRUPT = range(1, 9)
USER, TASK, IN_INTERRUPT = range(3)
OURS, BEHIND, KERNEL, PROGRAM = range(4)

# The plugin writes its result into the last MiB of the disk that has brought the job.
DISK = "/dev/vdb"
OFFSET, SIZE = 63 << 20, 1 << 20

RETURN = b"\xc3"

# The kernel's functions for Rust that stand for macros and inline functions of C.
HELPER = "rust_helper_"

# Memory that stays.
KEPT = []


@dataclasses.dataclass(frozen=True)
class Locked:
    """A locked instruction: its address, the block of the module that ran before it and the block after that, or 0,
    and the context."""

    address: int
    block: int
    callee: int
    context: int


@dataclasses.dataclass(frozen=True)
class Transfer:
    """An access that moved a line: likewise, and the physical and virtual address that was accessed."""

    address: int
    block: int
    physical: int
    virtual: int


class Result:
    """What was counted between START and STOP."""

    def __init__(self, text):
        self.instructions = collections.Counter()
        self.moved = collections.Counter()
        self.locked = collections.Counter()
        self.transfers = collections.Counter()
        self.turns = self.taken = 0
        lines = [line.split() for line in text.splitlines()]
        if ["end"] not in lines:
            raise RuntimeError("the plugin wrote no result, or half of one")
        for kind, *words in lines:
            self.read(kind, words)

    def read(self, kind, words):
        """One line of the result."""
        if kind == "instructions":
            self.instructions[int(words[0])] += int(words[1])
        elif kind == "moved":
            self.moved[int(words[0])] += int(words[1])
        elif kind == "turns":
            self.turns, self.taken = int(words[0]), int(words[1])
        elif kind == "locked":
            self.locked[Locked(*(int(word, 16) for word in words[1:]))] = int(words[0])
        elif kind == "transfer":
            self.transfers[Transfer(*(int(word, 16) for word in words[1:]))] = int(words[0])
        elif kind == "events":
            name, found, shown, lost = words
            # Of transfers only the most frequent are of interest; their sums are counted apart.
            if int(lost) or (name == "locked" and int(found) > int(shown)):
                raise RuntimeError(f"the plugin has no place for {lost} of {found} events: {name}")


def command(number, value=0):
    """The instructions that give a command."""
    return (
        b"\x0f\x1f\x84\x00"
        + struct.pack("<I", MAGIC | number)
        + b"\x0f\x1f\x80"
        + struct.pack("<I", value & 0xFFFFFFFF)
        + b"\x0f\x1f\x80"
        + struct.pack("<I", value >> 32)
    )


def execute(code):
    """Runs instructions."""
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code + RETURN)
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()


def shared_line():
    """The address of a line of zeros that a child shares."""
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    KEPT.append(memory)
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def start():
    """Begins to count, from zero."""
    execute(command(START))


def stop():
    """Ends the counting and returns what was counted."""
    execute(command(STOP))
    disk = os.open(DISK, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, SIZE)
    # Direct: the page cache would show an earlier result.
    os.preadv(disk, [buffer], OFFSET)
    os.close(disk)
    return Result(buffer.read().rstrip(b"\0").decode("ascii"))


class Symbols:
    """The kernel's symbols, and those of a module."""

    def __init__(self, module):
        names, variables = {}, {}
        self.interrupts = []
        self.schedule = 0
        inside, helpers = [], []
        with open("/proc/kallsyms", encoding="ascii") as file:
            for line in file:
                address, kind, name, *of = line.split()
                address = int(address, 16)
                if kind in "bBdD":
                    variables[address] = name
                if kind not in "tTwW" or name.startswith((".Ltmp", "__pfx_")):
                    continue
                names[address] = name
                if of == [f"[{module}]"]:
                    inside.append(address)
                elif name.startswith(HELPER):
                    helpers.append(address)
                elif name == "__schedule":
                    self.schedule = address
                elif name.startswith("asm_sysvec_") or name == "asm_common_interrupt":
                    self.interrupts.append(address)
        self.addresses = sorted(names)
        self.names = [names[address] for address in self.addresses]
        self.variables = sorted(variables.items())
        # The length of the last function is not known; nothing but the module is on its last page.
        self.module = range(min(inside), (max(inside) // mmap.PAGESIZE + 1) * mmap.PAGESIZE)
        self.helpers = range(min(helpers, default=0), max(helpers, default=0))

    def tell(self):
        """Tells the plugin where the module and the entries of the kernel are."""
        code = b"".join(command(INTERRUPT, address) for address in self.interrupts)
        code += command(MODULE_BEGIN, self.module.start) + command(MODULE_END, self.module.stop)
        code += command(HELPERS_BEGIN, self.helpers.start) + command(HELPERS_END, self.helpers.stop)
        execute(code + command(SCHEDULE, self.schedule))

    def function(self, address):
        """The name of the function at an address, and where it begins."""
        index = bisect.bisect(self.addresses, address) - 1
        if index < 0 or not address >> 63:
            return "a program", 0
        return readable(self.names[index]), self.addresses[index]

    def variable(self, address):
        """An address, and the variable with a name that it is near behind; allocated memory has none."""
        index = bisect.bisect(self.variables, (address + 1,)) - 1
        if index >= 0 and address - self.variables[index][0] < mmap.PAGESIZE:
            return f"{address:#x} ({readable(self.variables[index][1])}+{address - self.variables[index][0]:#x})"
        return f"{address:#x}"

    def place(self, address):
        """FUNCTION+OFFSET; an address of a program differs from run to run, and is not shown."""
        name, begin = self.function(address)
        return f"{name}+{address - begin:#x}" if begin else name


@functools.cache
def readable(name):
    """The end of the path in a mangled name of Rust; other names as they are."""
    if not name.startswith("_R"):
        return name
    parts, i = [], 2
    while i < len(name):
        if name[i] in "sB" and "_" in name[i:]:
            # A disambiguator, or a reference to an earlier part.
            end = name.index("_", i)
            if name[i + 1 : end].isalnum() or end == i + 1:
                i = end + 1
                continue
        end = i
        while end < len(name) and name[end].isdigit():
            end += 1
        if end == i:
            i += 1
            continue
        length = int(name[i:end])
        end += name[end : end + 1] == "_"
        parts.append(name[end : end + length])
        i = end + length
    return "::".join(part for part in parts[-4:] if part)
