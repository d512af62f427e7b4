# SPDX-License-Identifier: GPL-2.0
"""Completion counters: what the operations of each service count, by loopback and over the network. By ioctls, as not
every libibverbs has the verbs. With TOPOLOGY=netns the peer is PEER_DEV, else the device itself.
"""

import ctypes
import errno
import functools
import os
import signal

from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR, SendWR

import enums as e
import uverbs
from libibverbs import Library
from rc import FULL_ACCESS, PORT, End, context, eventually, gid_index, opened, own_context
from tap import Skip, equal, needs_core, run, true
from ud import QKEY, UdEnd
from uverbs import (CNTR_READ, CNTR_RECV, CNTR_REMOTE_READ, CNTR_REMOTE_WRITE, CNTR_SEND, CNTR_WRITE, COMPLETED,
                    FAILED)
from verbs import resources
from work import FLUSHED, OK, READ, SEND, SEND_IMM, SIGNALED, WRITE, WRITE_IMM, fill, pattern, piece, status
from xrc import Initiator, Target, domain_of

# A function of the RDMA cores that have counters; what is said of those that do not.
CORE, LACK = "ib_uverbs_handler_UVERBS_METHOD_COMP_CNTR_READ", "has no completion counters, as before Linux 7.3"
OPS = CNTR_SEND, CNTR_RECV, CNTR_READ, CNTR_WRITE, CNTR_REMOTE_WRITE
ALL = sum(OPS)
# FERROCE_ATTR_CREATE_COMP_CNTR_TYPE and its values.
TYPE = 0x1000
WRS, BYTES = 0, 1
SET, ADDS = 0, 1
MANY = 1 << 64
ACROSS = os.environ["TOPOLOGY"] == "netns"
IMPAIR = f"/sys/kernel/debug/ferroce/{os.environ['DEV']}/impair"
SIZE = 1 << 18
# A READ of this length is more than one on the wire.
LONG = 200_000
REQUESTS = ((SEND, 100), (WRITE, 3000), (SEND, 0), (WRITE, 0), (WRITE_IMM, 500), (SEND_IMM, 2000))
READS = ((READ, LONG), (READ, 7))
COUNTS = {SEND: CNTR_SEND, SEND_IMM: CNTR_SEND, WRITE: CNTR_WRITE, WRITE_IMM: CNTR_WRITE, READ: CNTR_READ}


class Counter:
    """A completion counter."""

    def __init__(self, kind=None, ctx=None):
        self.descriptor = (ctx or context()).cmd_fd
        kind = [] if kind is None else [(TYPE, 8, kind)]
        error, self.handle = uverbs.create_comp_cntr(self.descriptor, *kind)
        equal(error, 0, "create")

    def attach(self, end, ops):
        """Counts operations of an end; returns 0, or the errno."""
        return uverbs.attach_comp_cntr(self.descriptor, end.handle, self.handle, ops)

    def read(self):
        """Returns the numbers of successes and of failures."""
        found = [uverbs.read_comp_cntr(self.descriptor, self.handle, entry) for entry in (COMPLETED, FAILED)]
        equal([error for error, _ in found], [0, 0], "read")
        return tuple(value for _, value in found)

    def modify(self, entry, op, value):
        """Changes one of the values; returns 0, or the errno."""
        return uverbs.modify_comp_cntr(self.descriptor, self.handle, entry, op, value)

    def destroy(self):
        """Destroys it; returns 0, or the errno."""
        return uverbs.destroy_comp_cntr(self.descriptor, self.handle)


def made(kind, *args, ctx=None, **named):
    """Creates an end, and finds the handle of its QP."""
    before = uverbs.handles((ctx or context()).cmd_fd, "qp")
    end = kind(*args, ctx=ctx, **named) if ctx else kind(*args, **named)
    end.handle, = uverbs.handles(end.ctx.cmd_fd, "qp") - before
    return end


