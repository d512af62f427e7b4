# SPDX-License-Identifier: GPL-2.0
"""Starts the machine with the plan, and reads what it prints, line by line.

At each mark of the guest, the machine's processor time is read. The result is a list: each job with its
figures, or with the reason why it has none.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from bench import cputime, work

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.dirname(HERE)
RUNS = work.ALL_RUNS
GIB = 1 << 30


class Broken(Exception):
    """The machine did not come to the end of the plan."""


def cpu_figures(run, marks, moved):
    """Processor time per GiB and per message. `marks` are the times before the short run, after it, and after the
    long one; `moved` is what the long run has moved more than the short one, bytes."""
    if len(marks) != 3:
        raise ValueError(f"{len(marks)} marks")
    seconds = (marks[2] - marks[1]) - (marks[1] - marks[0])
    if seconds <= 0 or moved <= 0:
        raise ValueError(f"{seconds:.2f} s for {moved:.0f} bytes")
    return {"per_gib": seconds * GIB / moved, "per_message": seconds * 1e6 * run.size / moved}


class Reader:
    """Reads the lines of the guest. `at_mark` is called at each mark, with its number, and returns the processor
    time in seconds."""

    def __init__(self, jobs, at_mark, progress):
        self.results = []
        self.marks = []
        self.jobs = jobs
        self.at_mark = at_mark
        self.progress = progress
        self.done = False

    def line(self, text):
        """Handles one line, of the guest or of another program in the machine; the latter are passed on."""
        try:
            said = json.loads(text)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            if text.strip():
                print(text.rstrip(), file=sys.stderr)
        elif "mark" in said:
            if said["mark"] == 0:
                self.marks = []
            self.marks.append(self.at_mark(said["mark"]))
        elif "done" in said:
            self.done = True
        else:
            self.result(said)

    def result(self, said):
        """A job has ended."""
        run = RUNS[said["job"]["run"]]
        if self.marks and "figures" in said:
            try:
                said["figures"] = cpu_figures(run, self.marks, said["figures"]["bytes"])
            except ValueError as error:
                del said["figures"]
                said["failed"] = str(error)
        self.marks = []
        self.results.append(said)
        self.progress(len(self.results), self.jobs, said)


def progress(number, jobs, said):
    """Reports progress."""
    job = said["job"]
    run = RUNS[job["run"]]
    if "figures" in said:
        units = {figure.key: figure.unit for figure in run.figures}
        shown = ", ".join(f"{value:.4g} {units[key]}" for key, value in said["figures"].items() if key in units)
    else:
        shown = f"FAILED: {said['failed']}"
    name = "warm-up" if job["round"] == 0 else f"round {job['round']}"
    print(
        f"  BENCH   {number}/{jobs} {name}: {job['run']}, {job['path']}, {job['who']}: {shown}",
        file=sys.stderr,
        flush=True,
    )


def boot(plan, memory, limit, at_mark=None, out=None):
    """Boots and runs the plan. Returns the results, and a complaint if there is one.

    `at_mark` is called with the process of the user-mode kernel and the number of a mark; `out` is a directory for
    the guest's files.
    """
    with tempfile.TemporaryDirectory(prefix="ferroce-bench.") as directory:
        plan_file = os.path.join(directory, "plan.json")
        with open(plan_file, "w", encoding="ascii") as file:
            json.dump(plan, file)
        package = os.path.join(directory, "bench")
        shutil.copytree(HERE, package, ignore=shutil.ignore_patterns("__pycache__"))
        env = os.environ | {
            "KERNEL": "uml",
            "TOPOLOGY": "single",
            "DRIVER": "none",
            # Only so that the module is built and brought along.
            "PEER_DRIVER": "ferroce",
            "VM_MEMORY": memory,
            "VM_CPUS": "2",
            # scripts/kernels/bench.patch
            "VM_CMDLINE": "pin_cpus",
            "VM_TIMEOUT": str(limit),
            "VM_RIVALS": "1",
            "PROVIDER": "direct",
            "VM_FILES": f"{plan_file} {package}",
        }
        if out:
            env["VM_OUT"] = out
        with subprocess.Popen(
            [os.path.join(SCRIPTS, "vm.sh"), os.path.join(HERE, "vm", "guest.sh")],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            reader = Reader(len(plan), lambda number: note(process.pid, number, at_mark), progress)
            for line in process.stdout:
                reader.line(line)
        complaint = None
        if not reader.done:
            complaint = f"the machine ended after {len(reader.results)} of {len(plan)} measurements"
        elif process.returncode:
            complaint = f"the machine ended with code {process.returncode}: its kernel complains, see above"
        return reader.results, complaint


def note(starter, number, at_mark):
    """Called at a mark; returns the machine's processor time."""
    kernel = cputime.machine(starter)
    if kernel is None:
        raise Broken("the user-mode kernel's process cannot be found")
    seconds = cputime.used(kernel)
    if at_mark:
        at_mark(kernel, number)
    return seconds
