# SPDX-License-Identifier: GPL-2.0
"""scripts/bench-pair.sh: ferroce, rdma_rxe and TCP in turn between this machine, the client, and another, the server.

Measures as bench.guest does, with another way to start the server's programs; the results have the form of those of
`make bench`.
"""

import argparse
import contextlib
import dataclasses
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time

from bench import figures, guest, host, programs, remote, report
from bench.remote import Refused

#: What is measured, in this order.
NAMES = ("write_bw_64kib", "send_bw_64kib", "read_bw_64kib", "write_bw_64kib_list", "write_bw_64b_list", "write_lat")
RUNS = {run.name: run for run in figures.RUNS if run.name in NAMES}
CONTESTANTS = (figures.FERROCE, figures.RXE, figures.TCP)
FIRST_PORT = 20000
#: Until a program has failed. Networks differ more than the paths of one machine.
LIMIT_SECONDS = 120
#: What timeout(1) returns then.
TIMED_OUT = 124


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench-pair.sh", description="ferroce beside its rivals, over a network")
    parser.add_argument("host", help="the other machine, as ssh knows it; root, or a user with sudo")
    parser.add_argument("--address", help="its address, if the network to measure is not the one of ssh")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of one measurement")
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES, metavar="RUN", help=", ".join(NAMES))
    parser.add_argument("--out", required=True, help="directory of the results")
    parser.add_argument("--again", metavar="FILE", help="shows the results of this file, measures nothing")
    return parser.parse_args()


def resolved(name):
    """The address of the host that ssh would connect to."""
    said = subprocess.run(["ssh", "-G", name], capture_output=True, text=True, check=True).stdout
    real = next(line.split()[1] for line in said.splitlines() if line.startswith("hostname "))
    try:
        return socket.getaddrinfo(real, None, proto=socket.IPPROTO_TCP)[0][4][0]
    except OSError as error:
        raise Refused(f"{real} has no address: {error}; give one with --address") from error


def interrupts_once():
    """Makes the signals that end a program raise KeyboardInterrupt, so that all is removed. Later ones are ignored."""
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(*_):
        for number in ends:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in ends:
        signal.signal(number, stop)


