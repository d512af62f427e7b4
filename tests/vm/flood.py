# SPDX-License-Identifier: GPL-2.0
"""What a flood of packets costs, and what a process is charged for.

The cost is the time that a sender needs for many packets, all of which are received in its own time, as over a veth;
the measure is the same flood to a UDP port that is closed. Prints factors; judges them only where a limit is given, on
a machine that has nothing else to do.
"""

import contextlib
import os
import socket
import subprocess
import time

import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

import frame as f
from bystander import Bystander
from counters import counter
from drops import ELSEWHERE, deth
from hostile_wire import NOBODY, Scene
from netns import within_namespace
from rc import PAGE, SLOWNESS
from tap import Skip, not_for_rxe, run, true
from ud import GSI_QKEY
from wire import BATCH, Attacker, Wire
from work import RXE

PACKETS = int(os.environ.get("FLOOD_PACKETS", "20000"))
# A packet to a closed port is answered by ICMP a thousand times a second, and otherwise looked up and freed.
WORST_FACTOR = float(os.environ.get("FLOOD_FACTOR", "inf"))
# What a connection beside a flood has to get done before seconds are up, and, where factors are judged, how much of
# what it gets done without one.
SOME_ROUNDS, PATIENCE, LEAST_SHARE = 4, 30, 0.1
GROUP = "/sys/fs/cgroup/charged"
MAX_SGE = 4
# What the driver keeps of each slot of an RC send queue, out of the process's reach: a Slot of the window, the Shape of
# the entry, and its scatter list; see Slots and Entries in rust/driver/queue/sq.rs. The sizes of the first two are what the
# module's debug information says, that of the third stands in rust/driver/abi/mod.rs. If one shrinks, so may this.
COPIES = (72, 40, 16 * MAX_SGE)
# Queues of so many, which makes two slots or 64. A power of two of bytes is what kmalloc charges for that, whatever was
# asked for; what is larger than two pages may come from elsewhere, and then costs less.
SHALLOW, DEEP = 1, 63
# MEMCG_CHARGE_BATCH, in pages: so much may have happened on each processor before the figures of a group tell of it.
CHARGE_BATCH = 64


def frames(attacker, flow, kind):
    """A batch of frames of one kind."""
    found = []
    for number in range(BATCH):
        fields = attacker.base(flow, f.RC | f.SEND_ONLY, number, bytes(256))
        fields["ident"] = number + 1
        found.append(f.build({**fields, **kind(number)}))
    return found


# What is sent, and the counter of those that are dropped, or found to be what they are.
KINDS = {
    "a closed port": (None, lambda _: {"dport": 4999}),
    "a wrong ICRC": ("rx_bad_icrc", lambda number: {"icrc": number + 1}),
    "no such queue pair": ("rx_unknown_qp", lambda _: {"qpn": 0xABCDEF}),
    "a wrong partition": ("rx_bad_pkey", lambda _: {"pkey": 1}),
    "requests that were served before": ("duplicate_request", lambda number: {"psn": number + 0x800}),
    "requests far ahead": ("out_of_seq_request", lambda number: {"psn": number + 0x4000}),
    "sends that nobody receives": ("send_rnr_err", lambda _: {"psn": 0x1000}),
    # An address of this machine that no port has is looked for with every port.
    "queue pair 1 of no port": ("rx_not_our_address", lambda _: {
        "opcode": f.UD | f.SEND_ONLY, "qpn": 1, "body": deth(GSI_QKEY) + bytes(256),
        "destination": socket.inet_aton(ELSEWHERE)}),
    "no management datagrams": ("rx_bad_mad", lambda _: {
        "opcode": f.UD | f.SEND_ONLY, "qpn": 1, "body": deth(GSI_QKEY) + b"\2" + bytes(255)}),
}


@contextlib.contextmanager
def attacked():
    """An attacker, the queue pair that it aims at, and its wire."""
    scene = Scene()
    attacker = Attacker(scene.targets([]))
    flow = next(flow for flow in attacker.flows if flow.service == f.RC and flow.peer & NOBODY == NOBODY)
    with within_namespace("b"):
        wire = Wire(os.environ["PEER_NETDEV"])
    yield attacker, flow, wire
    scene.close()


