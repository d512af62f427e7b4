# SPDX-License-Identifier: GPL-2.0
"""Runs rdma-core's own tests, as installed, and compares the outcome of each with a list.

usage: run_pyverbs.py TESTS LIST FACTS DEVICE NAME=GID-INDEX... [-- PATTERN...]

Each test runs in its own process, forked after everything is imported: a test that hangs or crashes the interpreter
costs one test. As many tests run at once as there are CPUs, but only one at a time of those that listen on the one
port of the connection manager. The list names the tests that are skipped or fail, where, and why; FACTS is what is
true of this run: `DRIVER,PROVIDER,RELEASE,KERNEL`, as in `ferroce,librxe,56.1,stock`. A difference in either direction
is a failure.
"""

import collections
import fnmatch
import importlib
import os
import re
import select
import signal
import sys
import time
import unittest
import warnings

SECONDS = int(os.environ.get("PYVERBS_SECONDS", "120"))
# Tests for other devices; they run for one GID only.
VENDORS = re.compile(r"\.test_(mlx5|efa)")
ONE_AT_A_TIME = re.compile(r"\.test_(mlx5_)?rdmacm\.")

OUTCOMES = {"pass": "passed", "fail": "failed", "skip": "skipped", "crash": "crashed", "hang": "hung"}
Entry = collections.namedtuple("Entry", "outcome where pattern reason")
Result = collections.namedtuple("Result", "outcome text seconds")


def holds(where, facts):
    """Returns whether all conditions of an entry hold: `any`, a driver, a provider, a kernel, `!` and one of them, or a
    range of releases (`44`, `-56`, `57-`).
    """
    driver, provider, release, kernel = facts.split(",")
    for condition in where.split(","):
        if condition[-1].isdigit() or condition[-1] == "-":
            first, dash, last = condition.partition("-")
            low, high = int(first or 0), int(last or (1000 if dash else first))
            if not low <= int(release.split(".")[0]) <= high:
                return False
        elif condition[0] == "!":
            if condition[1:] in (driver, provider, kernel):
                return False
        elif condition not in ("any", driver, provider, kernel):
            return False
    return True


def read_list(path, facts):
    """Returns the list entries that count in this run."""
    entries = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                entry = Entry(*line.strip().split(None, 3))
                if holds(entry.where, facts):
                    entries.append(entry)
    return entries


def load(directory, device):
    """Imports the suite; returns its package and its argument parser."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, directory)
    sys.path.insert(0, os.path.dirname(directory.rstrip("/")))
    parser = importlib.import_module("args_parser").parser
    sys.argv[1:] = ["--dev", device, "--port", "1", "--gid", "0"]
    parser.parse_args()
    return importlib.import_module(os.path.basename(directory.rstrip("/"))), parser


def flat(suite):
    """Yields every single test of a suite."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def outcome_of(test):
    """Runs a test in this process; returns a line with the outcome, and more lines."""
    result = unittest.TestResult()
    try:
        test.run(result)
    except BaseException as error:  # pylint: disable=broad-except
        return f"fail\n{error!r}"
    for bad in (result.errors, result.failures):
        if bad:
            return f"fail\n{bad[0][1]}"
    if result.skipped:
        return f"skip\n{result.skipped[0][1]}"
    return "pass\n"


class Running:
    """A test in its own process."""

    def __init__(self, name, test):
        self.name = name
        self.exclusive = bool(ONE_AT_A_TIME.search(name))
        self.started = time.monotonic()
        self.text = b""
        self.fd, into = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.setpgid(0, 0)
            null = os.open("/dev/null", os.O_RDWR)
            for standard in (0, 1, 2):
                os.dup2(null, standard)
            os.write(into, outcome_of(test).encode()[:60000])
            os._exit(0)
        os.close(into)

    def over(self):
        """Reads available output; returns True when the process has ended."""
        part = os.read(self.fd, 65536)
        self.text += part
        return not part

    def late(self):
        """Returns whether the time is up."""
        return time.monotonic() - self.started > SECONDS

    def end(self):
        """Kills the rest of its process group, and returns the result."""
        late = self.late()
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.fd)
        seconds = time.monotonic() - self.started
        outcome, _, text = self.text.decode(errors="replace").partition("\n")
        if not outcome:
            outcome = "hang" if late else "crash"
            text = f"no end after {SECONDS} s" if late else f"died: wait status {status}"
        return Result(outcome, text.strip(), seconds)


