# SPDX-License-Identifier: GPL-2.0
"""One thread of a hostile process: random verbs, and random changes of its queues and its memory. hostile_verbs.py
selects the seed and defines the process.

Most arguments make sense, so that there are objects and traffic; some make none.
"""

import ctypes
import errno
import mmap
import os
import random
import signal
import struct
import threading

import ring_direct
import ring_rxe
import uverbs
from rc import PAGE
from ring import receive_element, send_element
from ud import gid_bytes

THREADS = 4
MEMORY = 64 * PAGE
# Address of this memory: the kernel places no other mapping there, so that wild unmaps and stores do not hit Python's
# own memory.
ALONE = 1 << 36
WILD = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF888000000000, (1 << 64) - 1, (1 << 64) - PAGE)
RC, UC, UD, INITIATOR, TARGET = 2, 3, 4, 9, 10
# Access flags: read and write for all, on demand.
ON_DEMAND = 0x47
# Steps of modify_qp from RESET to RTS: (state, mask) by type of QP.
STEPS = {RC: ((1, 0x39), (2, 0x129181), (3, 0x12E01)), UC: ((1, 0x39), (2, 0x101181), (3, 0x10001)),
         UD: ((1, 0x71), (2, 0x1), (3, 0x10001)), INITIATOR: ((1, 0x39), (2, 0x101181), (3, 0x12E01)),
         TARGET: ((1, 0x39), (2, 0x129181), (3, 0x10201))}
# The ABIs that a context of the device may have. That of rdma_rxe is the default of some devices only.
ABIS = (ring_rxe, ring_direct) if (os.environ["DRIVER"], uverbs.ABI) == ("ferroce", ring_rxe) else (uverbs.ABI,)
PROT_NONE, PROT_READ, PROT_WRITE, MAP_SHARED, MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS = 0, 1, 2, 1, 2, 16, 32

libc = uverbs.libc
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.madvise.argtypes = libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Context:
    """One open device of a process, and the objects created in it."""

    def __init__(self, path, abi):
        self.abi = abi
        self.descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.pools = {name: [] for name in ("pd", "ah", "mr", "mw", "channel", "cq", "qp", "srq", "xrcd")}
        # QPs as {handle: (QPN, type)}; MRs as (lkey, rkey).
        self.pairs, self.keys = {}, []
        # Handles of targets that were opened. The core (ib_uverbs_open_qp, at least up to 7.3) does not initialize the
        # lock of their groups: they are neither attached nor detached.
        self.reopened = set()
        self.mappings = []
        # Joined groups: (group, QP).
        self.groups = []
        # [address, bytes] of mapped rings.
        self.rings = []


