#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""times.py [--record]: what the steps of the last `make check` cost, beside what they cost when this was recorded.

The most expensive come first. A step whose processor time has grown by half fails: relative to the other steps, since
the machine may be slower. --record takes the measured times over into scripts/checks/times; steps that were not run
keep theirs. Seconds that a step waits for another machine or for a timer are no processor time, and only shown; nor is
what runs in a container, which is no child of the step (suites, sandbox).
"""

import argparse
import os
import statistics
import sys

TREE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MEASURED = os.path.join(TREE, "build", "check", "times")
RECORDED = os.path.join(TREE, "scripts", "checks", "times")
HEAD = """\
# SPDX-License-Identifier: GPL-2.0
#
# Name, seconds and processor seconds of each step of `make check` (scripts/times.py).
"""

#: Steps that took less, in processor seconds, are not judged: they differ from run to run.
LEAST = 10

#: How much more than the others a step may have grown.
GROWTH = 1.5


def read(path):
    """{name: (seconds, processor seconds)}"""
    times = {}
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            for line in file:
                if line.strip() and not line.startswith("#"):
                    name, seconds, busy = line.split()
                    times[name] = int(seconds), int(busy)
    return times


def grown(measured, recorded):
    """[(name, factor)] of the steps that have grown, relative to the median step, and that median."""
    factors = {
        name: busy / recorded[name][1]
        for name, (_, busy) in measured.items()
        if name in recorded and min(busy, recorded[name][1]) >= LEAST
    }
    if not factors:
        return [], 1
    median = statistics.median(factors.values())
    return [(name, factor / median) for name, factor in factors.items() if factor > GROWTH * median], median


def show(measured, recorded):
    """Prints the table."""
    total = sum(busy for _, busy in measured.values())
    print(f"{'step':32} {'seconds':>8} {'of a processor':>15} {'share':>6} {'recorded':>9}")
    for name, (seconds, busy) in sorted(measured.items(), key=lambda item: -item[1][1]):
        was = recorded[name][1] if name in recorded else "-"
        print(f"{name:32} {seconds:8} {busy:15} {busy / max(total, 1):6.1%} {was:>9}")
    print(f"{'all':32} {'':8} {total:15}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="take the measured times over")
    options = parser.parse_args()
    measured, recorded = read(MEASURED), read(RECORDED)
    if not measured:
        sys.exit("times.py: build/check/times is missing: run make check first")
    show(measured, recorded)
    if options.record:
        with open(RECORDED, "w", encoding="ascii") as file:
            file.write(HEAD)
            for name, (seconds, busy) in sorted({**recorded, **measured}.items()):
                file.write(f"{name} {seconds} {busy}\n")
        return
    found, median = grown(measured, recorded)
    print(f"This machine takes {median:.2f} of the recorded times.")
    for name, factor in found:
        print(f"{name} takes {factor:.1f} times as long as recorded, relative to the others")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
