# SPDX-License-Identifier: GPL-2.0
"""Runs the plan inside the machine. Prints one JSON object per line: the result of a job, or a mark.

At a mark the host reads the processor time that the machine has used, which the guest cannot know. The guest
is idle for a moment around each mark.
"""

import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from bench import copy, figures, parse, programs
from bench.programs import Place

#: Seconds of quiet around a mark.
QUIET = 0.1
#: The most messages of one measurement.
MOST = 4_000_000
RUNS = {run.name: run for run in figures.RUNS}
MTUS = {figures.DEVICE: 4200, figures.VETH: 4200, figures.VETH1500: 1500}


#: perftest finds the processor's clock by trial. Where others are busy it may fail, and then prints nothing
#: but zeros and `inf`, whatever was measured. So often it may try.
CLOCK_CHANCES = 4


class NoClock(Exception):
    """perftest has found no clock."""


class Failed(Exception):
    """A job has no figure; the text is the reason."""


class TooLong(Failed):
    """It did not come to its end in time."""


def read_places(path):
    """{(name, end): Place} from what guest.sh has written."""
    places = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            name, end, address, *device = line.split()
            places[name, end] = Place(f"{name}-{end}", address, *device)
    return places


def say(**what):
    """One line for the host."""
    print(json.dumps(what), flush=True)


def in_namespace(name):
    """What a child does before its program: the namespace of its end."""

    def enter():
        with open(f"/run/netns/{name}", encoding="ascii") as handle:
            os.setns(handle.fileno(), os.CLONE_NEWNET)

    return enter


def start(argv, place, output):
    """A program at a place, in a process group of its own."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        preexec_fn=in_namespace(place.namespace),
        start_new_session=True,
    )


def stop(process):
    """Ends a program and what it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def listening(process, port, how):
    """Whether a server is ready: in its namespace's table of sockets, or the connection manager's."""
    if how == "cm":
        shown = subprocess.run(["rdma", "resource", "show", "cm_id"], capture_output=True, text=True, check=False)
        return "LISTEN" in shown.stdout
    try:
        for table in ("tcp", "tcp6"):
            with open(f"/proc/{process.pid}/net/{table}", encoding="ascii") as file:
                for line in list(file)[1:]:
                    _number, local, _remote, state = line.split()[:4]
                    if state == "0A" and int(local.rpartition(":")[2], 16) == port:
                        return True
    except OSError:
        # It has just ended.
        pass
    return False


def await_server(process, port, how, heard):
    """Until it listens; some seconds at most."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if process.poll() is not None:
            raise Failed(f"the server has ended early: {tail(heard)}")
        if listening(process, port, how):
            return
        time.sleep(0.02)
    raise Failed("the server does not listen")


def tail(file):
    """The end of what a program printed, on one line."""
    file.seek(0)
    return " | ".join(file.read().strip().splitlines()[-3:])[-300:]


def read(pair, said):
    """The figures that the client has printed to a file."""
    said.seek(0)
    try:
        return pair.read(said.read())
    except parse.NotPositive as error:
        raise NoClock(f"{error}: {tail(said)}") from error
    except parse.Unreadable as error:
        raise Failed(f"{error}: {tail(said)}") from error


def do_pair(pair, ends, port, limit):
    """Runs a server, if there is one, and its client; returns the client's figures."""
    with tempfile.TemporaryFile("w+") as heard, tempfile.TemporaryFile("w+") as said:
        server = client = None
        try:
            if pair.server:
                server = start(pair.server, ends[0], heard)
                await_server(server, port, pair.listens, heard)
            client = start(pair.client, ends[1], said)
            if client.wait(limit) != 0:
                raise Failed(f"the client failed: {tail(said)}")
            if server and pair.ends and server.wait(5) != 0:
                raise Failed(f"the server failed: {tail(heard)}")
            return read(pair, said)
        except subprocess.TimeoutExpired as error:
            raise TooLong(f"{error.cmd[0]} was not done after {limit} s") from error
        finally:
            for process in (server, client):
                if process:
                    stop(process)


