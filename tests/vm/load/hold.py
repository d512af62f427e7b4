# SPDX-License-Identifier: GPL-2.0
"""How long traffic keeps the process of highest priority on a CPU from running.

A process of the highest real-time priority repeatedly sleeps for about a millisecond and measures how late it wakes
(Watcher). On the same CPU a process of normal priority creates traffic. Packets pass a veth in the time of their
sender, so this includes the work of the network, of the driver and of the system calls. Each kind of traffic is
measured in HOLD_ROUNDS rounds of HOLD_SECONDS. The test prints the longest delay of the best round, of the median
round, and of all rounds: a delay in every round is due to the traffic, a delay in some rounds may be due to the host.
The first two kinds have no traffic, for comparison.

The test always checks that the traffic made progress. It judges a delay only with HOLD_JUDGED, which promises an idle
machine: the median round must stay within the network's own limit for one pass of its softirqs. If the first
measurement, without traffic, exceeds this limit, the host is busy and no delay is judged. The longest delay of all is
only printed, since the host may cause it.
"""

import contextlib
import ctypes
import functools
import gc
import json
import os
import signal
import subprocess
import time

from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

import enums as e
import frame as f
from flood import KINDS, attacked, frames
from netns import within_namespace
from rc import FULL_ACCESS, across, context, eventually, opened, pair, readable
from ring import ABI, CONSUMER, PRODUCER, with_rings
from tap import Skip, equal, not_for_rxe, run, true
from ud import MULTICAST_QPN, UdEnd
from unreliable import modify
from wire import BATCH, Wire
from work import OK, READ, WRITE

ROUNDS = int(os.environ.get("HOLD_ROUNDS", "15"))
SECONDS = float(os.environ.get("HOLD_SECONDS", "0.2"))
JUDGED = bool(os.environ.get("HOLD_JUDGED"))
PLACE = max(os.sched_getaffinity(0))
URGENT = os.sched_param(os.sched_get_priority_max(os.SCHED_FIFO))
CONNECTIONS, DEPTH, LARGE = 8, 16, 1 << 20
PEERS = 500
_LIBC = ctypes.CDLL(None, use_errno=True)
_LOCK_ALL = 3


class Watcher:
    """A process that measures how late it wakes, from start() on. found() returns the longest delay of each round, in
    seconds. Create it before the process is large: the cost of the fork is not due to the traffic."""

    def __init__(self):
        self.back, out = os.pipe()
        go, self.go = os.pipe()
        self.child = os.fork()
        if self.child:
            os.close(out)
            os.close(go)
            return
        try:
            gc.disable()
            _LIBC.mlockall(_LOCK_ALL)
            os.sched_setaffinity(0, {PLACE})
            os.sched_setscheduler(0, os.SCHED_FIFO, URGENT)
            os.close(self.go)
            os.read(go, 1)
            os.write(out, json.dumps([self.round() for _ in range(ROUNDS)]).encode())
            os._exit(0)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# watcher: {error!r}", flush=True)
            os._exit(1)

    @staticmethod
    def round():
        """The longest delay of a round."""
        worst, step = 0, 0
        end = time.monotonic() + SECONDS
        while (now := time.monotonic()) < end:
            # Vary the sleep, to avoid resonance.
            step = (step + 389) % 1000
            nap = 0.0005 + step * 1e-6
            time.sleep(nap)
            worst = max(worst, time.monotonic() - now - nap)
        return worst

    def start(self):
        """Starts the measurement."""
        os.close(self.go)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)

    def watching(self):
        """Returns whether the measurement still runs."""
        return not readable(self.back, 0)

    def found(self):
        """The results."""
        text = os.read(self.back, 1 << 16)
        os.close(self.back)
        child, self.child = self.child, None
        equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "the watcher's exit code")
        return json.loads(text)


# ---- kinds of traffic: each yields a function that creates some of it ---------------------------


