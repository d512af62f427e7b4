# SPDX-License-Identifier: GPL-2.0
"""The ABI of ferroce's own provider, used as no provider would: requests for a context that are malformed, or of
another version; and the kernel's promise to look at a send queue without a doorbell (raw.py), taken by processes that
do not keep their part, write into everything that they share with the kernel, hand it on, or die.

In the worst case their own queue pairs fail. Other queue pairs work, and the kernel looks no more often than it may:
once in a millisecond, and not at all at a queue for which no doorbell is rung.

The device may be of either kind. If it is of type ferroce, the library of the others' queue pairs has rdma_rxe's ABI.
PROMISE_SECONDS is the duration of the random part, SEED seeds it, and PROMISE_CONTEXTS is a number of contexts.
"""

import array
import errno
import mmap
import os
import random
import resource
import signal
import socket
import struct
import sys
import time

import comp_cntr
import ring_direct as direct
import ring_rxe as rxe
import uverbs
from counters import counter
from hostile import WILD, healthy
from hostile_hand import RC, UC, UD, device_path
from raw import ERR, RESET, RTS, SQE, RawContext, RawQueue, RawRing
from rc import DEVICE, SLOWNESS, context, eventually
from tap import equal, needs_core, run, true
from verbs import resources

SEED = int(os.environ.get("SEED", "4791"))
SECONDS = float(os.environ.get("PROMISE_SECONDS", "5"))
CONTEXTS = int(os.environ.get("PROMISE_CONTEXTS", "100"))
# Files besides those of contexts.
OTHER_FILES = 100
LOOK_SECONDS = 0.001
WAKES = ("wake_ack_timeout", "wake_rnr_delay", "wake_ack_request", "wake_pace", "wake_local_stack", "wake_gap",
         "wake_fault_nak", "wake_ring_poll")
OWN_DEVICE = uverbs.ABI is direct


def looks():
    """How often a timer has looked at queues."""
    return counter("wake_ring_poll", DEVICE)


def no_wakes():
    """Checks that no timer runs for the device any more."""
    def settled():
        before = [counter(name, DEVICE) for name in WAKES]
        time.sleep(0.3)
        return [counter(name, DEVICE) for name in WAKES] == before
    eventually(settled, "no timer of the device expires", 10)


def asked(magic=direct.MAGIC, least=1, most=1, features=0, more=b""):
    """Returns a request for a context."""
    return struct.pack("=IHHQ", magic, least, most, features) + more


# Name: the request, the room for the response, and the error, or the features.
REQUESTS = {
    "this version": (asked(), 16, (0, 0)),
    "with doorbells held back": (asked(features=1), 16, (0, 1)),
    "with features of the future": (asked(features=(1 << 64) - 1), 16, (0, 1)),
    "of an older provider that knows this version": (asked(least=0), 16, (0, 0)),
    "of a newer provider that knows this version": (asked(most=0xFFFF), 16, (0, 0)),
    "of an older provider": (asked(least=0, most=0), 16, (errno.EOPNOTSUPP, None)),
    "of a newer provider": (asked(least=2, most=3), 16, (errno.EOPNOTSUPP, None)),
    "with an empty range of versions": (asked(least=2, most=0), 16, (errno.EOPNOTSUPP, None)),
    "with another magic number": (asked(magic=0x46455253), 16, (errno.EINVAL, None)),
    "with its bytes swapped": (asked(magic=0x52524546), 16, (errno.EINVAL, None)),
    "without a magic number": (asked(magic=0), 16, (errno.EINVAL, None)),
    "that is too short": (asked()[:8], 16, (errno.EINVAL, None)),
    "that is longer, and zero there": (asked(more=bytes(64)), 16, (0, 0)),
    "that is longer, and not zero there": (asked(more=bytes(60) + b"\1\0\0\0"), 16, (errno.EOPNOTSUPP, None)),
    "without room for the response": (asked(), 0, (errno.EINVAL, None)),
    "with little room for the response": (asked(), 12, (errno.EINVAL, None)),
    "with more room for the response": (asked(features=1), 64, (0, 1)),
}