class Counters:
    """A counter for each operation of an end."""

    def __init__(self, end, kind=WRS):
        self.of = {op: Counter(kind, end.ctx) for op in OPS}
        for op, counter in self.of.items():
            equal(counter.attach(end, op), 0, f"attach {op}")

    def read(self):
        """Returns the values of the counters that have counted."""
        found = {op: counter.read() for op, counter in self.of.items()}
        return {op: values for op, values in found.items() if values != (0, 0)}

    def close(self):
        """Destroys them; the end is closed."""
        equal({counter.destroy() for counter in self.of.values()}, {0}, "destroy")


class counted:  # pylint: disable=invalid-name
    """`with counted(WRS) as (a, b, of_a, of_b)`: two connected ends, and their counters."""

    def __init__(self, kind=WRS, **settings):
        self.places = [opened("DEV"), opened("PEER_DEV")] if ACROSS else [(context(), gid_index())] * 2
        self.ends = [made(End, ctx=ctx, size=SIZE, **settings) for ctx, _ in self.places]
        self.counters = [Counters(end, kind) for end in self.ends]

    def connect(self):
        """Moves both ends from RESET to RTS."""
        gids = [gid for _, gid in self.places]
        for this, other in ((0, 1), (1, 0)):
            peer = self.ends[other]
            self.ends[this].to_rts(peer.qp.qp_num, gid=gids[this], dgid=peer.gid(gids[other]))

    def __enter__(self):
        self.connect()
        return *self.ends, *self.counters

    def __exit__(self, *_):
        for end in self.ends:
            end.close()
        for counters in self.counters:
            counters.close()
        if ACROSS:
            for ctx, _ in self.places:
                ctx.close()


def supported():
    """The device reports which operations it counts, and how many counters there may be"""
    equal(uverbs.comp_cntr_caps(context().cmd_fd), (0, (1 << 20, MANY - 1, ALL)))


def values():
    """Both values are set, increased and read, each by itself, and wrap around"""
    counter = Counter()
    equal(counter.read(), (0, 0), "at first")
    equal((counter.modify(COMPLETED, SET, MANY - 2), counter.modify(FAILED, SET, 5)), (0, 0), "set")
    equal(counter.read(), (MANY - 2, 5), "set")
    equal((counter.modify(COMPLETED, ADDS, 3), counter.modify(FAILED, ADDS, 0)), (0, 0), "increase")
    equal(counter.read(), (1, 5), "increased")
    equal(counter.modify(COMPLETED, ADDS, MANY - 1), 0, "increase")
    equal(counter.read(), (0, 5), "increased")
    equal(counter.destroy(), 0, "destroy")


def wrong():
    """Wrong arguments are refused, and change nothing"""
    counter, end = Counter(), made(End)
    descriptor = counter.descriptor
    for entry, op in ((2, SET), (1 << 31, SET), (COMPLETED, 2), (COMPLETED, 1 << 31)):
        equal(counter.modify(entry, op, 7), errno.EINVAL, f"entry {entry}, op {op}")
    equal(uverbs.read_comp_cntr(descriptor, counter.handle, 2)[0], errno.EINVAL, "read of entry 2")
    for kind in (2, 1 << 31):
        equal(uverbs.create_comp_cntr(descriptor, (TYPE, 8, kind))[0], errno.EINVAL, f"type {kind}")
    equal(uverbs.create_comp_cntr(descriptor, (TYPE + 1, 8, 0))[0], errno.EPROTONOSUPPORT, "another attribute")
    for ops, error in ((0, errno.EINVAL), (1 << 6, errno.EINVAL), (CNTR_REMOTE_READ, errno.EOPNOTSUPP),
                       (CNTR_REMOTE_READ | CNTR_SEND, errno.EOPNOTSUPP)):
        equal(counter.attach(end, ops), error, f"operations {ops}")
    for qp, handle, error in ((end.handle + 99, counter.handle, errno.ENOENT),
                              (end.handle, counter.handle + 99, errno.ENOENT),
                              (counter.handle, end.handle, errno.EINVAL)):
        equal(uverbs.attach_comp_cntr(descriptor, qp, handle, CNTR_SEND), error, "handles")
    equal(counter.destroy(), 0, "nothing is attached")
    equal(counter.destroy(), errno.ENOENT, "it is gone")
    end.close()


