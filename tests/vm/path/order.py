# SPDX-License-Identifier: GPL-2.0
"""Sends from one CPU after the other, over a netdev on which each CPU has its own transmit queue."""

import json
import os
import subprocess
import time

from pyverbs.device import Context

import enums as e
from rc import SLOWNESS, End
from tap import equal, run, true
from work import OK, READ, WRITE, piece

SECONDS, DEPTH = 2 * SLOWNESS, 32
# Packets of others: neighbour discovery.
OTHERS = 10


def sent_by_queue():
    """The packets that each transmit queue of q0 has sent."""
    shown = subprocess.run(["tc", "-s", "-j", "qdisc", "show", "dev", "q0"], capture_output=True, check=True)
    return [qdisc["packets"] for qdisc in json.loads(shown.stdout) if qdisc.get("parent") in ("1:1", "1:2")]


def connected(service=e.IBV_QPT_RC):
    """Two ends, of frq and frp."""
    ends = [End(ctx=Context(name=name), service=service, size=1 << 16, wr=2 * DEPTH) for name in ("frq", "frp")]
    gids = [int(os.environ[name]) for name in ("GID", "TO")]
    for this, other in ((0, 1), (1, 0)):
        peer = ends[other]
        ends[this].to_rts(peer.qp.qp_num, gid=gids[this], dgid=peer.gid(gids[other]), timeout=18)
    return ends


def moving(opcode, size):
    """Keeps requests in flight, and posts each from another CPU than the one before."""
    here, there = connected()
    posted = done = 0
    before = sent_by_queue()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or done < posted:
        if posted - done < DEPTH and time.monotonic() < end:
            os.sched_setaffinity(0, {posted & 1})
            here.send(opcode, pieces=piece(here, size), remote=there.remote())
            posted += 1
            continue
        found = here.cq.poll(DEPTH)[1]
        equal([wc.status for wc in found], [OK] * len(found), "statuses")
        done += len(found)
    os.sched_setaffinity(0, {0, 1})
    print(f"# {posted} requests of {size} bytes", flush=True)
    true(posted > 100, f"only {posted} requests")
    fewer, more = sorted(after - earlier for after, earlier in zip(sent_by_queue(), before))
    true(fewer <= OTHERS < more, f"one queue sent {more} packets, the other {fewer}")
    for side in (here, there):
        side.close()
        side.ctx.close()


def short_writes():
    """Short WRITEs from changing CPUs"""
    moving(WRITE, 64)


def long_writes():
    """Long WRITEs from changing CPUs"""
    moving(WRITE, 20000)


def reads():
    """READs from changing CPUs"""
    moving(READ, 20000)


if __name__ == "__main__":
    run((short_writes, long_writes, reads))