def negotiation():
    """A context has this ABI if the request for it is right, and does not exist if it is wrong"""
    before = resources()
    for name, (request, room, (wanted, features)) in REQUESTS.items():
        descriptor = os.open(device_path(), os.O_RDWR | os.O_CLOEXEC)
        found, answer = uverbs.ask_for_context(descriptor, request, room)
        equal(errno.errorcode.get(found, 0), errno.errorcode.get(wanted, 0), f"a request {name}")
        equal(resources()["ctx"], before["ctx"] + (not wanted), f"contexts after a request {name}")
        if not wanted:
            equal(answer, struct.pack("=IIQ", 1, 0, features).ljust(room, b"\0"), f"the response to one {name}")
        else:
            # The file is as it was.
            equal(uverbs.get_context(descriptor, direct), 0, f"a right request after one {name}")
        os.close(descriptor)
        eventually(lambda: resources() == before, "the context is gone")


def without_request():
    """A context that asks for nothing has rdma_rxe's ABI, or does not exist on a device of the own kind"""
    for request in (b"", bytes(16), bytes(64)):
        descriptor = os.open(device_path(), os.O_RDWR | os.O_CLOEXEC)
        found, answer = uverbs.ask_for_context(descriptor, request, 16)
        equal(found, errno.EOPNOTSUPP if OWN_DEVICE else 0, "error")
        if not found:
            equal(answer, bytes(16), "response")
            raw = RawContext(descriptor)
            ring = raw.map(raw.create("cq", count=16, channel=-1)[1], 8)
            equal((ring.word(rxe.LOG2_ELEMENT).value, ring.word(rxe.INDEX_MASK).value), (6, 31), "shape of a ring")
        os.close(descriptor)


def side_by_side():
    """Contexts of both ABIs of one device each have their own rings, and name no object of the other"""
    if OWN_DEVICE:
        contexts = [RawContext(), RawContext()]
    else:
        contexts = [RawContext(), RawContext(uverbs.open_context(device_path(), rxe))]
    shapes = [(16, 64), (16, 64) if OWN_DEVICE else (6, 31)]
    domains = [raw.create("pd")[0] for raw in contexts]
    queues = [raw.create("cq", count=16, channel=-1) for raw in contexts]
    for raw, (handle, answer), shape in zip(contexts, queues, shapes):
        ring = raw.map(answer, 8)
        equal((ring.word(0).value, ring.word(4).value), shape, "shape of a CQ")
        ring = raw.map(raw.call(uverbs.RESIZE_CQ, cq=handle, count=100), 8)
        equal(ring.word(0).value, 128 if shape[1] == 64 else 6, "shape of a larger CQ")
    # The second context has fewer objects than the number that it is asked for.
    pair = contexts[0].create("qp", pd=domains[0], cq=queues[0][0], count=4, pieces=1, kind=RC)
    for number in (pair[0], pair[0] + 1):
        for command, kinds in ((uverbs.QUERY_QP, {"qp": number}), (uverbs.DESTROY_QP, {"qp": number})):
            try:
                contexts[1].call(command, **kinds)
            except OSError as error:
                true(error.errno in (errno.ENOENT, errno.EINVAL), f"error {error}")
            else:
                raise AssertionError(f"command {command} on QP {number} of another context")
    for raw in contexts:
        raw.close()
    healthy()


def mappings():
    """A ring is mapped at its own offset, shared and whole, by its own context, for as long as it exists"""
    queue, other = RawQueue(), RawContext()
    ring, descriptor = queue.sends, queue.context.descriptor
    page = mmap.PAGESIZE
    for file, offset, size, kind in (
            (descriptor, ring.offset, ring.size + page, mmap.MAP_SHARED),
            (descriptor, ring.offset, ring.size, mmap.MAP_PRIVATE),
            (descriptor, ring.offset + page, ring.size, mmap.MAP_SHARED),
            (descriptor, ring.offset - page, ring.size + page, mmap.MAP_SHARED),
            (descriptor, 0, page, mmap.MAP_SHARED), (descriptor, 0, ring.size, mmap.MAP_SHARED),
            (descriptor, (1 << 43) - page, page, mmap.MAP_SHARED), (descriptor, 1 << 44, page, mmap.MAP_SHARED),
            (other.descriptor, ring.offset, ring.size, mmap.MAP_SHARED)):
        equal(refusal(file, offset, size, kind), errno.EINVAL, f"{size} bytes at {offset:#x}, kind {kind}")
    if ring.size > page:
        equal(refusal(descriptor, ring.offset, page, mmap.MAP_SHARED), errno.EINVAL, "the first page only")
    RawRing(descriptor, ring.offset, ring.size)
    queue.context.call(uverbs.DESTROY_QP, qp=queue.qp)
    equal(refusal(descriptor, ring.offset, ring.size, mmap.MAP_SHARED), errno.EINVAL, "the ring of a QP that is gone")
    # The memory is there for as long as it is mapped.
    for at in range(0, ring.size, 4):
        ring.word(at).value = 0xFFFFFFFF
    queue.context.close()
    other.close()
    equal(ring.word(0).value, 0xFFFFFFFF, "memory of a ring after the end of its context")


