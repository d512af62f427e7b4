# SPDX-License-Identifier: GPL-2.0
"""make bench: plans, boots, measures, and writes the table, the JSON and the picture."""

import argparse
import json
import os
import sys
import time

from bench import emulated, host, machine, plan, report, work

TREE = os.path.dirname(host.SCRIPTS)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench", description="ferroce beside its rivals")
    parser.add_argument("--quick", action="store_true", help="fewer figures and rounds: about 5 minutes")
    parser.add_argument("--rounds", type=int, help="5, or 3 for --quick")
    parser.add_argument("--only", nargs="+", default=(), metavar="RUN", help="only these runs")
    parser.add_argument("--no-emulated", action="store_true", help="without the stock kernel under QEMU")
    parser.add_argument("--out", required=True, help="directory of the results")
    parser.add_argument("--again", metavar="FILE", help="shows the results of this file, measures nothing")
    return parser.parse_args()


def measure(options):
    """The whole benchmark, as the JSON file holds it."""
    rounds = options.rounds or (3 if options.quick else 5)
    runs = plan.chosen(options.quick, options.only)
    stock = not options.quick and not options.no_emulated
    works = work.chosen(not stock, options.only)
    if not runs and not works:
        sys.exit(f"no such run here: {' '.join(options.only)}")
    about = machine.description(TREE) | {"load_before": machine.load()}
    began = time.monotonic()
    jobs = list(plan.jobs(runs, rounds, options.quick))
    memory = "2G" if options.quick else machine.memory_for_guest()
    with machine.awake() as about["awake"], machine.many_mappings():
        results, complaint = host.boot(jobs, memory, 900 if options.quick else 3 * 3600) if jobs else ([], None)
        if stock:
            results += emulated.measure(emulated.runs(options.only), works, rounds)
    about |= {"load_after": machine.load(), "seconds": round(time.monotonic() - began)}
    return {"machine": about, "rounds": rounds, "complaint": complaint, "results": results}


def main():
    options = arguments()
    if options.again:
        with open(options.again, encoding="utf-8") as file:
            found = json.load(file)
    else:
        found = measure(options)
    report.show(found, options.out)
    if found["complaint"]:
        sys.exit(f"bench: {found['complaint']}")


if __name__ == "__main__":
    main()
