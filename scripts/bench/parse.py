# SPDX-License-Identifier: GPL-2.0
"""Reads the output of the measuring programs.

Every function returns a dictionary of figures by their keys (see bench.figures), or raises `Unreadable`: a missing
figure is never taken for zero.
"""

import json
import os
import re

MIB = 1 << 20


class Unreadable(ValueError):
    """The output lacks what it should hold."""


class NotPositive(Unreadable):
    """A figure is zero or infinite, which no complete run can yield."""


def _row(text, header):
    """The numbers of the line below the column heads that hold a text."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.lstrip().startswith("#bytes") and header in line:
            for row in lines:
                words = row.split()
                if words and words[0].isdigit():
                    return [float(word) for word in words]
    raise Unreadable(f"no table with {header!r}")


def _positive(figures):
    """The same, if all are above zero and finite."""
    for name, value in figures.items():
        if not 0 < value < float("inf"):
            raise NotPositive(f"{name} is {value}")
    return figures


def perftest_bandwidth(text):
    """ib_*_bw: megabytes (10^6) and messages per second. The program prints MiB and millions."""
    row = _row(text, "BW average")
    if len(row) < 5:
        raise Unreadable("the table is too narrow")
    _size, _count, _peak, average, rate = row[:5]
    return _positive({"mb": average * MIB / 1e6, "rate": rate * 1e6})


def perftest_latency(text):
    """ib_*_lat: microseconds. What the program calls typical is the median."""
    row = _row(text, "t_typical")
    if len(row) < 9:
        raise Unreadable("the table is too narrow")
    _size, _count, _least, _most, typical, mean, _deviation, p99, p999 = row[:9]
    return _positive({"median": typical, "mean": mean, "p99": p99, "p999": p999})


def iperf3(text):
    """iperf3 -J: megabytes per second that arrived."""
    try:
        received = json.loads(text)["end"]["sum_received"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"not a result of iperf3: {error}") from error
    return _positive({"mb": received["bits_per_second"] / 8e6, "bytes": float(received["bytes"])})


def _busy(line):
    """Seconds of processor time that the first line of /proc/stat tells, without idle and stolen ones."""
    ticks = [int(word) for word in line.split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq = ticks[:7]
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


#: Operations that a figure is made of, at least.
FEWEST_SAMPLES = 20


def fio(text):
    """fio's JSON, and the two lines of /proc/stat behind it: bytes and operations per second, the time of an operation
    from its submission on, and the processor time of the whole machine per operation, in microseconds."""
    found = re.search(r"^\{.*^\}", text, re.DOTALL | re.MULTILINE)
    stats = re.findall(r"^cpu .*", text, re.MULTILINE)
    try:
        job = json.loads(found.group())["jobs"][0]
        side = max(job["read"], job["write"], key=lambda side: side["total_ios"])
        if side["total_ios"] < FEWEST_SAMPLES:
            raise Unreadable(f"{side['total_ios']} operations are no figure")
        times = side["lat_ns"]["percentile"]
        before, after = map(_busy, stats)
        return _positive(
            {
                "mb": side["bw_bytes"] / 1e6,
                "rate": side["iops"],
                "median": times["50.000000"] / 1e3,
                "p99": times["99.000000"] / 1e3,
                "cpu": (after - before) * 1e6 / side["total_ios"],
            }
        )
    except (ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError) as error:
        raise Unreadable(f"not a result of fio: {error!r}") from error


def ucx(text):
    """ucx_perftest -f: the last line has the count, three times (a percentile, which is the median or -R 99, and two
    means, microseconds), and two rates in MiB per second, of the last part and of all. Only latencies have times that
    mean something, and only streams rates."""
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+\s+\d+\.\d", line)]
    if not rows or len(rows[-1]) != 8:
        raise Unreadable("no table")
    _count, part, _last, mean, _rate, rate = map(float, rows[-1][:6])
    if "latency (usec)" not in text:
        return _positive({"mb": rate * MIB / 1e6})
    return _positive({"p99" if "99.0%ile" in text else "median": part, "mean": mean})


QPERF_UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "sec": 1e6}


def qperf_latency(text):
    """qperf tcp_lat: microseconds one way, the mean."""
    match = re.search(r"latency\s*=\s*([\d.]+)\s*(\w+)", text)
    if not match or match.group(2) not in QPERF_UNITS:
        raise Unreadable("no latency")
    return _positive({"mean": float(match.group(1)) * QPERF_UNITS[match.group(2)]})


def cmtime(text):
    """cmtime: connections per second, each with its queue pair, from the first identifier made to the last one
    connected. The table has the total time of all, in microseconds."""
    total = re.search(r"^qp_conn\s+(\d+)$.*?^full connect\s+\d+\s+(\d+)\s", text, re.MULTILINE | re.DOTALL)
    if not total or not int(total.group(2)):
        raise Unreadable("no connections")
    return _positive({"rate": int(total.group(1)) * 1e6 / int(total.group(2))})


def figures_json(text):
    """A program of our own: the last line is a JSON object of numbers."""
    lines = text.strip().splitlines()
    try:
        found = json.loads(lines[-1])
        return {key: float(value) for key, value in found.items()}
    except (IndexError, ValueError, TypeError, AttributeError) as error:
        raise Unreadable("the last line is no JSON object of numbers") from error
