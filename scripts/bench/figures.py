# SPDX-License-Identifier: GPL-2.0
"""The figures of the benchmark. Each `Run` is one pair of programs, whose output contains one or more figures.
"""

from dataclasses import dataclass, field

KIB, MIB = 1 << 10, 1 << 20

#: Messages per doorbell where a program has many to send: half of perftest's send queue.
LIST = 64

#: The contestants. `memcpy` is the processor's own limit, and exists on one device only.
#: `ferroce_direct` is ferroce with its own library, on devices of that link type.
FERROCE, DIRECT, RXE, SIW, TCP, MEMCPY = "ferroce", "ferroce_direct", "rxe", "siw", "tcp", "memcpy"
DRIVERS = (FERROCE, DIRECT, RXE, SIW)

#: Where. `device` is one RDMA device that talks to itself; then two namespaces; then the stock kernel, emulated.
DEVICE, VETH, VETH1500, STOCK, PAIR = "device", "veth", "veth1500", "stock", "pair"
#: Of the stock kernel, too; and two machines, see bench.pair.
NETNS, WIRE = "netns", "wire"
PATHS = {
    DEVICE: "one device",
    VETH: "veth, two namespaces, MTU 4200",
    VETH1500: "veth, two namespaces, MTU 1500",
    STOCK: "one device, stock kernel, under QEMU without hardware virtualisation: only ratios mean something",
    NETNS: "veth, two namespaces, stock kernel, under QEMU as well",
    PAIR: "two machines, virtio-net, stock kernel, under QEMU as well",
    WIRE: "two machines and the network between them",
}


@dataclass(frozen=True)
class Figure:
    """One number that a run measures."""

    key: str
    title: str
    unit: str
    #: Whether less is better.
    less: bool = False


@dataclass(frozen=True)
class Run:
    """One way to get figures."""

    name: str
    figures: tuple
    #: The RDMA program and its options; both ends get the same.
    rdma: tuple = ()
    #: The kind of TCP run that measures the same figures, if there is one (see bench.programs).
    tcp: str = ""
    memcpy: bool = False
    #: Bytes of a message.
    size: int = 0
    #: Messages per doorbell: perftest requires a multiple of them.
    batch: int = 1
    qps: int = 1
    #: How long one measurement shall take, seconds. The warm-up finds the number of messages for that.
    seconds: float = 0.5
    #: Messages of the warm-up, and the fewest of a measurement.
    least: int = 100
    paths: tuple = (DEVICE, VETH)
    drivers: tuple = (FERROCE, RXE)
    #: What netem does to the wire, both ways.
    wire: str = ""
    #: The processor time is taken, too: figures `cpu`.
    cpu: bool = False
    #: Not perftest, but what this names in bench.programs or bench.work; and options for it, as text.
    program: str = ""
    options: str = ""
    quick: bool = False
    #: Seconds until it has failed.
    limit: int = 30