def overlapping():
    """An operation of a QP has one counter, and a counter has any operations of any QPs"""
    first, second, one, two = Counter(), Counter(), made(End), made(End)
    equal(first.attach(one, CNTR_SEND | CNTR_WRITE), 0, "attach")
    for ops in (CNTR_SEND, CNTR_WRITE | CNTR_RECV, ALL):
        equal(second.attach(one, ops), errno.EBUSY, f"operations {ops}")
    equal((second.attach(one, CNTR_RECV), first.attach(one, CNTR_READ), first.attach(two, ALL)), (0, 0, 0), "others")
    one.to_rts(two)
    two.to_rts(one)
    two.receive()
    for opcode in (WRITE, READ, SEND):
        one.send(opcode, pieces=piece(one, 10), remote=two.remote())
        status(one, OK, "request")
    status(two, OK, "receive")
    equal((first.read(), second.read()), ((5, 0), (0, 0)), "counted: three of the one, and two of the other")
    for counter in (first, second):
        equal(counter.destroy(), errno.EBUSY, "destroy while a QP has it")
    one.close()
    equal((first.destroy(), second.destroy()), (errno.EBUSY, 0), "destroy while the other QP has one")
    two.close()
    equal(first.destroy(), 0, "destroy")


def states():
    """Counters are attached in RESET and INIT, and stay attached in RESET"""
    early, late = Counter(), Counter()
    a, b = made(End), End()
    equal(early.attach(a, CNTR_SEND), 0, "in RESET")
    a.qp.to_init(a.attr(b))
    equal(late.attach(a, CNTR_WRITE), 0, "in INIT")
    for move in (a.qp.to_rtr, a.qp.to_rts):
        a.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        move(a.attr(b))
        equal(late.attach(a, CNTR_READ), errno.EINVAL, f"in state {a.state()}")
    b.to_rts(a)
    a.send(WRITE, pieces=piece(a, 10), remote=b.remote())
    status(a, OK, "write")
    equal((early.read(), late.read()), ((0, 0), (1, 0)), "counted")
    a.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
    equal(late.attach(a, CNTR_READ), errno.EINVAL, "in ERR")
    a.close()
    b.close()
    equal((early.destroy(), late.destroy()), (0, 0), "destroy")


def transfer(a, b, requests):
    """Posts requests, of which only the last is signaled, and waits for it and for the receives."""
    receives = sum(opcode in (SEND, SEND_IMM, WRITE_IMM) for opcode, _ in requests)
    for number in range(receives):
        b.receive(number)
    fill(a, pattern(3000, 1))
    for at, (opcode, length) in enumerate(requests):
        a.send(opcode, pieces=piece(a, length), remote=b.remote(), flags=SIGNALED if at == len(requests) - 1 else 0)
    status(a, OK, "the last request", 30)
    equal({wc.status for wc in b.completions(receives, 30)}, {OK}, "receives")


def expected(requests, kind):
    """Returns what two ends count of requests of the first to the second."""
    of_a, of_b = {}, {}
    for opcode, length in requests:
        counts = [(of_a, COUNTS[opcode])]
        counts += [(of_b, CNTR_RECV)] * (opcode in (SEND, SEND_IMM, WRITE_IMM))
        counts += [(of_b, CNTR_REMOTE_WRITE)] * (opcode in (WRITE, WRITE_IMM))
        for values_of, op in counts:
            values_of[op] = values_of.get(op, (0, 0))[0] + (length if kind == BYTES else 1), 0
    return of_a, of_b


def counts(service, requests):
    """Checks what requests count, in both types of counters."""
    for kind in (WRS, BYTES):
        with counted(kind, service=service) as (a, b, of_a, of_b):
            transfer(a, b, requests)
            equal((of_a.read(), of_b.read()), expected(requests, kind), f"type {kind}")
            # Neither QP counts for the other.
            transfer(b, a, requests)
            there, here = expected(requests, kind)
            equal((of_a.read(), of_b.read()), ({**there, **here}, {**there, **here}), f"type {kind}, both ways")