def run_all(tests):
    """Runs (name, test) pairs; yields (name, Result) as they end."""
    waiting = collections.deque(tests)
    running = {}
    while waiting or running:
        for _ in range(len(waiting)):
            if len(running) >= (os.cpu_count() or 1):
                break
            name, test = waiting.popleft()
            if ONE_AT_A_TIME.search(name) and any(r.exclusive for r in running.values()):
                waiting.append((name, test))
                continue
            job = Running(name, test)
            running[job.fd] = job
        ready = set(select.select(list(running), [], [], 1)[0])
        for fd, job in list(running.items()):
            if (fd in ready and job.over()) or job.late():
                del running[fd]
                yield job.name, job.end()


class Score:
    """Compares outcomes with the list, prints them as KTAP, and counts."""

    def __init__(self, entries):
        self.entries = entries
        self.met = set()
        self.number = 0
        self.failed = 0
        self.counts = collections.Counter()
        self.reasons = collections.Counter()

    def _line(self, good, name, note=""):
        self.number += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.number} {name}{note}", flush=True)

    def _listed(self, name):
        for entry in self.entries:
            if fnmatch.fnmatchcase(name, entry.pattern):
                self.met.add(entry)
                return entry
        return None

    def add(self, kind, name, result):
        """Adds one outcome."""
        entry = self._listed(name)
        listed = entry.outcome if entry else "pass"
        self.counts[kind, result.outcome] += 1
        label = f"{name} ({kind})"
        last = (result.text.splitlines() or [""])[-1]
        if result.outcome == listed or (listed, result.outcome) == ("fail?", "pass"):
            if listed == "pass":
                self._line(True, label)
            else:
                self.reasons[listed, entry.reason] += 1
                self._line(True, label, f" # SKIP {last or entry.reason}")
            return
        if listed == "fail?" and result.outcome == "fail":
            self._line(True, label, f" # SKIP fails here at times: {entry.reason}")
            return
        print(f"# listed as {listed}, found {result.outcome} after {result.seconds:.1f} s:")
        for line in result.text.splitlines()[-25:]:
            print(f"# {line}")
        self._line(False, label)

    def finish(self, whole):
        """Reports list entries without a test, prints the sums, and ends the process."""
        if whole:
            for entry in self.entries:
                if entry not in self.met:
                    self._line(False, f"the list names a test that exists: {entry.pattern}")
        for (outcome, reason), count in sorted(self.reasons.items()):
            print(f"# {outcome} {count:4}  {reason}")
        for kind in sorted({kind for kind, _ in self.counts}):
            counts = {outcome: self.counts[kind, outcome] for outcome in OUTCOMES}
            print(f"# {kind}: " + ", ".join(f"{count} {OUTCOMES[outcome]}" for outcome, count in counts.items()))
        print(f"1..{self.number}", flush=True)
        sys.exit(1 if self.failed or not self.number else 0)


def wanted(name, patterns):
    """Returns whether a test is selected."""
    return not patterns or any(fnmatch.fnmatchcase(name, f"*{pattern}*") for pattern in patterns)


def main():
    """Reads the arguments, and runs every test once for each GID."""
    arguments, patterns = sys.argv[1:], []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, patterns = arguments[:at], arguments[at + 1:]
    directory, path, facts, device = arguments[:4]
    score = Score(read_list(path, facts))
    package, parser = load(directory, device)
    prefix = package.__name__ + "."
    for setting in arguments[4:]:
        kind, index = setting.split("=")
        parser.args["gid"] = int(index)
        suite = unittest.defaultTestLoader.loadTestsFromModule(package)
        tests = [(test.id(), test) for test in flat(suite) if wanted(test.id(), patterns)]
        if setting != arguments[4]:
            tests = [(name, test) for name, test in tests if not VENDORS.search(name)]
        for name, result in run_all(tests):
            score.add(kind, name.removeprefix(prefix), result)
    score.finish(not patterns)


main()
