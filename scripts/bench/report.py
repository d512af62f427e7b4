# SPDX-License-Identifier: GPL-2.0
"""What is left of a benchmark: the JSON file, the table and the picture, each under a heading of where and when."""

import json
import os

from bench import picture, stats, table

#: Of what ethtool -k tells, what the speed of either driver may depend on. The JSON file has all.
OFFLOADS = (
    "tx-checksumming",
    "scatter-gather",
    "tx-scatter-gather-fraglist",
    "tcp-segmentation-offload",
    "tx-udp-segmentation",
    "tx-gso-list",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "rx-gro-hw",
    "rx-udp-gro-forwarding",
)


def heading(about):
    """Where and when, line by line."""
    if "machines" in about:
        return "\n".join(of_two(about))
    loads = [f"{about[when][0]:.1f}" for when in ("load_before", "load_after")]
    settings = f", {about['settings']}" if about.get("settings") else ""
    asleep = "" if about.get("awake") else ", idle processors sleep"
    return (
        f"{about['date']}, commit {about['commit']}, Linux {about['kernel']}, 2 virtual processors{settings}\n"
        f"on {about['processors']} x {about['processor']} at {about['mhz']} MHz{asleep}; {about['seconds']} s; "
        f"load of the machine {loads[0]} before, {loads[1]} after"
    )


def of_two(about):
    """The lines for two machines, and the network between them."""
    yield f"{about['date']}, {about['seconds']} s"
    for end, machine in about["machines"].items():
        speed = f"{machine['speed']} Mb/s" if machine["speed"] else "speed unknown"
        yield (
            f"{end}: Linux {machine['kernel']}, {machine['processors']} x {machine['processor']}"
            f"{', virtual (' + machine['virtual'] + ')' if machine['virtual'] else ''}, load {machine['load']}"
        )
        driver = " ".join(filter(None, (machine["nic"].get("driver"), machine["nic"].get("version"))))
        yield f"    {machine['netdev']}: {driver}, {speed}, MTU {machine['mtu']}, ferroce {machine['ferroce']}"
        yield f"    offloads: {', '.join(name for name in OFFLOADS if name in machine['offloads']) or 'none'}"


def write(directory, name, text):
    """One file of the results."""
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write(text)


def show(found, out):
    """All three, of what the JSON file holds."""
    write(out, "results.json", json.dumps(found, indent=1) + "\n")
    series = stats.Series(found["results"], found["rounds"])
    where = heading(found["machine"])
    shown = f"{where}\n\n{table.text(series)}"
    print(shown)
    write(out, "table.txt", shown + "\n")
    write(out, "performance.svg", picture.svg(series, where))
