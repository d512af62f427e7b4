# SPDX-License-Identifier: GPL-2.0
"""make bench: plans, boots, measures, and writes the table, the JSON and the picture."""

import argparse
import json
import os
import sys
import time

from bench import emulated, host, machine, picture, plan, stats, table, work

TREE = os.path.dirname(host.SCRIPTS)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench", description="ferroce beside its rivals")
    parser.add_argument("--quick", action="store_true", help="fewer figures and rounds: less than 5 minutes")
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


def heading(about):
    """Where and when, in two lines."""
    loads = [f"{about[when][0]:.1f}" for when in ("load_before", "load_after")]
    settings = f", {about['settings']}" if about.get("settings") else ""
    asleep = "" if about.get("awake") else ", idle processors sleep"
    return (
        f"{about['date']}, commit {about['commit']}, Linux {about['kernel']}, 2 virtual processors{settings}\n"
        f"on {about['processors']} x {about['processor']} at {about['mhz']} MHz{asleep}; {about['seconds']} s; "
        f"load of the machine {loads[0]} before, {loads[1]} after"
    )


def write(directory, name, text):
    """One file of the results."""
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write(text)


def main():
    options = arguments()
    if options.again:
        with open(options.again, encoding="utf-8") as file:
            found = json.load(file)
    else:
        found = measure(options)
    write(options.out, "results.json", json.dumps(found, indent=1) + "\n")
    series = stats.Series(found["results"], found["rounds"])
    where = heading(found["machine"])
    shown = f"{where}\n\n{table.text(series)}"
    print(shown)
    write(options.out, "table.txt", shown + "\n")
    write(options.out, "performance.svg", picture.svg(series, where))
    if found["complaint"]:
        sys.exit(f"bench: {found['complaint']}")


if __name__ == "__main__":
    main()