class Guest:
    """The places, and what the warm-up has found out."""

    def __init__(self, places):
        self.places = places
        self.port = 20000
        #: Messages for a measurement, by run, path and contestant.
        self.counts = {}
        #: Contestants that took too long twice in a row, which are not run again in later rounds. Once may be
        #: because the host gives the machine memory only when it is touched.
        self.slow = collections.Counter()

    def ends(self, job):
        """Server's and client's place: a device alone is both."""
        name = f"{job['who']}-{MTUS[job['path']]}"
        try:
            server = self.places[name, "a"]
            return (server, server if job["path"] == figures.DEVICE else self.places[name, "b"])
        except KeyError as error:
            raise Failed(f"there is no {name}") from error

    def patient(self, attempt, *arguments):
        """What an attempt returns; perftest may have failed to find its clock, and is given more chances."""
        for _ in range(CLOCK_CHANCES):
            try:
                return attempt(*arguments)
            except NoClock as error:
                failure = error
        raise Failed(str(failure))

    def attempt(self, job, count):
        """Runs one pair of programs. `count` is for programs that count messages; others use the time of the run."""
        run, ends = RUNS[job["run"]], self.ends(job)
        self.port += 1
        pair = programs.pair(run, job["who"], count, ends, self.port)
        return do_pair(pair, ends, self.port, run.limit)

    def learn(self, job, found):
        """How many messages take the time that a measurement shall take."""
        run = RUNS[job["run"]]
        if "mean" in found:
            rate = 1e6 / found["mean"]
        else:
            rate = found.get("rate") or found.get("mb", 0) * 1e6 / max(1, run.size)
        wanted = int(rate * job.get("seconds", run.seconds) / run.qps)
        least = run.least
        if run.cpu:
            # What a short run is taken off must be much longer than that. iperf3 takes a short one for slow.
            least *= 64 if job["who"] == figures.TCP else 4
        self.counts[key(job)] = max(least, min(wanted, MOST // run.qps))

    def measure(self, job):
        """The figures of a job."""
        run = RUNS[job["run"]]
        if job["who"] == figures.MEMCPY:
            return {"mb": copy.speed(run.size) / 1e6}
        warm_up = job["round"] == 0
        count = self.counts.get(key(job), run.least)
        if warm_up:
            found = self.patient(self.attempt, job, count)
            self.learn(job, found)
            return found
        if run.cpu or job.get("profiled"):
            return self.patient(self.with_marks, job, count)
        return self.patient(self.attempt, job, count)

    def with_marks(self, job, count):
        """A short and a long run. What both cost, such as their start, is no cost of the messages."""
        run = RUNS[job["run"]]
        moved = []
        mark(0)
        for number, messages in enumerate((run.least, run.least + count), 1):
            found = self.attempt(job, messages)
            moved.append(found.get("bytes", messages * run.size))
            mark(number)
        return {"bytes": moved[1] - moved[0]}

    def do(self, job):
        """Runs one job, and returns the line with its result."""
        run = RUNS[job["run"]]
        began = time.monotonic()
        try:
            if self.slow[key(job)] >= 2:
                raise Failed("too long, twice")
            if run.wire:
                self.set_wire(job, run.wire)
            result = {"figures": self.measure(job)}
            self.slow[key(job)] = 0
        except TooLong as error:
            result = {"failed": str(error)}
            self.slow[key(job)] += 1
        except (Failed, OSError) as error:
            result = {"failed": str(error)}
        finally:
            if run.wire:
                self.set_wire(job, "")
        say(job=job, seconds=round(time.monotonic() - began, 2), **result)

    def set_wire(self, job, netem):
        """What netem does to the wire of a job, both ways; nothing, if the text is empty."""
        name = f"{job['who']}-{MTUS[job['path']]}"
        for namespace, netdev in ((f"{name}-a", "v0"), (f"{name}-b", "v1")):
            tc = ["tc", "-n", namespace, "qdisc"]
            subprocess.run([*tc, "del", "dev", netdev, "root"], capture_output=True, check=False)
            if netem:
                done = subprocess.run(
                    [*tc, "add", "dev", netdev, "root", "netem", "limit", "10000", *netem.split()],
                    capture_output=True,
                    check=False,
                )
                if done.returncode:
                    raise Failed("this kernel has no netem")


def key(job):
    """What stays the same from round to round."""
    return (job["run"], job["path"], job["who"])


def mark(number):
    """The host looks at its clock of processor time."""
    time.sleep(QUIET)
    say(mark=number)
    time.sleep(QUIET)


def show_symbols():
    """The address of every function of this kernel and its modules, for profiles."""
    shutil.copyfile("/proc/kallsyms", "/out/kallsyms")


def main():
    guest = Guest(read_places(sys.argv[1]))
    with open(sys.argv[2], encoding="ascii") as file:
        plan = json.load(file)
    for job in plan:
        guest.do(job)
    if any(job.get("profiled") for job in plan):
        show_symbols()
    say(done=True)


if __name__ == "__main__":
    main()