def refusal(descriptor, offset, size, kind):
    """Tries to map; returns the error."""
    try:
        mmap.mmap(descriptor, size, kind, offset=offset).close()
    except OSError as error:
        return error.errno
    except OverflowError:
        return errno.EINVAL
    return 0


def not_asked_for():
    """A process that did not ask for it is never told to ring no doorbell, and costs no look"""
    descriptor = os.open(device_path(), os.O_RDWR | os.O_CLOEXEC)
    equal(uverbs.ask_for_context(descriptor, asked(features=(1 << 64) - 2), 16)[0], 0, "the context")
    queue, before = RawQueue(context=RawContext(descriptor)), looks()
    queue.fail()
    true(not queue.stream(8000), "the kernel promises to look at the queue")
    equal(looks(), before, "looks")
    queue.close()
    queue = RawQueue().promised()
    true(looks() - before <= 2, "looks at the queue of one that asked")
    queue.context.close()


def counted():
    """A queue with a completion counter is promised nothing: its process may wait for the counter, and poll nothing"""
    needs_core(comp_cntr.CORE, comp_cntr.LACK)
    queue = RawQueue()
    queue.modify(RESET)
    error, handle = uverbs.create_comp_cntr(queue.context.descriptor)
    equal(error, 0, "create a counter")
    equal(uverbs.attach_comp_cntr(queue.context.descriptor, queue.qp, handle, uverbs.CNTR_WRITE), 0, "attach it")
    queue.connect()
    queue.fail()
    true(not queue.stream(8000), "the kernel promises to look at the queue")
    queue.close()


def own_word():
    """A process that writes the word itself gets nothing for it"""
    queue, before = RawQueue(), looks()
    for value in (1, 0xFFFFFFFF):
        queue.promise.value = value
        queue.post(3)
        time.sleep(0.05)
        equal(queue.sends.word(direct.CONSUMER).value, 0, "requests taken")
    equal(looks(), before, "looks")
    queue.ring()
    eventually(lambda: queue.sends.word(direct.CONSUMER).value == 6, "all are taken by a doorbell")
    queue.context.close()


def look():
    """Requests that are posted without a doorbell are taken in time, and then the promise is taken back"""
    for sending in (False, True):
        queue = RawQueue()
        # On a busy machine the promise may end before the process uses it.
        kept = any(promise_kept(queue, sending) for _ in range(20))
        true(kept, "no promise lasts until the process posts")
        queue.context.close()
    no_wakes()


def promise_kept(queue, sending):
    """Takes the promise, and posts. Returns whether there still was one, which the kernel must keep then."""
    queue.promised(sending)
    queue.post(5)
    promised, posted = queue.promise.value, queue.producer.value
    eventually(lambda: not queue.promise.value, "the promise is taken back")
    if promised:
        eventually(lambda: queue.sends.word(direct.CONSUMER).value == posted, "requests are taken without a doorbell")
    return promised


def promise_only():
    """Many contexts take the promise, and never post again: a look or two at each, and then none"""
    # A context has a second file, for its events.
    files = 2 * CONTEXTS + OTHER_FILES
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    before, queues = looks(), []
    for _ in range(CONTEXTS):
        queues.append(RawQueue(entries=8, completions=64).promised())
    eventually(lambda: not any(queue.promise.value for queue in queues), "all promises are taken back")
    no_wakes()
    # As many as promises were given; some of them before the process saw them. Those that were kept count twice.
    found = looks() - before
    print(f"# {found} looks", flush=True)
    true(CONTEXTS * 0.9 <= found <= CONTEXTS * 3, f"{found} looks at {CONTEXTS} queues")
    healthy()
    for queue in queues:
        queue.close()