def reliable():
    """RC: each request counts once, signaled or not, before its completion is there"""
    counts(e.IBV_QPT_RC, REQUESTS + READS)


def unreliable():
    """UC: as RC"""
    counts(e.IBV_QPT_UC, REQUESTS)


def repeated():
    """RC: requests that are lost, repeated and reordered count once"""
    if not os.path.exists(IMPAIR):
        os.system("mount -t debugfs none /sys/kernel/debug")
    requests = (REQUESTS + READS) * 5
    for kind in (WRS, BYTES):
        with open(IMPAIR, "w", encoding="ascii") as file:
            file.write("seed 3 loss 20000 duplicate 100000 reorder 20000")
        try:
            with counted(kind) as (a, b, of_a, of_b):
                transfer(a, b, requests)
                equal((of_a.read(), of_b.read()), expected(requests, kind), f"type {kind}")
        finally:
            with open(IMPAIR, "w", encoding="ascii") as file:
                file.write("off")


def flow_control():
    """RC: what a counter has counted has room in the queue, and no request waits for a poll"""
    many, window = 4000, 64
    with counted(wr=window) as (a, b, of_a, _):
        counter, posted = of_a.of[CNTR_WRITE], 0
        pieces, remote = piece(a, 8), b.remote()
        while posted < many:
            room = min(window - posted + counter.read()[0], many - posted)
            for _ in range(room):
                a.send(WRITE, pieces=pieces, remote=remote, flags=0)
            posted += room
        eventually(lambda: counter.read() == (many, 0), "all are counted")


def atomic_operations():
    """RC: atomic operations are counted in none of them"""
    rights = FULL_ACCESS | e.IBV_ACCESS_REMOTE_ATOMIC
    a, b = made(End, access=rights), made(End, access=rights)
    of_a, of_b = Counters(a), Counters(b)
    for this, other in ((a, b), (b, a)):
        this.to_rts(other, rights=rights)
    pieces = [a.sge(256, 8)]
    request = SendWR(wr_id=2, num_sge=1, sg=pieces, opcode=e.IBV_WR_ATOMIC_FETCH_AND_ADD, send_flags=SIGNALED)
    address, rkey = b.remote(8)
    request.set_wr_atomic(rkey, address, 1, 0)
    a.qp.post_send(request)
    status(a, OK, "add")
    equal((of_a.read(), of_b.read()), ({}, {}))
    for part in (a, b, of_a, of_b):
        part.close()


def failures():
    """RC: what fails and what is flushed counts as failed, as the operation that it is"""
    for kind in (WRS, BYTES):
        with counted(kind) as (a, b, of_a, of_b):
            for number in range(3):
                b.receive(number)
            address, rkey = b.remote()
            a.send(WRITE, pieces=piece(a, 2000), remote=(address, rkey ^ 0x5500), flags=0)
            a.send(SEND, pieces=piece(a, 100), flags=0)
            a.send(READ, pieces=piece(a, 100), remote=b.remote(), flags=0)
            a.send(WRITE, pieces=piece(a, 100), remote=b.remote(), flags=0)
            a.receive()
            equal([wc.status for wc in a.completions(5) if wc.status != FLUSHED], [e.IBV_WC_REM_ACCESS_ERR])
            equal({wc.status for wc in b.completions(3)}, {FLUSHED}, "receives")
            # The last receive of a may be flushed after its requests.
            equal(of_a.read(), {CNTR_WRITE: (0, 2), CNTR_SEND: (0, 1), CNTR_READ: (0, 1), CNTR_RECV: (0, 1)})
            equal(of_b.read(), {CNTR_RECV: (0, 3)})