class Ends(guest.Guest):
    """Both machines, and the path between them."""

    def __init__(self, client, server, address, seconds):
        super().__init__({})
        self.port = FIRST_PORT
        self.client, self.server, self.seconds = client, server, seconds
        netdev, own = client.route(address)
        if netdev == "lo":
            raise Refused(f"{address} is an address of this machine")
        #: (machine, netdev, address) of server and client.
        self.both = ((server, server.netdev_of(address), address), (client, netdev, own))
        self.now = None
        for machine, device, _address in self.both:
            there = machine.rdma_devices(device)
            if there:
                what = f"{machine.name}: {device} has the RDMA device {' '.join(there)}"
                raise Refused(f"{what}; remove it, or unload its driver")

    @contextlib.contextmanager
    def contestant(self, driver):
        """Both ends have a device of this driver as long as it is held."""
        with contextlib.ExitStack() as held:
            self.now = []
            for machine, netdev, address in self.both:
                device = gid = ""
                if driver != figures.TCP:
                    device = held.enter_context(machine.link(driver, netdev))
                    gid = machine.gid_index(device, address)
                self.now.append(programs.Place("", address, device, gid))
            yield

    def attempt(self, job, count):
        """Runs one pair of programs, the server's over there."""
        run = dataclasses.replace(RUNS[job["run"]], seconds=self.seconds)
        self.port += 1
        pair = programs.pair(run, job["who"], count, self.now, self.port)
        with contextlib.ExitStack() as held:
            server, heard = held.enter_context(self.serving(pair))
            said = held.enter_context(tempfile.TemporaryFile("w+"))
            limit = ["timeout", str(LIMIT_SECONDS)]
            client = self.client.start(*limit, *pair.client, stdout=said, stderr=subprocess.STDOUT)
            held.callback(self.end, client)
            code = client.wait()
            if code == TIMED_OUT:
                raise guest.TooLong(f"{pair.client[0]} was not done after {LIMIT_SECONDS} s")
            if code:
                raise guest.Failed(f"the client failed: {guest.tail(said)}")
            if pair.ends and server.wait(remote.PATIENCE_SECONDS) != 0:
                raise guest.Failed(f"the server failed: {guest.tail(heard)}")
            return guest.read(pair, said)

    @contextlib.contextmanager
    def serving(self, pair):
        """The server's program, which listens, and what it prints. It is ended by its number, the first thing printed:
        it would not notice that its ssh has ended."""
        with tempfile.TemporaryFile("w+") as heard:
            command = ("sh", "-c", 'echo $$; exec "$@"', "sh", "timeout", str(2 * LIMIT_SECONDS), *pair.server)
            server = self.server.start(*command, stdout=heard, stderr=subprocess.STDOUT)
            try:
                self.await_server(server, heard)
                yield server, heard
            finally:
                if server.poll() is None:
                    heard.seek(0)
                    number = heard.readline().strip()
                    if number.isdigit():
                        self.server.attempt("kill", number)
                guest.stop(server)

    def end(self, client):
        """Ends the client's program, with the rights it has."""
        if client.poll() is None:
            self.client.attempt("kill", str(client.pid))
            client.wait(remote.PATIENCE_SECONDS)

    def await_server(self, server, heard):
        """Until it listens."""
        end = time.monotonic() + remote.PATIENCE_SECONDS
        while time.monotonic() < end:
            if server.poll() is not None:
                raise guest.Failed(f"the server has ended early: {guest.tail(heard)}")
            if self.server.run("ss", "-Hltn", f"sport = :{self.port}").strip():
                return
            time.sleep(0.05)
        raise guest.Failed("the server does not listen")

    def result(self, job):
        """The result of a job."""
        try:
            return {"job": job, "figures": self.measure(job)}
        except (guest.Failed, Refused, OSError) as error:
            return {"job": job, "failed": str(error)}


def jobs(names, rounds):
    """[(contestant, its jobs)] in order. Round 0 warms up."""
    for number in range(rounds + 1):
        for who in CONTESTANTS:
            chosen = [name for name in names if who != figures.TCP or RUNS[name].tcp]
            yield who, [{"run": name, "path": figures.WIRE, "who": who, "round": number} for name in chosen]


def measure(options):
    """The whole benchmark, as the JSON file holds it."""
    began = time.monotonic()
    with remote.reached(options.host) as server:
        client = remote.Machine()
        missing = [*client.missing(), *server.missing()]
        if missing:
            raise Refused("something is missing:\n  " + "\n  ".join(missing))
        ends = Ends(client, server, options.address or resolved(options.host), options.seconds)
        machines = {
            name: machine.description(netdev)
            for name, (machine, netdev, _address) in zip(("server", "client"), ends.both)
        }
        results, turns = [], list(jobs(options.only, options.rounds))
        for at, (who, listed) in enumerate(turns, 1):
            with ends.contestant(who):
                for job in listed:
                    results.append(ends.result(job | {"seconds": options.seconds}))
                    host.progress(at, len(turns), results[-1])
    date = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    about = {"date": date, "seconds": round(time.monotonic() - began), "machines": machines}
    return {"machine": about, "rounds": options.rounds, "complaint": None, "results": results}


def main():
    options = arguments()
    if options.again:
        with open(options.again, encoding="utf-8") as file:
            report.show(json.load(file), options.out)
        return
    interrupts_once()
    try:
        report.show(measure(options), options.out)
    except Refused as error:
        sys.exit(f"bench-pair: {error}")
    except KeyboardInterrupt:
        sys.exit("bench-pair: interrupted; modules and links that were added are removed")


if __name__ == "__main__":
    main()