def bandwidth(verb, size, title, batch=1, **more):
    """A stream of messages of one size, of which so many are posted at a time. Small ones are counted, large ones
    weighed."""
    name = f"{verb}_bw_{title.replace(' ', '').lower()}"
    shown, options = f"{verb} {title}", ()
    if batch > 1:
        name, shown, options = f"{name}_list", f"{shown}, {batch} per post", ("-l", str(batch))
    return Run(
        name,
        (Figure("rate", shown, "1/s") if size < KIB else Figure("mb", shown, "MB/s"),),
        rdma=(f"ib_{verb}_bw", "-s", str(size), *options),
        size=size,
        batch=batch,
        least=max(50, min(2000, 16 * MIB // size)),
        **more,
    )


def latency(verb, **more):
    """A ping-pong of 8 bytes (for reads and atomics: a request and its response)."""
    return Run(
        f"{verb}_lat",
        (
            Figure("median", f"{verb} latency 8 B, median", "us", less=True),
            Figure("p99", f"{verb} latency 8 B, 99 %", "us", less=True),
            Figure("p999", f"{verb} latency 8 B, 99.9 %", "us", less=True),
            Figure("mean", f"{verb} latency 8 B, mean", "us", less=True),
        ),
        rdma=(f"ib_{verb}_lat",) + (() if verb == "atomic" else ("-s", "8")),
        size=8,
        least=3000,
        **more,
    )


def several(qps, **more):
    """64 KiB writes over many queue pairs of one process."""
    return Run(
        f"write_bw_64kib_{qps}qp",
        (Figure("mb", f"write 64 KiB, {qps} QPs", "MB/s"),),
        rdma=("ib_write_bw", "-s", str(64 * KIB), "-q", str(qps)),
        size=64 * KIB,
        qps=qps,
        least=max(20, 200 // qps),
        **more,
    )


def wire(name, netem, title):
    """64 KiB writes over a wire that does something to packets."""
    return Run(
        f"write_bw_64kib_{name}",
        (Figure("mb", f"write 64 KiB, {title}", "MB/s"),),
        rdma=("ib_write_bw", "-s", str(64 * KIB)),
        tcp="bandwidth",
        size=64 * KIB,
        least=50,
        paths=(VETH,),
        wire=netem,
        seconds=2,
        limit=60,
    )


def cpu(verb, size, title, key, unit, **more):
    """Processor time of both ends and the kernel under them; `more` as in Run."""
    name, options = f"{verb}_cpu_{key}", more.pop("options", ())
    return Run(
        name,
        (Figure(key, title, unit, less=True),),
        rdma=(f"ib_{verb}_bw", "-s", str(size), *options),
        size=size,
        least=min(4000, 64 * MIB // size),
        cpu=True,
        seconds=1.5,
        limit=60,
        **more,
    )


def objects():
    """What objects cost."""
    yield Run(
        "memory",
        (
            Figure("per_qp", "kernel memory per QP (128 + 128 WRs)", "KiB", less=True),
            Figure("per_gib", "kernel memory per GiB of MR", "MiB", less=True),
        ),
        program="objects",
        paths=(DEVICE,),
        drivers=DRIVERS,
    )
    # Large ones one by one: a contestant that takes too long for one keeps the others.
    for name, listed in (
        ("", (("k4", "4 KiB"), ("k64", "64 KiB"), ("m1", "1 MiB"), ("m16", "16 MiB"))),
        ("_256mib", (("m256", "256 MiB"),)),
        ("_1gib", (("g1", "1 GiB"),)),
        ("_4gib", (("g4", "4 GiB"),)),
    ):
        yield Run(
            f"register{name}",
            tuple(Figure(key, f"reg_mr {size}", "us", less=True) for key, size in listed),
            program="objects",
            paths=(DEVICE,),
            drivers=DRIVERS,
            limit=60,
        )
    yield Run(
        "give_back",
        (
            Figure("k4", "reg_mr + dereg_mr 4 KiB", "us", less=True),
            Figure("m64", "reg_mr + dereg_mr 64 MiB", "us", less=True),
            Figure("qp", "create + destroy a QP", "us", less=True),
            Figure("killed", "exit with 3000 MRs", "ms", less=True),
        ),
        program="objects",
        paths=(DEVICE,),
        drivers=DRIVERS,
        limit=120,
    )
    yield Run(
        "connections",
        (Figure("rate", "connections by RDMA CM", "1/s"),),
        program="connections",
        # Two ends at one address would share the port that cmtime binds at both.
        paths=(VETH,),
        least=100,
        seconds=1,
        limit=60,
    )


ALL = (DEVICE, VETH, VETH1500)
EVERY = DRIVERS

RUNS = (
    bandwidth("write", 64 * KIB, "64 KiB", quick=True, paths=ALL, drivers=EVERY, tcp="bandwidth", memcpy=True),
    bandwidth("send", 64 * KIB, "64 KiB", quick=True, paths=ALL, drivers=EVERY, tcp="bandwidth", memcpy=True),
    bandwidth("read", 64 * KIB, "64 KiB", quick=True, paths=ALL, drivers=EVERY, tcp="bandwidth", memcpy=True),
    bandwidth("write", 64, "64 B", quick=True, drivers=EVERY),
    bandwidth("write", 64, "64 B", LIST, quick=True),
    bandwidth("write", 64 * KIB, "64 KiB", LIST, quick=True, tcp="bandwidth", memcpy=True),
    latency("write", quick=True, paths=ALL, drivers=EVERY, tcp="latency"),
    several(16),
    cpu("write", 64 * KIB, "CPU time per GiB, 64 KiB writes", "per_gib", "s/GiB", quick=True, tcp="cpu"),
    cpu("write", 64, "CPU time per message, 64 B writes", "per_message", "us"),
    cpu("send", 64, "CPU time per message, 64 B sends, sleeping", "per_message", "us", options=("-e",)),
    cpu("send", 64 * KIB, "CPU time per GiB, 64 KiB sends, sleeping", "per_gib", "s/GiB", options=("-e",)),
    bandwidth("send", 64, "64 B"),
    bandwidth("read", 64, "64 B"),
    *(
        bandwidth(verb, size, title)
        for size, title in ((4 * KIB, "4 KiB"), (MIB, "1 MiB"))
        for verb in ("write", "send", "read")
    ),
    latency("send"),
    latency("read", drivers=EVERY),
    latency("atomic"),
    several(256, limit=120),
    several(1000, limit=240),
    wire("loss01", "loss 0.1%", "0.1 % loss"),
    wire("loss1", "loss 1%", "1 % loss"),
    wire("delay", "delay 10ms", "10 ms delay each way"),
    wire("reorder", "delay 1ms reorder 25%", "25 % of packets overtake"),
    *objects(),
)


@dataclass(frozen=True)
class Target:
    """A target: the figure of a contestant divided by a rival's, or by another one of its own."""

    run: str
    figure: str
    rival: str
    #: By path: at least, or for figures where less is better, at most.
    limits: dict = field(default_factory=dict)
    who: str = FERROCE


TARGETS = (
    *(
        Target(f"{verb}_bw_64kib", "mb", TCP, {VETH: 1.25, VETH1500: 1.1} | ({PAIR: 0.9} if verb == "write" else {}))
        for verb in ("write", "send", "read")
    ),
    Target("write_bw_64kib", "mb", RXE, {PAIR: 1.6}),
    Target("write_bw_64kib_list", "mb", TCP, {VETH: 1.8}),
    Target("write_cpu_per_gib", "per_gib", TCP, {VETH: 0.7}),
    Target("write_bw_64b_list", "rate", RXE, {DEVICE: 10}),
    Target("write_lat", "median", RXE, {DEVICE: 0.5}),
    Target("write_bw_64kib", "mb", TCP, {DEVICE: 4, VETH: 1.35}, DIRECT),
    Target("write_bw_64b", "rate", FERROCE, {DEVICE: 9, VETH: 5.5}, DIRECT),
    Target("write_bw_64b", "rate", SIW, {DEVICE: 1, VETH: 1}, DIRECT),
    Target("write_lat", "median", FERROCE, {DEVICE: 1.05}, DIRECT),
    Target("send_cpu_per_message", "per_message", RXE, {DEVICE: 0.7, VETH: 0.9}),
)
