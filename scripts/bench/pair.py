# SPDX-License-Identifier: GPL-2.0
"""Two machines under QEMU, joined by virtio-net: one boot per driver and round, drivers in turn.

Only the ratios mean anything: the processor is emulated. Knows how to start these machines and how
scripts/bench/pair.sh marks what it prints; the results are like those of bench.host.
"""

import os
import re
import subprocess
import tempfile

from bench import figures, host, parse

#: Messages of a measurement: emulation makes each of them dear.
COUNTS = {"bw": 300, "lat": 1000}
#: Seconds until two machines have failed.
LIMIT = 600
#: Both machines print through one pipe, each line with its machine in front.
LINE = re.compile(r"^\[b\] (.*)$")


def runs(names=()):
    """The runs that are done between machines: those of the quick benchmark that one program does alone."""
    return [
        run for run in figures.RUNS if run.quick and run.qps == 1 and not run.cpu and (not names or run.name in names)
    ]


def command(run):
    """The program of a run, with its options, as text."""
    return " ".join((*run.rdma, "-n", str(COUNTS["lat" if run.rdma[0].endswith("_lat") else "bw"])))


def sections(lines):
    """{name: (return code, text)} of what the client's machine printed between the marks."""
    found, name, held = {}, None, []
    for line in lines:
        match = LINE.match(line.rstrip("\n"))
        if not match:
            continue
        words = match.group(1).split()
        if words[:2] == ["bench:", "begin"]:
            name, held = words[2], []
        elif words[:2] == ["bench:", "end"] and name:
            found[name] = (int(words[2]), "\n".join(held))
            name = None
        else:
            held.append(match.group(1))
    return found


def result(run, who, number, section, read):
    """One result, from what one program printed, if anything."""
    answer = {"job": {"run": run.name, "path": figures.PAIR, "who": who, "round": number}}
    if section is None:
        return answer | {"failed": "the machines did not come so far"}
    code, text = section
    try:
        if code:
            raise parse.Unreadable(f"the programs returned {code}")
        return answer | {"figures": read(text)}
    except parse.Unreadable as error:
        return answer | {"failed": str(error)}


def results(chosen, who, number, found):
    """The results of one boot. TCP, which needs no driver, is measured in every boot and counted in ferroce's."""
    for run in chosen:
        latency = run.rdma[0].endswith("_lat")
        read = parse.perftest_latency if latency else parse.perftest_bandwidth
        yield result(run, who, number, found.get(run.name), read)
        if who == figures.FERROCE and run.tcp == "bandwidth":
            yield result(run, figures.TCP, number, found.get("tcp"), parse.iperf3)


def boot(chosen, who):
    """Boots two machines, does all runs, and returns the sections of the client."""
    with tempfile.TemporaryDirectory(prefix="ferroce-bench.") as directory:
        listed = os.path.join(directory, "runs.txt")
        with open(listed, "w", encoding="ascii") as file:
            file.writelines(f"{run.name} {command(run)}\n" for run in chosen)
        env = os.environ | {
            "KERNEL": "stock",
            "TOPOLOGY": "pair",
            "DRIVER": who,
            "PEER_DRIVER": who,
            "VM_TIMEOUT": str(LIMIT),
            "VM_FILES": listed,
        }
        done = subprocess.run(
            [os.path.join(host.SCRIPTS, "vm.sh"), os.path.join(host.HERE, "pair.sh")],
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
    found = []
    jobs = rounds * sum(len(list(results(chosen, who, 1, {}))) for who in (figures.FERROCE, figures.RXE))
    for number in range(1, rounds + 1):
        for who in (figures.FERROCE, figures.RXE):
            for said in results(chosen, who, number, boot(chosen, who)):
                found.append(said)
                host.progress(len(found), jobs, said)
    return found