def local_failures():
    """RC, UC: a request of memory that is not registered, and a receive that is too short, count as failed"""
    for service in (e.IBV_QPT_RC, e.IBV_QPT_UC):
        with counted(service=service) as (a, b, of_a, of_b):
            b.receive()
            a.send(SEND, pieces=piece(a, 100), flags=0)
            status(b, OK, "receive")
            bad = a.sge(0, 100)
            bad.lkey ^= 0x5500
            a.send(WRITE, pieces=[bad], remote=b.remote(), flags=0)
            status(a, e.IBV_WC_LOC_PROT_ERR, "write")
            equal(of_a.read(), {CNTR_SEND: (1, 0), CNTR_WRITE: (0, 1)})
            equal(of_b.read(), {CNTR_RECV: (1, 0)})
    with counted() as (a, b, of_a, of_b):
        b.receive(pieces=piece(b, 10))
        a.send(SEND, pieces=piece(a, 100))
        status(a, e.IBV_WC_REM_INV_REQ_ERR, "send")
        status(b, e.IBV_WC_LOC_LEN_ERR, "receive")
        equal((of_a.read(), of_b.read()), ({CNTR_SEND: (0, 1)}, {CNTR_RECV: (0, 1)}))


def flushed_receives():
    """Receives of a QP that goes from INIT to ERR count as failed"""
    for service in (e.IBV_QPT_RC, e.IBV_QPT_UC):
        end = made(End, service=service)
        of_end = Counters(end)
        end.qp.to_init(end.attr(1))
        for number in range(5):
            end.receive(number)
        end.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        equal({wc.status for wc in end.completions(5)}, {FLUSHED}, "receives")
        equal(of_end.read(), {CNTR_RECV: (0, 5)})
        end.close()
        of_end.close()


def shared_receives():
    """RC: receives of a shared queue count for the QP that uses them"""
    ends = End(), End()
    queue = SRQ(ends[0].pd, SrqInitAttr(SrqAttr(max_wr=64, max_sge=2)))
    users = [made(End, pd=ends[0].pd, srq=queue) for _ in range(2)]
    counters = [Counters(user, BYTES) for user in users]
    for number in range(3):
        queue.post_recv(RecvWR(wr_id=number, num_sge=1, sg=[ends[0].sge()]))
    for end, user in zip(ends, users):
        end.to_rts(user)
        user.to_rts(end)
    for end, user, length in ((ends[0], users[0], 10), (ends[1], users[1], 200), (ends[0], users[0], 3000)):
        end.send(SEND, pieces=piece(end, length))
        status(end, OK, "send")
        status(user, OK, "receive")
    equal([of_user.read() for of_user in counters], [{CNTR_RECV: (3010, 0)}, {CNTR_RECV: (200, 0)}])
    for part in (*users, queue, *ends, *counters):
        part.close()


class ResetEnd(UdEnd):
    """A UD QP in RESET."""

    def make_qp(self, qkey=QKEY, depth=4):
        cap = QPCap(max_send_wr=depth, max_recv_wr=depth, max_send_sge=1, max_recv_sge=1)
        return QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=self.cq, rcq=self.cq, cap=cap))

    def start(self):
        """Moves it to RTS."""
        attr = QPAttr(port_num=PORT)
        attr.qkey = QKEY
        self.qp.to_rts(attr)


def datagrams():
    """UD: datagrams count without their GRH, and failed ones as failed"""
    for kind in (WRS, BYTES):
        a, b = made(ResetEnd, ctx=context()), made(ResetEnd, ctx=context())
        of_a, of_b = Counters(a, kind), Counters(b, kind)
        a.start()
        b.start()
        handle = a.handle_for(os.environ["ADDR"], gid_index())
        b.receive(3)
        for number in range(3):
            equal(a.send(handle, b"datagram", b.qp.qp_num), OK, "send")
            equal(b.completion().byte_len, 48, "bytes of the receive")
        equal(a.send(handle, bytes(5000), b.qp.qp_num), e.IBV_WC_LOC_LEN_ERR, "send of too many bytes")
        b.receive(2)
        b.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        equal({b.completion().status for _ in range(2)}, {FLUSHED}, "receives")
        amount = 24 if kind == BYTES else 3
        equal((of_a.read(), of_b.read()), ({CNTR_SEND: (amount, 1)}, {CNTR_RECV: (amount, 2)}), f"type {kind}")
        handle.close()
        for part in (a, b, of_a, of_b):
            part.close()