class Process:
    """The state that the threads of one process share."""

    def __init__(self, tally, buffer):
        # The descriptor of a DMA buffer, or -1.
        self.tally, self.buffer = tally, buffer
        self.path = device_path()
        # MRs begin in the first half and may end in the second.
        self.memory = libc.mmap(ALONE, 2 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        self.answers = mmap.mmap(-1, THREADS * PAGE)
        self.answer = ctypes.addressof(ctypes.c_char.from_buffer(self.answers))
        self.contexts = [self.opened(number) for number in range(2)]
        # Rings are not written while another thread unmaps them.
        self.lock = threading.Lock()

    def opened(self, number):
        """Opens another context of the device, whose ABI depends on a number."""
        context = Context(self.path, ABIS[number % len(ABIS)])
        uverbs.get_context(context.descriptor, context.abi)
        return context


def device_path(device=None):
    """The character device of a device, by default of DEV."""
    folder = "/sys/class/infiniband_verbs"
    for name in os.listdir(folder):
        if name.startswith("uverbs"):
            with open(f"{folder}/{name}/ibdev", encoding="ascii") as file:
                if file.read().strip() == (device or os.environ["DEV"]):
                    return f"/dev/infiniband/{name}"
    raise AssertionError("no such device")


class Hand:
    """One thread; its script supplies the numbers of its actions (feedback.py)."""

    def __init__(self, process, number, script):
        self.process, self.script = process, script
        self.chance = random.Random()
        self.answer = process.answer + number * PAGE
        self.context = process.contexts[0]
        self.makers = self.made()

    # ---- fields ------------------------------------------------------------------------------

    def field(self, kind, size):
        """A sensible value for a kind of field."""
        chance, context = self.chance, self.context
        pool = context.pools.get(kind)
        if kind == "channel" and chance.random() < 0.5:
            return -1
        if pool is not None:
            return chance.choice(pool) if pool else chance.randrange(8)
        if kind in ("noise", "padding"):
            return chance.randbytes(size) if kind == "noise" else b""
        return self.makers[kind](size)

    def made(self):
        """Generators of values of each kind, for a field size in bytes."""
        chance = self.chance
        return {
            "answer": lambda _: self.answer, "any": lambda size: chance.getrandbits(8 * size), "zero": lambda _: 0,
            "one": lambda _: 1, "few": lambda _: chance.randrange(8), "flag": lambda _: chance.randrange(6) == 0,
            "byte": lambda _: chance.randrange(256), "count": lambda _: chance.choice((1, 4, 16, 64, 300)),
            "pieces": lambda _: chance.choice((1, 1, 2, 8)), "inline": lambda _: chance.choice((0, 0, 64, 200)),
            "address": lambda _: self.process.memory + chance.randrange(MEMORY // PAGE) * PAGE,
            "length": lambda _: chance.choice((1, 100, PAGE, 3 * PAGE, 8 * PAGE)),
            "access": lambda _: chance.choice((1, 7, 15, 31, 0x47, chance.getrandbits(9))),
            "kind": lambda _: chance.choice((RC, RC, UC, UD, INITIATOR, chance.randrange(16))),
            "file": lambda _: chance.choice((-1, -1, -1, chance.randrange(8))),
            "create": lambda _: chance.choice((os.O_CREAT, os.O_CREAT, chance.getrandbits(8))),
            "shared": lambda _: chance.choice((1, 1, 1, chance.randrange(4))),
            "window": lambda _: chance.choice((1, 2)), "element": lambda _: chance.choice((128, 16, 144, 0)),
            "gid": lambda _: gid_bytes(os.environ["ADDR"]), "gid_index": lambda _: int(os.environ["GID4"]),
            "group": lambda _: gid_bytes(f"239.1.1.{chance.randrange(4)}"), "flow": lambda _: chance.getrandbits(20),
            "hops": lambda _: 64, "mask": lambda _: chance.getrandbits(21), "qkey": lambda _: 0x11111111,
            "psn": lambda _: 0x1000, "qpn": lambda _: self.some_qpn(), "state": lambda _: chance.randrange(8),
            "mtu": lambda _: chance.randrange(1, 6),
        }

    def some_qpn(self):
        """The QPN of some QP of this context, or any number."""
        pairs = list(self.context.pairs.values())
        return self.chance.choice(pairs)[0] if pairs else self.chance.getrandbits(24)

    def issue(self, command, given=None):
        """Issues a command with random fields, except for those given by kind; returns 0 or the error."""
        chance = self.chance
        form, kinds, sizes = uverbs.LAYOUTS[command]
        values = [(given or {}).get(kind, None) for kind in kinds]
        values = [self.field(kind, size) if value is None else value
                  for value, kind, size in zip(values, kinds, sizes)]
        for _ in range(chance.choice((0, 0, 0, 0, 1, 2)) if given is None else 0):
            at = chance.randrange(len(values))
            if not isinstance(values[at], bytes):
                values[at] = chance.choice((*WILD, chance.getrandbits(64)))
        fixed = [value if isinstance(value, bytes) else int(value) & (1 << 8 * size) - 1
                 for value, size in zip(values, sizes)]
        body = struct.pack(form.replace("i", "I"), *fixed)
        words = None
        if given is None and chance.random() < 0.02:
            body, words = chance.choice(((body[:chance.randrange(len(body))], None), (body, chance.randrange(64)),
                                         (chance.randbytes(len(body)), None)))
        if command in (uverbs.ATTACH_MCAST, uverbs.DETACH_MCAST) and fixed[kinds.index("qp")] in self.context.reopened:
            return errno.EINVAL
        error = uverbs.issue(self.context.descriptor, uverbs.request(command, body, self.answer, words))
        self.process.tally.add(command, error)
        if not error and command == uverbs.OPEN_QP:
            self.context.reopened.add(struct.unpack_from("=I", ctypes.string_at(self.answer, 4))[0])
        if not error and words is None:
            self.learn(command, values, kinds)
        return error

    def learn(self, command, values, kinds):
        """Records created and destroyed objects."""
        context = self.context
        answer = ctypes.string_at(self.answer, 128)
        handle = struct.unpack_from("=I", answer)[0]
        for name, destroy in uverbs.DESTROY.items():
            if destroy == command:
                gone = values[kinds.index(name)]
                if gone in context.pools[name]:
                    context.pools[name].remove(gone)
                context.pairs.pop(gone if name == "qp" else None, None)
        made = uverbs.COMMANDS[command][1]
        if made:
            context.pools[made].append(handle)
        if command == uverbs.ATTACH_MCAST:
            context.groups = context.groups[-20:] + [(values[0], values[1])]
        if command == uverbs.REG_MR:
            context.keys = context.keys[-20:] + [(struct.unpack_from("=II", answer, 4), values[1], values[2])]
        if made == "qp":
            context.pairs[handle] = struct.unpack_from("=I", answer, 4)[0], values[kinds.index("kind")]
        for at in uverbs.RINGS.get(command, ()):
            offset, size = struct.unpack_from("=QI", answer, at)
            if 0 < size < 1 << 22:
                context.mappings = context.mappings[-30:] + [(offset, size)]

    # ---- actions -------------------------------------------------------------------------------

    def play(self):
        """Runs one random action, or a plan in a context of its own."""
        plan = self.script.plan()
        if plan is None:
            self.context = self.script.chance.choice(self.process.contexts)
            self.act(self.script.number())
            self.script.learn()
            return
        self.context = self.process.opened(plan[0])
        try:
            for at, number in enumerate(plan):
                self.act(number)
                self.script.learn(plan[:at + 1])
        finally:
            self.end(self.context)
            self.script.learn(plan)

    def act(self, number):
        """Runs the action of a number."""
        chance = self.chance
        chance.seed(number)
        kind = chance.random()
        if kind < 0.55:
            self.verb()
        elif kind < 0.70:
            self.connect()
        elif kind < 0.90:
            self.queue()
        elif kind < 0.94:
            self.take_memory()
        elif kind < 0.96:
            self.call()
        elif kind < 0.98:
            self.advise_or_borrow()
        elif kind < 0.99:
            if chance.random() < 0.1:
                self.fork()
        else:
            self.open_again()

    def verb(self):
        """Issues any command; creation is rarer once many objects exist."""
        chance = self.chance
        command = chance.choice(list(uverbs.COMMANDS))
        made = uverbs.COMMANDS[command][1]
        if made and len(self.context.pools[made]) > 12 and made != "channel":
            command = uverbs.DESTROY[made]
        elif made == "channel" and len(self.context.pools[made]) > 5:
            os.close(self.context.pools[made].pop(0))
            return
        elif command in uverbs.DESTROY.values() and chance.random() < 0.6:
            return
        elif command in (uverbs.ATTACH_MCAST, uverbs.DETACH_MCAST) and chance.random() < 0.7:
            self.join(command)
            return
        if chance.random() < 0.5:
            self.supply(command)
        if command in (uverbs.CREATE_QP, uverbs.OPEN_QP) and chance.random() < 0.3:
            self.target()
            return
        self.issue(command)

    def target(self):
        """Creates a target in a domain, and opens it once more."""
        self.supply(uverbs.OPEN_QP)
        domain = self.field("xrcd", 4)
        if not self.issue(uverbs.CREATE_QP, {"kind": TARGET, "pd": domain, "few": 0, "flag": 0, "zero": 0}):
            qpn = struct.unpack_from("=I", ctypes.string_at(self.answer, 8), 4)[0]
            self.issue(uverbs.OPEN_QP, {"kind": TARGET, "xrcd": domain, "qpn": qpn})

    def supply(self, command):
        """Creates one object of each missing kind that a command refers to."""
        for name in uverbs.LAYOUTS[command][1]:
            if name in uverbs.CREATE and not self.context.pools[name]:
                self.supply(uverbs.CREATE[name])
                self.issue(uverbs.CREATE[name], {})

    def join(self, command):
        """Attaches a UD QP, if necessary a new one, to a group, or detaches it from a group that it joined."""
        chance, context = self.chance, self.context
        groups = [(group, qp) for group, qp in context.groups if qp in context.pairs]
        if command == uverbs.DETACH_MCAST and groups:
            self.issue(command, dict(zip(("group", "qp"), chance.choice(groups))))
            return
        pairs = [handle for handle, (_, kind) in context.pairs.items() if kind == UD]
        if not pairs:
            self.issue(uverbs.CREATE_QP, {"kind": UD})
        elif not self.issue(uverbs.ATTACH_MCAST, {"qp": chance.choice(pairs)}) and chance.random() < 0.3:
            self.issue(uverbs.DETACH_MCAST, dict(zip(("group", "qp"), context.groups[-1])))

    def connect(self):
        """Moves two QPs of a type, or one with itself, to RTS."""
        chance = self.chance
        pairs = list(self.context.pairs.items())
        if not pairs:
            return
        one, (number, kind) = chance.choice(pairs)
        other, (peer, other_kind) = chance.choice(pairs)
        if kind != {INITIATOR: TARGET, TARGET: INITIATOR}.get(other_kind, other_kind) or kind not in STEPS:
            return
        for handle, qpn, own in ((one, peer, kind), (other, number, other_kind)):
            self.issue(uverbs.MODIFY_QP, {"qp": handle, "mask": 1, "state": 0})
            for state, mask in STEPS[own]:
                command = chance.choice((uverbs.MODIFY_QP, uverbs.EXTENDED | uverbs.MODIFY_QP))
                self.issue(command, {"qp": handle, "mask": mask, "state": state, "qpn": qpn, "mtu": 3, "access": 15})

    def queue(self):
        """Maps a ring, writes into it, takes completions, or unmaps it; then rings the doorbell."""
        chance, context = self.chance, self.context
        with self.process.lock:
            if context.mappings and len(context.rings) < 24 and chance.random() < 0.5:
                offset, size = chance.choice(context.mappings)
                start = libc.mmap(None, size, PROT_READ | PROT_WRITE, MAP_SHARED, context.descriptor, offset)
                failed = start == ctypes.c_void_p(-1).value
                self.process.tally.add(uverbs.MAPPING, failed)
                if not failed:
                    context.rings.append((start, size))
            if context.rings and chance.random() < 0.05:
                start, size = context.rings.pop(chance.randrange(len(context.rings)))
                libc.munmap(start, size)
            elif context.rings:
                self.write(*chance.choice(context.rings))
        for handle in chance.sample(context.pools["qp"], min(4, len(context.pools["qp"]))):
            self.issue(uverbs.POST_SEND, {"qp": handle, "few": 0, "element": 128, "noise": b""})

    def write(self, start, size):
        """Writes elements, indices or random words into one ring."""
        chance, abi = self.chance, self.context.abi
        word = ctypes.c_uint32.from_address
        size_of_element, places = abi.shape(*(word(start + at).value for at in abi.SHAPE))
        room = (size - abi.DATA) // size_of_element
        if chance.random() < 0.1:
            word(start + chance.randrange(size // 4) * 4).value = chance.choice((0, 7, 0xFFFFFFFF,
                                                                                 chance.getrandbits(32)))
        if size_of_element <= 64 and chance.random() < 0.5:
            # Possibly a CQ ring: consume all completions.
            word(start + abi.CONSUMER).value = word(start + abi.PRODUCER).value
            return
        for _ in range(chance.randrange(1, 4)):
            data = self.element(size_of_element)
            index = word(start + abi.PRODUCER).value
            place = (index & places - 1) % max(room, 1)
            at = start + abi.DATA + place * size_of_element
            ctypes.memmove(at, data, min(len(data), size_of_element, start + size - at))
            word(start + abi.PRODUCER).value = abi.index(index + 1, places)

    def element(self, size):
        """A WQE, a send WQE if the slot is large enough."""
        chance, abi = self.chance, self.context.abi
        pieces = []
        for _ in range(chance.choice((1, 1, 1, 2, 0))):
            (lkey, _), start, length = self.region()
            pieces.append((start, min(length, chance.choice((0, 8, 100, 5000, MEMORY))), lkey))
        (_, rkey), start, _ = self.region()
        total = sum(length for _, length, _ in pieces)
        if size <= abi.RECEIVE_BYTES + 128 and chance.random() < 0.5 or size < abi.SEND_BYTES:
            return receive_element(pieces, {"wr_id": 1, "num_sge": len(pieces), "length": total}, abi)
        fields = {"wr_id": 1, "opcode": chance.choice((0, 1, 2, 3, 4, 5, 6, 8, 9, 14, 15, chance.randrange(256))),
                  "flags": chance.choice((2, 2, 3, 6, chance.getrandbits(5))), "remote": start, "rkey": rkey,
                  "num_sge": len(pieces), "length": total}
        if chance.random() < 0.3:
            fields[chance.choice(list(abi.SEND))] = chance.choice(WILD)
        return send_element(pieces, fields, abi)

    def region(self):
        """((lkey, rkey), start, length) of some MR."""
        keys = self.context.keys
        return self.chance.choice(keys) if keys else ((1, 1), self.process.memory, PAGE)

    def take_memory(self):
        """Unmaps, remaps, protects or discards memory under MRs."""
        chance, memory = self.chance, self.process.memory
        start, pages = chance.randrange(MEMORY // PAGE), chance.randrange(1, 9)
        where, size = memory + start * PAGE, min(pages * PAGE, MEMORY - start * PAGE)
        chance.choice((
            lambda: libc.mmap(where, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            lambda: libc.munmap(where, size), lambda: libc.mprotect(where, size, chance.choice((0, 1, 3))),
            lambda: libc.madvise(where, size, chance.choice((4, 8, 9, 10, 11, 21))),
            lambda: libc.mmap(memory, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        ))()

    def call(self):
        """An ioctl with random attributes; some would destroy an object."""
        chance = self.chance
        if chance.random() < 0.3:
            self.destroy(chance.choice(list(uverbs.OBJECTS)))
            return
        attributes = []
        for number in range(chance.randrange(6)):
            datum = chance.choice((chance.randrange(16), self.answer, chance.choice(WILD)))
            attributes.append((chance.choice((number, 0x1000, 0x1001, chance.randrange(16))),
                               chance.choice((0, 4, 8, 64, chance.getrandbits(16))), chance.randrange(2), datum))
        error = uverbs.ioctl(self.context.descriptor, chance.randrange(20), chance.randrange(9), attributes)
        self.process.tally.add(uverbs.ANY_CALL, error)

    def destroy(self, name):
        """Destroys an object by its method with space for the response, or with random ones."""
        chance, (method, size) = self.chance, uverbs.DESTROYING[name]
        if chance.random() < 0.5:
            self.supply(uverbs.DESTROY[name])
        else:
            method, size = chance.randrange(2), chance.choice((0, 4, 8))
        pool, handle = self.context.pools[name], self.field(name, 4)
        attributes = [(0, 0, uverbs.MANDATORY, handle), (1, size, 0, self.answer)]
        error = uverbs.ioctl(self.context.descriptor, uverbs.OBJECTS[name], method, attributes)
        self.process.tally.add(uverbs.ANY_CALL, error)
        if not error and handle in pool:
            pool.remove(handle)
            self.context.pairs.pop(handle if name == "qp" else None, None)

    def advise_or_borrow(self):
        """Advises parts of MRs, or registers a DMA buffer, with arguments that mostly make sense."""
        chance, context = self.chance, self.context
        if chance.random() < 0.7:
            pieces, domain = [], self.field("pd", 4)
            fresh = chance.random() < 0.5 and not self.issue(uverbs.REG_MR, {
                "pd": domain, "access": ON_DEMAND, "address": self.makers["address"](8)})
            for _ in range(chance.choice((1, 1, 2, 5))):
                (lkey, _), start, length = context.keys[-1] if fresh else self.region()
                pieces.append((start & (1 << 64) - 1, min(length, chance.choice((8, 5000, PAGE))) & 0xFFFFFFFF, lkey))
            error = uverbs.advise_mr(context.descriptor, domain, chance.choice((0, 1, 2, chance.randrange(9))),
                                     chance.choice((0, 1, 1, 2)), pieces)
            self.process.tally.add(uverbs.ADVICE, error)
            return
        buffer = chance.choice((self.process.buffer, self.process.buffer, chance.randrange(40)))
        place = chance.choice((0, 0, PAGE, 100)), chance.choice((PAGE, 8 * PAGE, chance.choice(WILD))), 1 << 32
        error, handle, keys = uverbs.reg_dmabuf_mr(context.descriptor, self.field("pd", 4), place, buffer,
                                                   chance.choice((1, 7, 15)))
        self.process.tally.add(uverbs.BUFFER, error)
        if not error:
            context.pools["mr"].append(handle)
            context.keys = context.keys[-20:] + [(keys, place[2], place[1])]

    def fork(self):
        """Forks a child that inherits everything, issues some commands, and exits without clean-up."""
        child = os.fork()
        if not child:
            try:
                signal.alarm(1)
                for _ in range(self.chance.randrange(5)):
                    self.verb()
            finally:
                os._exit(0)
        os.waitpid(child, 0)

    def open_again(self):
        """Closes one context with all its objects, and opens another."""
        process = self.process
        with process.lock:
            old = process.contexts.pop(self.chance.randrange(len(process.contexts)))
        process.contexts.append(process.opened(self.chance.randrange(2)))
        self.end(old)

    def end(self, context):
        """Closes a context; its mappings may remain."""
        unmap = self.chance.random() < 0.5
        with self.process.lock:
            for start, size in context.rings if unmap else ():
                libc.munmap(start, size)
            context.rings = []
        for descriptor in context.pools["channel"]:
            os.close(descriptor)
        os.close(context.descriptor)
