# SPDX-License-Identifier: GPL-2.0
"""Real work: disks, files, and messages of programs that know more transports than verbs, on the stock kernel under
QEMU. TCP is what they take without RDMA.

Starts no machine (bench.emulated does) and measures nothing itself (scripts/bench/vm/work.sh does).
"""

from bench import figures, parse
from bench.figures import NETNS, PAIR, RXE, STOCK, TCP, Figure, Run, Target

#: A round takes minutes, so there are no more than these.
MOST_ROUNDS = 3

#: TOPOLOGY= of scripts/vm.sh.
TOPOLOGIES = {STOCK: "single", NETNS: "netns", PAIR: "pair"}

#: The rivals of ferroce that need a boot of their own; TCP is measured in ferroce's.
DRIVERS = (figures.FERROCE, RXE)


def io(program, name, title, options, paths, large=False):
    """A run of fio, whose options are text."""
    return Run(
        f"{program}_{name}",
        (
            Figure("mb", title, "MB/s") if large else Figure("rate", title, "1/s"),
            Figure("median", f"{title}, median", "us", less=True),
            Figure("p99", f"{title}, 99 %", "us", less=True),
            Figure("cpu", f"{title}, CPU time per operation", "us", less=True),
        ),
        program=program,
        options=options,
        paths=paths,
        tcp="work",
    )


def disks():
    """NVMe. The in-tree drivers know RDMA devices of the first namespace only, so there is one machine, or two."""
    for verb, title in (("read", "reads"), ("write", "writes")):
        for depth in (1, 32):
            yield io(
                "nvme",
                f"rand{verb}_d{depth}",
                f"NVMe, random {title} of 4 KiB, depth {depth}",
                f"--rw=rand{verb} --bs=4k --iodepth={depth}",
                (STOCK, PAIR) if (verb, depth) == ("read", 32) else (STOCK,),
            )
    options = "--rw=read --bs=128k --iodepth=8"
    yield io("nvme", "read_d8", "NVMe, reads of 128 KiB, depth 8", options, (STOCK, PAIR), large=True)


def files():
    """NFS, past the page cache."""
    for verb, title in (("read", "reads"), ("write", "writes")):
        options = f"--rw={verb} --bs=128k --iodepth=8"
        yield io("nfs", verb, f"NFS, {title} of 128 KiB, depth 8", options, (NETNS,), large=True)
    yield io("nfs", "randread", "NFS, random reads of 4 KiB, depth 1", "--rw=randread --bs=4k --iodepth=1", (NETNS,))


RUNS = (
    *disks(),
    *files(),
    Run(
        "ucx_tag_lat",
        (
            Figure("median", "UCX, tag latency 8 B, median", "us", less=True),
            Figure("mean", "UCX, tag latency 8 B, mean", "us", less=True),
        ),
        program="ucx",
        options="-t tag_lat -s 8 -n 4000 -w 400",
        paths=(NETNS,),
        tcp="work",
    ),
    # It tells one percentile at a time.
    Run(
        "ucx_tag_lat_p99",
        (Figure("p99", "UCX, tag latency 8 B, 99 %", "us", less=True),),
        program="ucx",
        options="-t tag_lat -s 8 -n 4000 -w 400 -R 99",
        paths=(NETNS,),
        tcp="work",
    ),
    Run(
        "ucx_tag_bw",
        (Figure("mb", "UCX, tags of 1 MiB", "MB/s"),),
        program="ucx",
        options="-t tag_bw -s 1048576 -n 100 -w 10",
        paths=(NETNS, PAIR),
        tcp="work",
    ),
    Run(
        "mpi",
        (
            Figure("median", "Open MPI, ping-pong 8 B, median", "us", less=True),
            Figure("p99", "Open MPI, ping-pong 8 B, 99 %", "us", less=True),
            Figure("mb", "Open MPI, ping-pong 1 MiB", "MB/s"),
            Figure("sum8", "Open MPI, all-reduce 8 B, median", "us", less=True),
            Figure("sum1m", "Open MPI, all-reduce 1 MiB, median", "us", less=True),
        ),
        program="mpi",
        paths=(NETNS,),
        tcp="work",
    ),
)

TARGETS = (
    Target("nvme_randread_d1", "rate", TCP, {STOCK: 1.2}),
    Target("nvme_randread_d1", "p99", TCP, {STOCK: 1}),
    Target("nvme_randread_d32", "rate", TCP, {STOCK: 2}),
    Target("nvme_read_d8", "mb", TCP, {STOCK: 2}),
    Target("ucx_tag_bw", "mb", TCP, {NETNS: 1.5}),
    Target("ucx_tag_lat", "median", TCP, {NETNS: 0.5}),
)

#: All that a whole benchmark has.
ALL_RUNS = {run.name: run for run in (*figures.RUNS, *RUNS)}
ALL_TARGETS = (*figures.TARGETS, *TARGETS)

READERS = {"nvme": parse.fio, "nfs": parse.fio, "ucx": parse.ucx, "mpi": parse.figures_json}


def chosen(quick, names=()):
    """The runs of a whole benchmark, or those of given names. The quick one has none."""
    return [] if quick else [run for run in RUNS if not names or run.name in names]


def rounds(run, wanted):
    """How often a run is done in a benchmark of so many rounds."""
    return min(wanted, MOST_ROUNDS) if run in RUNS else wanted


def lines(runs, path):
    """What scripts/bench/vm/work.sh is to do, line by line."""
    return [f"{run.program} {run.name} {run.options}\n" for run in runs if path in run.paths]


def jobs(runs, path, driver, number):
    """The jobs of one boot."""
    for run in runs:
        if path in run.paths:
            for contestant in (driver, TCP) if driver == figures.FERROCE else (driver,):
                yield run, {"run": run.name, "path": path, "who": contestant, "round": number}