def extended():
    """XRC: an initiator counts as RC does; the core attaches no counter to a target"""
    with domain_of() as (domain, queue):
        sender, target = made(Initiator), made(Target, domain)
        of_sender, counter = Counters(sender), Counter()
        equal(counter.attach(target, CNTR_REMOTE_WRITE), errno.EINVAL, "attach to the target")
        sender.to_rts(target)
        target.to_rts(sender)
        queue.post(1)
        for opcode in (WRITE, READ, SEND):
            sender.order_for(queue, opcode, pieces=piece(sender, 10), remote=queue.remote(), flags=0)
        sender.order_for(queue, WRITE, pieces=piece(sender, 10), remote=queue.remote())
        status(sender, OK, "the last write")
        status(queue, OK, "receive")
        equal(of_sender.read(), {CNTR_WRITE: (2, 0), CNTR_READ: (1, 0), CNTR_SEND: (1, 0)})
        equal(counter.destroy(), 0, "destroy")
        for part in (sender, target, of_sender):
            part.close()


def by_library():
    """The verbs of libibverbs, where it has them, do all that the ioctls do"""
    if not hasattr(ctypes.CDLL("libibverbs.so.1"), "ibv_create_comp_cntr"):
        raise Skip("this libibverbs has no ibv_create_comp_cntr")
    if os.environ["PROVIDER"] != "direct":
        raise Skip("needs ferroce's own provider: librxe has no completion counters")
    library = Library(os.environ["DEV"])
    equal(library.comp_cntr_caps(), (0, 1 << 20, MANY - 1, ALL), "capabilities")
    domain, queue = library.alloc_pd(), library.create_cq()
    for kind in (WRS, BYTES):
        counter, qp = library.create_comp_cntr(kind), library.create_qp(domain, queue)
        for verb, value in (("set", 10), ("inc", 5), ("set_err", 20), ("inc_err", 2)):
            equal(library.change_comp_cntr(verb, counter, value), 0, verb)
        equal(library.read_comp_cntr(counter), ([0, 0], [15, 22]), "values")
        equal(library.attach_comp_cntr(qp, counter, ALL), 0, "attach")
        equal(library.attach_comp_cntr(qp, counter, CNTR_SEND), errno.EBUSY, "attach again")
        equal(library.destroy_comp_cntr(counter), errno.EBUSY, "destroy")
        equal((library.destroy_qp(qp), library.destroy_comp_cntr(counter)), (0, 0), "destroy")
    try:
        library.create_comp_cntr(2)
        raise AssertionError("a type that there is not")
    except OSError as error:
        equal(error.errno, errno.EOPNOTSUPP)
    equal((library.destroy_cq(queue), library.dealloc_pd(domain)), (0, 0), "destroy")
    library.close()


def killed():
    """Nothing is left of a process that is killed while its QPs count"""
    context()
    before = resources()
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            own_context()
            a, b = made(End, size=SIZE), made(End, size=SIZE)
            kept = [Counters(end) for end in (a, b)]
            a.to_rts(b)
            b.to_rts(a)
            transfer(a, b, REQUESTS)
            true(kept[0].read(), "something is counted")
            os.write(writes, b"x")
            while True:
                transfer(a, b, REQUESTS)
        finally:
            os._exit(1)
    os.close(writes)
    began = os.read(reads, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reads)
    equal(began, b"x", "the child")
    eventually(lambda: resources() == before, f"{before}, but {resources()}", 20)


TESTS = [supported, values, wrong, overlapping, states, reliable, unreliable, repeated, flow_control, atomic_operations,
         failures, local_failures, flushed_receives, shared_receives, datagrams, extended, by_library, killed]


def of_this_kernel(test):
    """Returns a test that is skipped where the core has no counters."""
    @functools.wraps(test)
    def function():
        needs_core(CORE, LACK)
        test()
    return function


if __name__ == "__main__":
    # The others need no peer.
    BOTH = reliable, unreliable, repeated, flow_control, failures, local_failures
    run([of_this_kernel(test) for test in (BOTH if ACROSS else TESTS)])
