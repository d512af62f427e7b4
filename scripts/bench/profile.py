# SPDX-License-Identifier: GPL-2.0
"""make profile: in which functions a run spends its time, for each contestant.

perf samples the user-mode kernel's process between two marks. The kernel's functions, those of modules too, have the
addresses of the guest's /proc/kallsyms; for the rest perf's own names serve. The shares are in nanoseconds of
processor time per message.
"""

import argparse
import bisect
import collections
import os
import re
import signal
import subprocess
import sys
import tempfile

from bench import budget, figures, host, machine

RUNS = {run.name: run for run in figures.RUNS}
#: Samples per second and processor.
FREQUENCY = 4000
#: On a busy machine a short run may cost more than a long one. So often it is tried.
CHANCES = 3
#: Addresses from here on are those of the host's kernel.
HOST_KERNEL = 1 << 63
#: Lines of `perf script -F pid,tid,ip,sym --show-task-events`: a sample, and the start of a process.
SAMPLE = re.compile(r"^\s*(?P<pid>\d+)/\d+\s+(?P<ip>[0-9a-f]+)\s+(?P<symbol>\S.*?)\s*$")
FORK = re.compile(r"PERF_RECORD_FORK\((?P<pid>\d+):\d+\):\((?P<parent>\d+):\d+\)")
#: The hash that distinguishes two builds of a Rust crate, in a demangled name.
HASH = re.compile(r"\[[0-9a-f]+\]")


class Symbols:
    """Functions by address."""

    def __init__(self, text):
        found = []
        for line in text.splitlines():
            address, kind, name, *module = line.split()
            if kind in "tTwW":
                found.append((int(address, 16), name, module[0].strip("[]") if module else "kernel"))
        found.sort()
        self.starts = [start for start, _name, _module in found]
        self.names = [(name, module) for _start, name, module in found]

    def at(self, address):
        """(module, function) that holds an address; nothing if it lies far from all."""
        index = bisect.bisect_right(self.starts, address) - 1
        if index < 0 or address - self.starts[index] > 1 << 16:
            return None
        name, module = self.names[index]
        return module, name


def count(recorded, symbols, kernel):
    """How many samples each (where, function) has, from the text of `perf script`. Processes other than the user-mode
    kernel and its children, where the programs run, do not count."""
    found = collections.Counter()
    programs = set()
    for line in recorded.splitlines():
        if fork := FORK.search(line):
            parent = int(fork.group("parent"))
            if parent == kernel or parent in programs:
                programs.add(int(fork.group("pid")))
        elif sample := SAMPLE.match(line):
            pid, address = int(sample.group("pid")), int(sample.group("ip"), 16)
            if pid == kernel and address >= HOST_KERNEL:
                found["host kernel", sample.group("symbol")] += 1
            elif pid == kernel:
                found[symbols.at(address) or ("C library", sample.group("symbol"))] += 1
            elif pid in programs:
                where = "host, for programs" if address >= HOST_KERNEL else "programs"
                found[where, sample.group("symbol") if address >= HOST_KERNEL else ""] += 1
    return found


def shares(found, nanoseconds, least=0.005):
    """(nanoseconds per message, share, module, function), the greatest first; small ones together at the end."""
    total = sum(found.values())
    rest = 0
    for (module, function), samples in found.most_common():
        share = samples / total
        if share < least:
            rest += samples
        else:
            yield nanoseconds * share, share, module, function
    if rest:
        yield nanoseconds * rest / total, rest / total, "", "everything smaller"


def by_module(found):
    """The same, summed over modules."""
    sums = collections.Counter()
    for (module, _function), samples in found.items():
        sums[module, ""] += samples
    return sums


class Recorder:
    """perf, from the mark after the short run to that after the long one; the last of these counts."""

    def __init__(self, directory):
        self.file = os.path.join(directory, "perf")
        self.kernel = None
        self.perf = None

    def at_mark(self, kernel, number):
        """Called by the host at each mark."""
        self.stop()
        self.kernel = kernel
        if number == 1:
            command = ["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", str(FREQUENCY), "-o", self.file]
            self.perf = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self):
        """Ends a recording, if there is one."""
        if self.perf:
            self.perf.send_signal(signal.SIGINT)
            self.perf.wait()
            self.perf = None

    def count(self, symbols):
        """The samples of the last recording."""
        command = ["perf", "script", "-i", self.file, "-F", "pid,tid,ip,sym", "--show-task-events"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True)
        return count(done.stdout, symbols, self.kernel)


def readable(names):
    """Rust's mangled names written out, by the toolchain's c++filt; others stay as they are."""
    done = subprocess.run(
        [os.path.join(host.SCRIPTS, "root", "in-root.sh"), "c++filt"],
        input="\n".join(names),
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: HASH.sub("", line) for name, line in zip(names, done.stdout.splitlines())}


def show(title, found, nanoseconds):
    """One profile."""
    print(f"\n{title}: {nanoseconds:.0f} ns of processor time per message, {sum(found.values())} samples\n")
    long = readable([function for _module, function in found])
    for counts, least in ((budget.by_purpose(found), 0.0), (by_module(found), 0.0), (found, 0.005)):
        for time_, share, module, function in shares(counts, nanoseconds, least):
            print(f"  {time_:10.0f} ns {100 * share:5.1f} %  {module:18} {long.get(function, function)}".rstrip())
        print()


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="profile", description="where a run spends its time")
    parser.add_argument("--run", default="write_cpu_per_gib", choices=sorted(RUNS))
    parser.add_argument("--path", default=figures.DEVICE, choices=figures.PATHS)
    parser.add_argument("--who", nargs="+", default=["ferroce", "rxe"], choices=figures.DRIVERS + (figures.TCP,))
    parser.add_argument("--seconds", type=float, default=4)
    return parser.parse_args()


def profile(job, who, directory):
    """Boots, does the job between two marks, and shows its profile. Returns what went wrong, or nothing."""
    recorder = Recorder(directory)
    jobs = [job | {"who": who, "round": number, "profiled": True} for number in (0, 1)]
    results, complaint = host.boot(jobs, "2G", 600, recorder.at_mark, directory)
    recorder.stop()
    complaint = complaint or results[-1].get("failed")
    if complaint:
        return complaint
    with open(os.path.join(directory, "a", "kallsyms"), encoding="ascii") as file:
        symbols = Symbols(file.read())
    nanoseconds = results[-1]["figures"]["per_message"] * 1000
    show(f"{job['run']}, {job['path']}, {who}", recorder.count(symbols), nanoseconds)
    return None


def main():
    options = arguments()
    job = {"run": options.run, "path": options.path, "seconds": options.seconds}
    for who in options.who:
        for _ in range(CHANCES):
            with tempfile.TemporaryDirectory(prefix="ferroce-profile.") as directory:
                with machine.awake():
                    complaint = profile(job, who, directory)
            if not complaint:
                break
        else:
            sys.exit(f"profile: {who}: {complaint}")


if __name__ == "__main__":
    main()