@contextlib.contextmanager
def elsewhere():
    """An address of this machine that no device has."""
    subprocess.run(["ip", "addr", "add", f"{ELSEWHERE}/32", "dev", "lo"], check=True)
    yield
    subprocess.run(["ip", "addr", "del", f"{ELSEWHERE}/32", "dev", "lo"], check=True)


def flood():
    """A flood on port 4791 is dropped for what is wrong with it, and costs as printed"""
    took = dict.fromkeys(KINDS, float("inf"))
    with elsewhere(), attacked() as (attacker, flow, wire):
        for _ in range(3):
            for name, (reason, kind) in KINDS.items():
                batch = frames(attacker, flow, kind)
                before = counter(reason, os.environ["DEV"]) if reason and not RXE else 0
                start = time.monotonic()
                for _ in range(PACKETS // BATCH):
                    wire.send(batch)
                took[name] = min(took[name], time.monotonic() - start)
                if reason and not RXE:
                    came = counter(reason, os.environ["DEV"]) - before
                    # What a connection has an answer to, it need not count one by one.
                    least = PACKETS // 2 if reason.startswith("rx_") else 0
                    true(came > least, f"of {name}, {came} of {PACKETS} came to {reason}")
    unit = took.pop("a closed port")
    print(f"# a closed port: {unit / PACKETS * 1e6:.2f} us a packet", flush=True)
    for name, seconds in took.items():
        print(f"# {name}: {seconds / unit:.2f} times as long", flush=True)
    worst = max(took.values()) / unit
    true(worst < WORST_FACTOR, f"{worst:.1f} times as long as to a closed port")


def pace(bystander, action):
    """Rounds of the bystander that both begin and end while the action is repeated, and how many those are a second.
    It goes on for three seconds, and for as long as it takes until there are some; if that is too long, so be it."""
    first, start = bystander.rounds(), time.monotonic()
    while True:
        late = time.monotonic() > start + PATIENCE * SLOWNESS
        action()
        # The first of them had begun before.
        whole, took = max(0, bystander.rounds() - first - 1), time.monotonic() - start
        if (took > 3 * SLOWNESS and whole >= SOME_ROUNDS) or late:
            return whole, whole / took


def beside():
    """A connection goes on beside a flood of valid and of invalid packets"""
    with attacked() as (attacker, flow, wire):
        batch = frames(attacker, flow, lambda number: {"psn": number + 0x800, "icrc": number % 2})
        bystander, sent = Bystander(), [0]

        def strike():
            wire.send(batch)
            sent[0] += BATCH

        quiet = pace(bystander, lambda: time.sleep(0.01))
        before = 0 if RXE else counter("rx_bad_icrc", os.environ["DEV"])
        flooded = pace(bystander, strike)
        came = sent[0] if RXE else 2 * (counter("rx_bad_icrc", os.environ["DEV"]) - before)
        bystander.end()
    print(f"# {sent[0]} packets; rounds a second: {quiet[1]:.0f} without, {flooded[1]:.0f} with them", flush=True)
    true(came > sent[0] // 2, f"of {sent[0]} packets, about {came} came")
    true(quiet[0] >= SOME_ROUNDS, f"{quiet[0]} whole rounds while nothing else was to be done")
    true(flooded[0] >= SOME_ROUNDS, f"{flooded[0]} whole rounds during the flood")
    share = flooded[1] / quiet[1]
    true(WORST_FACTOR == float("inf") or share > LEAST_SHARE, f"{share:.3f} of the rounds there are without a flood")


def current():
    """What the group is charged for, in bytes."""
    with open(f"{GROUP}/memory.current", encoding="ascii") as file:
        return int(file.read())


def current_kernel(group=GROUP):
    """What of that is the kernel's: a process has memory of its own, which comes in large pages, or does not."""
    with open(f"{group}/memory.stat", encoding="ascii") as file:
        return int(dict(line.split() for line in file)["kernel"])


@contextlib.contextmanager
def cgroups(controller):
    """Groups with that controller can be made. In the end this process is in the first."""
    root = os.path.dirname(GROUP)
    if not os.path.exists(f"{root}/cgroup.controllers") and os.system(f"mount -t cgroup2 none {root} 2>/dev/null"):
        raise Skip("this kernel has no cgroups")
    with open(f"{root}/cgroup.controllers", encoding="ascii") as file:
        if controller not in file.read().split():
            raise Skip(f"this kernel has no {controller} cgroup")
    with open(f"{root}/cgroup.subtree_control", "w", encoding="ascii") as file:
        file.write(f"+{controller}")
    try:
        yield
    finally:
        move(root)


@contextlib.contextmanager
def charged_group():
    """A memory cgroup that this process is in."""
    with cgroups("memory"):
        os.makedirs(GROUP, exist_ok=True)
        move(GROUP)
        yield


def move(group):
    """This process goes into a group."""
    with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
        file.write("0")


def ring_bytes(before):
    """Bytes of the rings that are mapped now and were not before."""
    with open("/proc/self/maps", encoding="ascii") as file:
        spans = [line.split()[0] for line in file if "/dev/infiniband/uverbs" in line]
    return sum(int(span.split("-")[1], 16) - int(span.split("-")[0], 16) for span in spans) - before


def charged():
    """Rings and what stands behind them are charged to who made them, and given back"""
    not_for_rxe("charges nobody")
    with charged_group():
        ctx = Context(name=os.environ["DEV"])
        pd, before, mapped = PD(ctx), current(), ring_bytes(0)
        cqs = [CQ(ctx, 8192, None, None, 0) for _ in range(4)]
        qps = queue_pairs_of(pd, cqs[0], 2048, 8)
        srqs = [SRQ(pd, SrqInitAttr(SrqAttr(max_wr=8192, max_sge=4))) for _ in range(4)]
        rings, cost = ring_bytes(mapped), current() - before
        print(f"# rings of {rings >> 10} KiB: charged for {cost >> 10} KiB", flush=True)
        for one in (*qps, *srqs, *cqs):
            one.close()
        left = current() - before
        pd.close()
        ctx.close()
    true(rings > 1 << 20, "rings of some size")
    true(cost >= rings, "not all of it was charged")
    true(left < cost // 4, f"{left >> 10} KiB are charged for what is gone")


def queue_pairs_of(pd, cq, depth, count):
    """Queue pairs with queues of that depth."""
    cap = QPCap(max_send_wr=depth, max_recv_wr=depth, max_send_sge=MAX_SGE, max_recv_sge=MAX_SGE)
    return [QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap)) for _ in range(count)]


def copied(depth):
    """What the copies of one queue pair are charged at, each for itself."""
    return [1 << (size * (depth + 1) - 1).bit_length() for size in COPIES]


def copies():
    """So are the copies of requests that a process does not see: they grow with its queues"""
    not_for_rxe("charges nobody")
    # So many that the smallest of the copies, which has a page, is twice what may not show yet.
    count, made, found = 2 * os.cpu_count() * CHARGE_BATCH, [], {}
    with charged_group():
        ctx = Context(name=os.environ["DEV"])
        pd, cq = PD(ctx), CQ(ctx, 16, None, None, 0)
        # Twice of the first, since it pays for what the others find made.
        for depth in (SHALLOW, SHALLOW, DEEP):
            before, mapped = current_kernel(), ring_bytes(0)
            made += queue_pairs_of(pd, cq, depth, count)
            found[depth] = ring_bytes(mapped), current_kernel() - before
        for one in (*made, cq, pd, ctx):
            one.close()
    rings, cost = (deep - shallow for deep, shallow in zip(found[DEEP], found[SHALLOW]))
    private = count * (sum(copied(DEEP)) - sum(copied(SHALLOW)))
    print(f"# {rings >> 10} KiB more of rings, {private >> 10} KiB of copies: charged for {cost >> 10} KiB", flush=True)
    true(cost > rings + private - os.cpu_count() * CHARGE_BATCH * PAGE, "not all of it was charged")


if __name__ == "__main__":
    run([flood, beside, charged, copies])
