# SPDX-License-Identifier: GPL-2.0
"""The stock kernel under QEMU: one device of one machine, and two machines joined by virtio-net. One boot per
path, driver and round, drivers in turn.

Only the ratios mean anything: the processor is emulated. Starts these machines and reads the marked output of
scripts/bench/emulated.sh; the results have the form of those of bench.host.
"""

import os
import subprocess
import tempfile

from bench import figures, host, parse

#: TOPOLOGY= of scripts/vm.sh.
TOPOLOGIES = {figures.STOCK: "single", figures.PAIR: "pair"}
#: Messages of a measurement, in whole lists: emulation makes each of them dear, a wire even more so.
COUNTS = {
    figures.STOCK: {"bw": 30 * figures.LIST, "lat": 1000},
    figures.PAIR: {"bw": 5 * figures.LIST, "lat": 1000},
}
#: Seconds until a boot has failed.
LIMIT = 600


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


def boot(chosen, path, who):
    """Boots, does all runs, and returns the sections of the client."""
    with tempfile.TemporaryDirectory(prefix="ferroce-bench.") as directory:
        listed = os.path.join(directory, "runs.txt")
        with open(listed, "w", encoding="ascii") as file:
            file.writelines(f"{run.name} {command(run, path)}\n" for run in chosen)
        env = os.environ | {
            "KERNEL": "stock",
            "TOPOLOGY": TOPOLOGIES[path],
            "DRIVER": who,
            "PEER_DRIVER": who,
            "VM_TIMEOUT": str(LIMIT),
            "VM_FILES": listed,
        }
        done = subprocess.run(
            [os.path.join(host.SCRIPTS, "vm.sh"), os.path.join(host.HERE, "emulated.sh")],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
        return sections(done.stdout.splitlines())


def measure(chosen, rounds):
    """All results, round after round."""
    turns = [(path, who) for path in TOPOLOGIES for who in (figures.FERROCE, figures.RXE)]
    found = []
    jobs = rounds * sum(len(list(results(chosen, path, who, 1, {}))) for path, who in turns)
    for number in range(1, rounds + 1):
        for path, who in turns:
            for said in results(chosen, path, who, number, boot(chosen, path, who)):
                found.append(said)
                host.progress(len(found), jobs, said)
    return found
