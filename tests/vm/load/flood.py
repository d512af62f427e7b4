# SPDX-License-Identifier: GPL-2.0
"""The cost of a packet flood, and the memory that a process is charged for.

The cost is the time of a sender for many packets; the receiver runs in that time, as the packets pass a veth. The unit
is the same flood to a closed UDP port. The test prints factors. It judges them only if a limit is given, for an
otherwise idle machine.
"""

import contextlib
import os
import socket
import subprocess
import time

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

import enums as e
import frame as f
from bystander import Bystander
from counters import counter
from drops import ELSEWHERE, deth
from hostile_wire import NOBODY, Scene
from netns import within_namespace
from rc import PAGE, SLOWNESS, End
from tap import Skip, not_for_rxe, run, true
from ud import GSI_QKEY
from wire import BATCH, Attacker, Wire
from work import RXE

# The kernel answers packets to a closed port with at most a thousand ICMP errors a second, and otherwise looks up the
# socket and frees the packet.
WORST_FACTOR = float(os.environ.get("FLOOD_FACTOR", "inf"))
# Without a limit, nothing judges how long a flood takes. Then it is shorter, and is not repeated for its best time:
# each flood repeats the same few packets.
WHOLE = WORST_FACTOR < float("inf") or os.environ.get("ALL") == "1"
PACKETS = int(os.environ.get("FLOOD_PACKETS", "20000" if WHOLE else "5000"))
TIMES = 3 if WHOLE else 1
# Seconds of a flood beside a connection.
LEAST_SECONDS = 3 if WHOLE else 0.5
# Rounds and seconds that a connection beside a flood gets at least, and, if factors are judged, its share of the rounds
# without a flood.
SOME_ROUNDS, PATIENCE, LEAST_SHARE = 4, 30, 0.1
GROUP = "/sys/fs/cgroup/charged"
MAX_SGE = 4
# Kernel memory for each request of an RC send queue that may be in progress: a Slot of the send window, a BodyLayout,
# and a scatter/gather list; see SendSlots and SendBodies in rust/driver/queue/sq.rs. The sizes of the first two come
# from the module's debug information, that of the third from Sge in rust/rdma/ib/wr.rs. If one shrinks, this may
# shrink, too.
COPIES = (72, 8, 16 * MAX_SGE)
# Queue depths. That of DEEP is so large that each copy takes a page.
SHALLOW, DEEP = 1, 512
# MEMCG_CHARGE_BATCH, in pages: each CPU may have charged this much before the figures of a group show it.
CHARGE_BATCH = 64


def frames(attacker, flow, kind):
    """A batch of frames of one kind."""
    found = []
    for number in range(BATCH):
        fields = attacker.base(flow, f.RC | f.SEND_ONLY, number, bytes(256))
        fields["ident"] = number + 1
        found.append(f.build({**fields, **kind(number)}))
    return found


# The packets of each flood, and the counter of their drops or of their kind.
KINDS = {
    "a closed port": (None, lambda _: {"dport": 4999}),
    "a wrong ICRC": ("rx_bad_icrc", lambda number: {"icrc": number + 1}),
    "no such QP": ("rx_unknown_qp", lambda _: {"qpn": 0xABCDEF}),
    "a wrong partition": ("rx_bad_pkey", lambda _: {"pkey": 1}),
    "duplicate requests": ("duplicate_request", lambda number: {"psn": number + 0x800}),
    "requests far ahead": ("out_of_seq_request", lambda number: {"psn": number + 0x4000}),
    "sends without a receive": ("send_rnr_err", lambda _: {"psn": 0x1000}),
    # The lookup of a local address that no port has tries every port.
    "QP 1 of no port": ("rx_not_our_address", lambda _: {
        "opcode": f.UD | f.SEND_ONLY, "qpn": 1, "body": deth(GSI_QKEY) + bytes(256),
        "destination": socket.inet_aton(ELSEWHERE)}),
    "invalid management datagrams": ("rx_bad_mad", lambda _: {
        "opcode": f.UD | f.SEND_ONLY, "qpn": 1, "body": deth(GSI_QKEY) + b"\2" + bytes(255)}),
}