# ---- ends of processes -----------------------------------------------------------------------


def idle(queue):
    """Does nothing."""
    time.sleep(0.01)
    return queue


def posting(queue):
    """Posts, and never rings."""
    for _ in range(100):
        queue.post()
    queue.poll()


def streaming(queue):
    """Posts, and rings every tenth time."""
    for _ in range(50):
        queue.post(10)
        queue.ring()
        queue.poll()


def forever(queue, work):
    """Works until the process is killed, or its file is gone."""
    while True:
        work(queue)


def by_kill(queue, work):
    """killed"""
    forever(queue, work)


def by_exec(queue, work):
    """exec"""
    work(queue)
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"])


def by_exec_with_file(queue, work):
    """exec that keeps the file"""
    os.set_inheritable(queue.context.descriptor, True)
    by_exec(queue, work)


def by_fork(queue, work):
    """fork, and then killed, while the child goes on for a while: it may post, but issue no command"""
    if not os.fork():
        signal.alarm(1)
        work = posting
    forever(queue, work)


def by_exit(queue, work):
    """exit in the middle"""
    work(queue)
    os._exit(0)


def by_unmap(queue, work):
    """its rings unmapped, and then killed"""
    work(queue)
    for ring in (queue.sends, queue.receives, queue.completions):
        ring.unmap()
    while True:
        queue.ring()


def by_reset(queue, work):
    """its queue pair reset again and again, and then killed"""
    while True:
        work(queue)
        queue.connect()
        queue.promised()


def life(end, work, kind, sending):
    """A process that takes the promise, works, and ends in this way."""
    back, out = os.pipe()
    child = os.fork()
    if not child:
        try:
            queue = RawQueue(kind).promised(sending)
            os.write(out, b"1")
            end(queue, work)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# {end.__doc__}, {work.__name__}: {error!r}", flush=True)
        finally:
            os._exit(1)
    os.close(out)
    equal(os.read(back, 1), b"1", "the process has the promise")
    os.close(back)
    return child


def ends():
    """A process may end in any state of its queue: nothing is left, and no timer runs"""
    before, chance = resources(), random.Random(SEED)
    for end in (by_kill, by_exec, by_exec_with_file, by_fork, by_exit, by_unmap, by_reset):
        for work in (idle, posting, streaming):
            for kind, sending in ((UC, False), (UC, True), (RC, False)):
                child = life(end, work, kind, sending)
                time.sleep(chance.random() * 0.01)
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        # A child of the process may live for a second.
        eventually(lambda: resources() == before, f"as many objects as before; {end.__doc__}", 20)
        no_wakes()
    healthy()


def passed_on():
    """Another process that gets the file may map, post and poll, but not ring; the context ends with the last file"""
    before = resources()
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        theirs.close()
        try:
            other_process(ours)
            os._exit(0)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# the other process: {error!r}", flush=True)
            os._exit(1)
    ours.close()
    queue = RawQueue().promised(sending=True)
    eventually(lambda: not queue.promise.value, "the promise ends")
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [queue.context.descriptor]))
    theirs.sendmsg([struct.pack("=IQI", queue.qp, queue.sends.offset, queue.sends.size)], [rights])
    equal(theirs.recv(1), b"1", "the other process has posted")
    queue.ring()
    equal(theirs.recv(1), b"2", "the other process's requests are taken")
    queue.close()
    theirs.send(b"3")
    equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "the other process")
    eventually(lambda: resources() == before, "the context is gone")
    no_wakes()


def other_process(wire):
    """Gets the file of a context by a socket, and uses it."""
    message, control, *_ = wire.recvmsg(64, socket.CMSG_SPACE(4))
    handle, offset, size = struct.unpack("=IQI", message)
    raw = RawContext(array.array("i", control[0][2])[0])
    ring = RawRing(raw.descriptor, offset, size)
    posted = ring.word(direct.CONSUMER).value + 4
    ring.word(direct.PRODUCER).value = posted
    for _ in range(2):
        try:
            raw.call(uverbs.POST_SEND, qp=handle, element=128)
        except OSError as error:
            equal(error.errno, errno.EACCES, "error of a doorbell")
        else:
            raise AssertionError("a doorbell of another process")
    wire.send(b"1")
    eventually(lambda: ring.word(direct.CONSUMER).value == posted, "the requests are taken")
    wire.send(b"2")
    equal(wire.recv(1), b"3", "the owner closes its file")
    ring.word(direct.PRODUCER).value = posted + 4
    time.sleep(0.01)
    equal(ring.word(direct.CONSUMER).value, posted, "requests taken without a doorbell")


