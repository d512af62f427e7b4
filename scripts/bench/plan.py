# SPDX-License-Identifier: GPL-2.0
"""The order of the measurements: the contestants take turns, round after round.

Measurements that are compared follow each other within seconds, so a machine that is slow for a minute is slow for all.
A job is a dictionary, because it travels into the guest as JSON.
"""

from bench import figures


def contestants(run, path, quick):
    """The contestants of a run on a path. siw takes no part in the quick benchmark."""
    found = [driver for driver in run.drivers if not (quick and driver == figures.SIW)]
    if run.tcp:
        found.append(figures.TCP)
    if run.memcpy and path == figures.DEVICE:
        found.append(figures.MEMCPY)
    return found


def chosen(quick, names=()):
    """The runs of a quick or a full benchmark, or those of given names."""
    if names:
        return [run for run in figures.RUNS if run.name in names]
    return [run for run in figures.RUNS if run.quick or not quick]


def paths(run, quick):
    """Where a run is done. The quick benchmark has one MTU."""
    return [path for path in run.paths if not (quick and path == figures.VETH1500)]


def jobs(runs, rounds, quick):
    """Every measurement, in order. Round 0 warms up and finds how many messages take how long."""
    for number in range(rounds + 1):
        for run in runs:
            for path in paths(run, quick):
                for who in contestants(run, path, quick):
                    yield {"run": run.name, "path": path, "who": who, "round": number}