@contextlib.contextmanager
def attacked():
    """An attacker, the flow of the QP that it attacks, and its wire."""
    scene = Scene()
    attacker = Attacker(scene.targets([]))
    flow = next(flow for flow in attacker.flows if flow.service == f.RC and flow.peer & NOBODY == NOBODY)
    with within_namespace("b"):
        wire = Wire(os.environ["PEER_NETDEV"])
    yield attacker, flow, wire
    scene.close()


@contextlib.contextmanager
def elsewhere():
    """Adds a local address that no device has."""
    subprocess.run(["ip", "addr", "add", f"{ELSEWHERE}/32", "dev", "lo"], check=True)
    yield
    subprocess.run(["ip", "addr", "del", f"{ELSEWHERE}/32", "dev", "lo"], check=True)


def flood():
    """A flood to port 4791 is dropped for its defect; its cost is printed"""
    took = dict.fromkeys(KINDS, float("inf"))
    with elsewhere(), attacked() as (attacker, flow, wire):
        for _ in range(TIMES):
            for name, (reason, kind) in KINDS.items():
                batch = frames(attacker, flow, kind)
                before = counter(reason, os.environ["DEV"]) if reason and not RXE else 0
                start = time.monotonic()
                for _ in range(PACKETS // BATCH):
                    wire.send(batch)
                took[name] = min(took[name], time.monotonic() - start)
                if reason and not RXE:
                    came = counter(reason, os.environ["DEV"]) - before
                    # A connection need not count every packet that it has a response for.
                    least = PACKETS // 2 if reason.startswith("rx_") else 0
                    true(came > least, f"{name}: {reason} counted {came} of {PACKETS} packets")
    unit = took.pop("a closed port")
    print(f"# a closed port: {unit / PACKETS * 1e6:.2f} us a packet", flush=True)
    for name, seconds in took.items():
        print(f"# {name}: factor {seconds / unit:.2f}", flush=True)
    worst = max(took.values()) / unit
    true(worst < WORST_FACTOR, f"factor {worst:.1f} relative to a closed port")


def pace(bystander, action, enough=lambda: True):
    """Repeats the action and returns the number of the bystander's whole rounds meanwhile, and how many a second that
    is. It takes LEAST_SECONDS, and longer until some rounds are complete and it is enough, up to a limit."""
    first, start = bystander.rounds(), time.monotonic()
    while True:
        late = time.monotonic() > start + PATIENCE * SLOWNESS
        action()
        # The first round had begun before.
        whole, took = max(0, bystander.rounds() - first - 1), time.monotonic() - start
        if (took > LEAST_SECONDS * SLOWNESS and whole >= SOME_ROUNDS and enough()) or late:
            return whole, whole / took


def beside():
    """A connection makes progress beside a flood of valid and invalid packets"""
    with attacked() as (attacker, flow, wire):
        batch = frames(attacker, flow, lambda number: {"psn": number + 0x800, "icrc": number % 2})
        bystander, sent = Bystander(), [0]

        def strike():
            wire.send(batch)
            sent[0] += BATCH

        quiet = pace(bystander, lambda: time.sleep(0.01))
        before = 0 if RXE else counter("rx_bad_icrc", os.environ["DEV"])
        flooded = pace(bystander, strike, lambda: sent[0] >= PACKETS)
        came = sent[0] if RXE else 2 * (counter("rx_bad_icrc", os.environ["DEV"]) - before)
        bystander.end()
    print(f"# {sent[0]} packets; rounds a second: {quiet[1]:.0f} without, {flooded[1]:.0f} with them", flush=True)
    true(came > sent[0] // 2, f"about {came} of {sent[0]} packets arrived")
    true(quiet[0] >= SOME_ROUNDS, f"{quiet[0]} whole rounds without a flood")
    true(flooded[0] >= SOME_ROUNDS, f"{flooded[0]} whole rounds during the flood")
    share = flooded[1] / quiet[1]
    true(WORST_FACTOR == float("inf") or share > LEAST_SHARE, f"{share:.3f} of the rounds without a flood")


def current():
    """Bytes that the group is charged for."""
    with open(f"{GROUP}/memory.current", encoding="ascii") as file:
        return int(file.read())


def current_kernel(group=GROUP):
    """The kernel memory of the group. User memory is excluded because it comes in large pages or not."""
    with open(f"{group}/memory.stat", encoding="ascii") as file:
        return int(dict(line.split() for line in file)["kernel"])


@contextlib.contextmanager
def cgroups(controller):
    """Mounts cgroups with that controller if necessary. At the end this process moves to the root group."""
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
    """Moves this process into a memory cgroup."""
    with cgroups("memory"):
        os.makedirs(GROUP, exist_ok=True)
        move(GROUP)
        yield


def move(group):
    """Moves this process into a group."""
    with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
        file.write("0")


def ring_bytes(before):
    """Bytes of the mapped rings, less those mapped before."""
    with open("/proc/self/maps", encoding="ascii") as file:
        spans = [line.split()[0] for line in file if "/dev/infiniband/uverbs" in line]
    return sum(int(span.split("-")[1], 16) - int(span.split("-")[0], 16) for span in spans) - before


def charged():
    """Rings and the memory behind them are charged to their creator and freed"""
    not_for_rxe("does not charge memory")
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
    true(rings > 1 << 20, "the rings are too small")
    true(cost >= rings, "some memory was not charged")
    true(left < cost // 4, f"{left >> 10} KiB are still charged after the objects were destroyed")


def queue_pairs_of(pd, cq, depth, count):
    """QPs with queues of that depth, in RTS: the copies are allocated last."""
    cap = QPCap(max_send_wr=depth, max_recv_wr=depth, max_send_sge=MAX_SGE, max_recv_sge=MAX_SGE)
    made = [QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap)) for _ in range(count)]
    end = End()
    for one in made:
        one.to_rts(end.attr(NOBODY))
    end.close()
    return made


def copied(depth):
    """Charges for each of the private copies of one QP: a power of two, or whole pages if that would waste one."""
    for size in COPIES:
        power = 1 << (size * depth - 1).bit_length()
        pages = -(-size * depth // PAGE) * PAGE
        yield pages if power - pages >= PAGE else power


def copies():
    """Private copies of requests are charged to their creator, and grow with the queues"""
    not_for_rxe("does not charge memory")
    # So many that the smallest copy, which takes a page, is twice the charge that may not show yet.
    count, made, found = 2 * os.cpu_count() * CHARGE_BATCH, [], {}
    with charged_group():
        ctx = Context(name=os.environ["DEV"])
        pd, cq = PD(ctx), CQ(ctx, 16, None, None, 0)
        # Twice for the first depth: its first pass pays for caches that later passes reuse.
        for depth in (SHALLOW, SHALLOW, DEEP):
            before, mapped = current_kernel(), ring_bytes(0)
            made += queue_pairs_of(pd, cq, depth, count)
            found[depth] = ring_bytes(mapped), current_kernel() - before
        for one in (*made, cq, pd, ctx):
            one.close()
    rings, cost = (deep - shallow for deep, shallow in zip(found[DEEP], found[SHALLOW]))
    private = count * (sum(copied(DEEP)) - sum(copied(SHALLOW)))
    print(f"# {rings >> 10} KiB more of rings, {private >> 10} KiB of copies: charged for {cost >> 10} KiB", flush=True)
    true(cost > rings + private - os.cpu_count() * CHARGE_BATCH * PAGE, "some memory was not charged")


if __name__ == "__main__":
    run([flood, beside, charged, copies])