# ---- random words ------------------------------------------------------------------------------


class Scribbler:
    """A process that writes random words into rings."""

    def __init__(self, rings, seed):
        self.child = os.fork()
        if self.child:
            return
        chance = random.Random(seed)
        heads = [(ring, at) for ring in rings for at in (*direct.SHAPE, direct.NO_DOORBELL, direct.PRODUCER)]
        while True:
            time.sleep(0.001)
            for _ in range(chance.randrange(1, 60)):
                ring, at = chance.choice(heads)
                if chance.random() < 0.6:
                    at = chance.randrange(ring.size // 4) * 4
                ring.word(at).value = self.value(chance, ring, at)

    @staticmethod
    def value(chance, ring, at):
        """A word for this place; an index often means that some elements are there, and a turn that one is."""
        if at == direct.PRODUCER and chance.random() < 0.7:
            return ring.word(direct.CONSUMER).value + chance.getrandbits(5) & 0xFFFFFFFF
        if at >= direct.DATA and at % 64 == direct.DATA % 64 + direct.TURN and chance.random() < 0.7:
            return ring.word(direct.CONSUMER).value + chance.getrandbits(3) & 0xFFFFFFFF
        return chance.choice((*WILD, 0, 1, 2, chance.getrandbits(32), chance.getrandbits(6)))

    def end(self):
        """Ends it."""
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


def scribbled_queue(kind, seed, stop):
    """The work of a process: one queue pair under the promise, whose memory is written at random. Prints what became of
    it.
    """
    chance, queue = random.Random(seed), RawQueue(kind)
    scribbler = Scribbler((queue.sends, queue.receives, queue.completions), seed)
    promises = failures = rounds = 0
    try:
        while time.monotonic() < stop:
            # The process does not know how much the kernel has taken, so begin where both agree.
            queue.connect()
            if chance.random() < 0.7:
                queue.fail()
                promises += queue.stream(2048)
                if queue.state() == SQE and chance.random() < 0.7:
                    queue.modify(RTS)
            for _ in range(chance.randrange(1, 40)):
                queue.post(chance.randrange(1, 9))
                if chance.random() < 0.2:
                    queue.ring()
                if chance.random() < 0.2:
                    time.sleep(chance.random() * 0.002)
                rounds += 1
            failures += queue.state() in (SQE, ERR)
    finally:
        scribbler.end()
    print(f"# kind {kind}: {rounds} rounds, {promises} promises, {failures} failures", flush=True)
    true(failures and (promises or kind == RC), "the kernel promised nothing, or no queue pair failed")


def scribbled():
    """Random words in everything that is shared, under the promise, fail only the queue pairs of the process"""
    before, began, taken = resources(), time.monotonic(), looks()
    stop, children = began + SECONDS * SLOWNESS, []
    for number, kind in enumerate((RC, UC, UD, UC)):
        child = os.fork()
        if not child:
            try:
                scribbled_queue(kind, SEED * 16 + number, stop)
                os._exit(0)
            except BaseException as error:  # pylint: disable=broad-except
                print(f"# process: {error!r}", flush=True)
                os._exit(1)
        children.append(child)
    while time.monotonic() < stop:
        healthy()
        time.sleep(0.1)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    lasted = time.monotonic() - began
    found = looks() - taken
    print(f"# seed {SEED}: {found} looks in {lasted:.0f} s", flush=True)
    equal(codes, [0] * len(children), "exit codes")
    # Both engines of a queue pair may look.
    true(0 < found < 2 * len(children) * lasted / LOOK_SECONDS, "looks")
    eventually(lambda: resources() == before, "as many objects as before")
    no_wakes()
    healthy()


TESTS = [negotiation, without_request, side_by_side, mappings, not_asked_for, counted, own_word, look, promise_only,
         ends, passed_on, scribbled]

if __name__ == "__main__":
    context()
    run(TESTS)