@contextlib.contextmanager
def idle():
    """No traffic."""
    yield lambda: time.sleep(0.01)


@contextlib.contextmanager
def busy():
    """A process that computes and makes system calls."""
    def some():
        sum(range(10000))
        os.getppid()
    yield some


@contextlib.contextmanager
def packets(kind):
    """Packets of one kind of flood.py, in batches."""
    if kind == "sends without a receive":
        not_for_rxe("keeps packets until the machine has no memory left")
    with attacked() as (attacker, flow, wire):
        batch = frames(attacker, flow, KINDS[kind][1])
        yield lambda: wire.send(batch)


@contextlib.contextmanager
def long_datagrams():
    """Datagrams to a closed port, 44 in a burst that stays unsplit."""
    with attacked() as (attacker, flow, _), within_namespace("b"):
        wire = Wire(os.environ["PEER_NETDEV"])
        fields = attacker.base(flow, 0, 0, bytes(44 * 1400 - f.BTH - f.ICRC))
        whole = f.build({**fields, "dport": 4999})
        yield lambda: [wire.send_burst(whole, 1400) for _ in range(BATCH // 4)]


@contextlib.contextmanager
def tcp():
    """TCP, bidirectional."""
    server_command = ["iperf3", "-s", "-B", os.environ["ADDR"]]
    client_command = ["ip", "netns", "exec", "b", "iperf3", "--bidir", "-t", "3600", "-c", os.environ["ADDR"]]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    # Both stay on the CPU of this process.
    with subprocess.Popen(server_command, **silent) as server:
        time.sleep(0.5)
        with subprocess.Popen(client_command, **silent) as client:
            yield lambda: time.sleep(0.01)
            equal(client.poll(), None, "iperf3 has ended by itself")
            client.kill()
        server.kill()


class Stream:
    """Requests of one opcode from one end to the other, as many outstanding as fit."""

    def __init__(self, end, peer, opcode, length):
        self.end, self.pieces, self.opcode = end, [end.sge(0, length)], opcode
        self.peer, self.under_way, self.done = peer, 0, 0

    def step(self):
        """Takes the completions and posts as many requests."""
        for wc in self.end.cq.poll(DEPTH)[1]:
            equal(wc.status, OK)
            self.under_way, self.done = self.under_way - 1, self.done + 1
        for _ in range(DEPTH - self.under_way):
            self.end.send(self.opcode, pieces=self.pieces, remote=self.peer.remote())
            self.under_way += 1

    def drain(self):
        """Waits until all requests have completed; at least one must."""
        for wc in self.end.completions(self.under_way, 60):
            equal(wc.status, OK)
        true(self.done, "no request has completed")


@contextlib.contextmanager
def streams(opcode, length, connections=1, both=False, connect=across):
    """Streams from PEER_DEV to DEV, or bidirectional, or within DEV."""
    ends = {"size": length, "wr": DEPTH, "cqe": DEPTH, "sge": 1}
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(connect(ends, ends, path_mtu=e.IBV_MTU_4096, timeout=18))
                for _ in range(connections)]
        ways = [Stream(b, a, opcode, length) for a, b in made]
        ways += [Stream(a, b, opcode, length) for a, b in made if both]
        yield lambda: [way.step() for way in ways]
        for way in ways:
            way.drain()


@contextlib.contextmanager
def split_reads():
    """Streams of READs with super-packets that are split above the interface, as with most adapters."""

    def features(state):
        settings = [word for name in ("tx-gso-list", "tx-udp_tnl-segmentation") for word in (name, state)]
        return subprocess.run(["ethtool", "-K", os.environ["NETDEV"], *settings], capture_output=True, check=False)

    if features("off").returncode:
        raise Skip("ethtool cannot have v0 split super-packets")
    try:
        with streams(READ, LARGE << 6) as step:
            yield step
    finally:
        features("on").check_returncode()


@contextlib.contextmanager
def failures():
    """A QP with the maximum of receives fails, and all are flushed."""
    most = min(context().query_device().max_qp_wr, 16383)
    ends = {"size": 4096, "wr": most, "cqe": most + 16, "sge": 1}
    link, count = across(ends, ends), 0
    with link as (a, b):

        def fail():
            nonlocal count
            for _ in range(most):
                a.receive(pieces=[a.sge(0, 8)])
            b.send(WRITE, pieces=[b.sge(0, 8)], remote=(a.mr.buf, 0xBAD))
            flushed = 0
            while flushed < most:
                flushed += len(a.cq.poll(256)[1])
            for end in (a, b):
                modify(end.qp, e.IBV_QPS_RESET)
                while end.cq.poll(256)[1]:
                    pass
            link.connect()
            count += 1
        yield fail
        true(count, "no QP has failed")


@contextlib.contextmanager
def timeouts():
    """The peers of many connections disappear. Each connection has written much before, so its congestion window is
    large. Then each writes a little, all at almost the same time, and much after that. So their timers expire together,
    and each retransmits a lot."""
    few = {"size": 8, "wr": 2, "sge": 1, "cqe": 2}
    settings = {"path_mtu": e.IBV_MTU_4096, "timeout": 15, "retry_cnt": 1}
    with contextlib.ExitStack() as stack:
        def kept(made):
            return stack.enter_context(contextlib.closing(made))
        contexts = [kept(opened(name)[0]) for name in ("DEV", "PEER_DEV")]
        domains = [kept(PD(ctx)) for ctx in contexts]
        target, source = (kept(MR(pd, LARGE, FULL_ACCESS)) for pd in domains)
        links, failed = [], 0
        for _ in range(PEERS):
            links.append(across(*({**few, "pd": pd} for pd in domains), contexts=contexts, **settings))
            stack.enter_context(links[-1])

        def write(end, length):
            end.send(WRITE, pieces=[end.sge(mr=source, length=length)], remote=(target.buf, target.rkey))

        def lose():
            nonlocal failed
            for peer, end in (link.ends for link in links):
                write(end, LARGE)
                equal(end.completion().status, OK)
                modify(peer.qp, e.IBV_QPS_RESET)
            for length in (8, LARGE):
                for _, end in (link.ends for link in links):
                    write(end, length)
            for link in links:
                end = link.ends[1]
                for status in (e.IBV_WC_RETRY_EXC_ERR, e.IBV_WC_WR_FLUSH_ERR):
                    equal(end.completion(60).status, status)
                modify(end.qp, e.IBV_QPS_RESET)
                link.connect()
            failed += 1
        yield lose
        true(failed, "no connection has failed")


@contextlib.contextmanager
def failed_members():
    """Datagrams to a group of as many failed QPs as it may have, whose process repeatedly reports full receive rings.
    Zeroed elements are valid receives, and a full CQ stops nothing."""
    not_for_rxe("joins no group")
    group = "239.1.1.9"
    with contextlib.closing(UdEnd(os.environ["DEV"])) as a, contextlib.closing(UdEnd(os.environ["PEER_DEV"])) as b, \
            contextlib.ExitStack() as stack:
        device = a.ctx.query_device()
        cap = QPCap(max_send_wr=1, max_recv_wr=min(device.max_qp_wr, 16383), max_send_sge=1, max_recv_sge=1)
        init, attr, rings = QPInitAttr(qp_type=e.IBV_QPT_UD, scq=a.cq, rcq=a.cq, cap=cap), QPAttr(port_num=1), []
        for _ in range(device.max_mcast_qp_attach - 1):
            qp, made = with_rings(lambda: QP(a.pd, init, attr))
            stack.callback(qp.close)
            rings.append(ABI.queues(made)[0])
            modify(qp, e.IBV_QPS_ERR)
        equal(a.attach(group), len(rings) + 1, "members")
        stack.callback(a.detach, group)
        handle = b.handle_for(group, int(os.environ["PEER_GID4"]))

        def fill():
            for ring in rings:
                ring.fill()
            for number in range(DEPTH):
                b.post(handle, MULTICAST_QPN, number)
            done = 0
            while done < DEPTH:
                done += len(b.cq.poll(DEPTH)[1])
        yield fill
        eventually(lambda: all(ring.get(CONSUMER) == ring.get(PRODUCER) for ring in rings), "all are flushed", 60)


# ---- the tests ---------------------------------------------------------------------------------------

# By name: a description, the generator, and whether packets pass the interface in every round.
TRAFFIC = {
    "idle": ("no traffic", idle, False),
    "busy": ("a process that computes", busy, False),
    **{f"packets{at}": (f"packets: {kind}", lambda kind=kind: packets(kind), True) for at, kind in enumerate(KINDS)},
    "long": ("super-packets to a closed port", long_datagrams, True),
    "tcp": ("TCP both ways", tcp, True),
    "writes": ("WRITEs of 4 KiB", lambda: streams(WRITE, 4096), True),
    "large": ("WRITEs of 1 MiB", lambda: streams(WRITE, LARGE), True),
    "both": ("WRITEs of 1 MiB both ways, 8 connections", lambda: streams(WRITE, LARGE, CONNECTIONS, True), True),
    "reads": ("READs of 64 MiB", lambda: streams(READ, LARGE << 6), True),
    "split": ("READs of 64 MiB, split", split_reads, True),
    "local": ("WRITEs of 1 MiB within a device", lambda: streams(WRITE, LARGE, connect=pair), False),
    "timeouts": (f"the peers of {PEERS} connections disappear", timeouts, True),
    "failures": ("flushes of a long queue", failures, False),
    "failed": ("datagrams to failed QPs with full rings", failed_members, True),
}


def allowed():
    """Milliseconds that the network allows for one pass of its softirqs."""
    with open("/proc/sys/net/core/netdev_budget_usecs", encoding="ascii") as file:
        return int(file.read()) / 1e3


def arrived():
    """Packets that DEV's interface received."""
    with open(f"/sys/class/net/{os.environ['NETDEV']}/statistics/rx_packets", encoding="ascii") as file:
        return int(file.read())


def middle_round(what, make, passes):
    """Measures one kind of traffic; returns the longest delay of the median round, in milliseconds."""
    os.sched_setaffinity(0, {PLACE})
    before, steps, watcher = arrived(), 0, Watcher()
    with watcher, make() as some:
        some()
        watcher.start()
        while watcher.watching():
            some()
            steps += 1
        found = sorted(seconds * 1e3 for seconds in watcher.found())
    true(steps, "no traffic during the measurement")
    true(not passes or arrived() - before >= ROUNDS, "too few packets arrived")
    middle = found[len(found) // 2]
    print(f"# {what}: {found[0]:.2f} ms, {middle:.2f} ms, {found[-1]:.2f} ms", flush=True)
    return middle


@functools.cache
def without_traffic():
    """The same without traffic."""
    return middle_round(*TRAFFIC["idle"])


def watched(what, make, passes):
    """Measures one kind of traffic, and judges the delay where that makes sense."""
    if not (JUDGED and passes):
        middle_round(what, make, passes)
        return
    quiet, middle = without_traffic(), middle_round(what, make, passes)
    if quiet >= allowed():
        raise Skip(f"the host is busy: {quiet:.2f} ms in the middle round of no traffic")
    true(middle < allowed(), f"{middle:.2f} ms in the middle round; a pass may take {allowed():.2f} ms")


def test_of(name, what, make, passes):
    """The test of one kind."""
    def test():
        watched(what, make, passes)
    test.__name__, test.__doc__ = name, f"The wake-up delay is measured with {what}"
    return test


if __name__ == "__main__":
    run([test_of(name, *kind) for name, kind in TRAFFIC.items()])
