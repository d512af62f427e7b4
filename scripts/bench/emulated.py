# SPDX-License-Identifier: GPL-2.0
"""The stock kernel under QEMU: one device of one machine, and two machines joined by virtio-net. One boot per
path, driver and round, drivers in turn.

Only the ratios mean anything: the processor is emulated. Starts these machines and reads the marked output of
scripts/bench/vm/emulated.sh and, for bench.work, of scripts/bench/vm/work.sh; the results have the form of those of
bench.host.
"""

import os
import subprocess
import tempfile

from bench import figures, host, parse, work

#: TOPOLOGY= of scripts/vm.sh.
TOPOLOGIES = {figures.STOCK: "single", figures.PAIR: "pair"}
#: Messages of a measurement, in whole lists: emulation makes each of them dear, a wire even more so.
COUNTS = {
    figures.STOCK: {"bw": 30 * figures.LIST, "lat": 1000},
    figures.PAIR: {"bw": 5 * figures.LIST, "lat": 1000},
}
#: Seconds until a boot has failed.
LIMIT = 900


def runs(names=()):
    """The runs that are done here: those of the quick benchmark that one program does alone."""
    return [
        run for run in figures.RUNS if run.quick and run.qps == 1 and not run.cpu and (not names or run.name in names)
    ]


def kind(run):
    """What perftest measures: bw or lat."""
    return "lat" if run.rdma[0].endswith("_lat") else "bw"


def command(run, path):
    """The program of a run, with its options, as text."""
    return " ".join((*run.rdma, "-n", str(COUNTS[path][kind(run)])))


def of_client(lines):
    """What the client's machine printed. Two machines print through one pipe, each line with its machine in front."""
    return [line.removeprefix("[b] ") for line in lines if not line.startswith("[a] ")]


def sections(lines):
    """{name: (return code, text)} of what the client's machine printed between the marks."""
    found, name, held = {}, None, []
    for line in of_client(lines):
        words = line.split()
        if words[:2] == ["bench:", "begin"]:
            name, held = words[2], []
        elif words[:2] == ["bench:", "end"] and name:
            found[name] = (int(words[2]), "\n".join(held))
            name = None
        else:
            held.append(line)
    return found


def result(job, section, read):
    """One result, from what one program printed, if anything."""
    if section is None:
        return {"job": job, "failed": "the machine did not come so far"}
    code, text = section
    try:
        if code:
            raise parse.Unreadable(f"the programs returned {code}")
        return {"job": job, "figures": read(text)}
    except parse.Unreadable as error:
        return {"job": job, "failed": str(error)}


def results(chosen, path, who, number, found):
    """The results of one boot. TCP, which needs no driver, is measured in every boot and counted in ferroce's."""
    for run in chosen:
        read = parse.perftest_latency if kind(run) == "lat" else parse.perftest_bandwidth
        job = {"run": run.name, "path": path, "who": who, "round": number}
        yield result(job, found.get(run.name), read)
        if who == figures.FERROCE and run.tcp == "bandwidth":
            yield result(job | {"who": figures.TCP}, found.get("tcp"), parse.iperf3)


def boot(script, lines, who, topology, files="", settings=""):
    """Boots, does what the lines tell a script, and returns the sections of the client. The script finds the lines in a
    file of its own name; `files` and `settings` are more of both."""
    with tempfile.TemporaryDirectory(prefix="ferroce-bench.") as directory:
        listed = os.path.join(directory, f"{script}.txt")
        with open(listed, "w", encoding="ascii") as file:
            file.writelines(lines)
        env = os.environ | {
            "KERNEL": "stock",
            "TOPOLOGY": topology,
            "DRIVER": who,
            "PEER_DRIVER": who,
            "VM_TIMEOUT": str(LIMIT),
            "VM_FILES": f"{listed} {files}",
            "VM_ENV": f"{os.environ.get('VM_ENV', '')} {settings}",
        }
        done = subprocess.run(
            [os.path.join(host.SCRIPTS, "vm.sh"), os.path.join(host.HERE, "vm", f"{script}.sh")],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
        return sections(done.stdout.splitlines())


def verbs(chosen, path, who, number):
    """The results of one boot for programs of verbs."""
    lines = [f"{run.name} {command(run, path)}\n" for run in chosen]
    return list(results(chosen, path, who, number, boot("emulated", lines, who, TOPOLOGIES[path])))


def real_work(chosen, path, who, number):
    """The results of one boot for bench.work."""
    found = boot(
        "work",
        work.lines(chosen, path),
        who,
        work.TOPOLOGIES[path],
        files=os.path.join(host.HERE, "mpi_ends.py"),
        settings="TCP=1" if who == figures.FERROCE else "",
    )
    return [
        result(job, found.get(f"{run.name}/{job['who']}"), work.READERS[run.program])
        for run, job in work.jobs(chosen, path, who, number)
    ]


def turns(chosen, works):
    """Each boot of a round: what makes its results, its runs, the path and the driver."""
    for path in TOPOLOGIES:
        for who in work.DRIVERS:
            if chosen:
                yield verbs, chosen, path, who
    for path in work.TOPOLOGIES:
        for who in work.DRIVERS:
            if any(path in run.paths for run in works):
                yield real_work, works, path, who


def measure(chosen, works, rounds):
    """All results, round after round."""
    boots = [
        (number, *turn)
        for number in range(1, rounds + 1)
        for turn in turns(chosen, [run for run in works if number <= work.rounds(run, rounds)])
    ]
    found = []
    for at, (number, made, runs_, path, who) in enumerate(boots, 1):
        for said in made(runs_, path, who, number):
            found.append(said)
            host.progress(at, len(boots), said)
    return found
