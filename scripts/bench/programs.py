# SPDX-License-Identifier: GPL-2.0
"""The command lines of both ends of a run, and the readers of their output.

A `Place` is where an end runs; see bench.guest.
"""

from dataclasses import dataclass
from typing import Callable

from bench import figures, parse

#: A TCP stream writes as much at a time as the RDMA runs beside it do.
TCP_BLOCK = 64 * figures.KIB


@dataclass(frozen=True)
class Place:
    """One end: a network namespace, its address, and the RDMA device there, if any."""

    namespace: str
    address: str
    device: str = ""
    gid: str = ""


@dataclass(frozen=True)
class Pair:
    """Two command lines, and what to do with what the client prints. Some clients need no server."""

    server: list | None
    client: list
    read: Callable
    #: How to find out that the server listens: `tcp`, or `cm` for the connection manager.
    listens: str = "tcp"
    #: Whether the server ends by itself.
    ends: bool = True


def perftest(run, count, server, client, driver, port):
    """An RDMA run. iWARP has no connection without the connection manager."""
    iwarp = driver == figures.SIW
    count += -count % run.batch

    def end(place):
        how = ["-R"] if iwarp else ["-x", place.gid]
        count_option = ["-n", str(count)]
        return [*run.rdma, "-d", place.device, "-p", str(port), "-F", *how, *count_option]

    # siw cannot listen on all addresses while it has devices in several namespaces.
    only = ["--bind_source_ip", server.address] if iwarp else []
    read = parse.perftest_latency if run.rdma[0].endswith("_lat") else parse.perftest_bandwidth
    return Pair(end(server) + only, end(client) + [server.address], read, "cm" if iwarp else "tcp")


def tcp(run, count, server, port):
    """The same by TCP, for some seconds, or for an amount where that matters. qperf's server would serve for ever."""
    seconds = max(1, round(run.seconds))
    if run.tcp == "latency":
        options = ["-lp", str(port)]
        return Pair(
            ["qperf", *options],
            ["qperf", *options, "-t", str(seconds), "-m", str(run.size), server.address, "tcp_lat"],
            parse.qperf_latency,
            ends=False,
        )
    amount = ["-n", str(count * run.size)] if run.cpu else ["-t", str(seconds)]
    return Pair(
        ["iperf3", "-s", "-1", "-p", str(port)],
        ["iperf3", "-c", server.address, "-p", str(port), "-J", "-l", str(TCP_BLOCK), *amount],
        parse.iperf3,
    )


def objects(run, server):
    """What objects cost: one process."""
    return Pair(None, ["python3", "-m", "bench.objects", run.name, server.device], parse.figures_json)


def connections(count, server, client, port):
    """Connections by the connection manager, made and given up."""
    options = ["-c", str(count), "-p", str(port)]
    return Pair(
        ["cmtime", "-b", server.address, *options],
        ["cmtime", "-b", client.address, "-s", server.address, *options],
        parse.cmtime,
        "cm",
    )


def pair(run, who, count, ends, port):
    """The programs of both ends, for a run and a contestant."""
    if who == figures.TCP:
        return tcp(run, count, ends[0], port)
    if run.program == "objects":
        return objects(run, ends[0])
    if run.program == "connections":
        return connections(count, *ends, port)
    return perftest(run, count, *ends, who, port)
