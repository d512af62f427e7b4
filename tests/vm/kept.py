# SPDX-License-Identifier: GPL-2.0
"""Packets that wait in a queue of their sender's interface, whose consumer writes into his buffer meanwhile: what
leaves is what was there when it was sent, with its ICRC.

He may do so as soon as a request has completed, which a peer can have happen early, and the consumer himself by the
error state, or by destroying the queue pair. Before that he should not; but who shares the memory with others
does not know what these do. Both ends know their neighbour, who would be held back as well.
"""

import os
import subprocess
import time

import pyverbs.enums as e
from pyverbs.qp import QPAttr

import frame as f
from headers import Tap
from rc import SLOWNESS, End
from tap import Skip, equal, run, true
from ud import gid_text
from work import FLUSHED, fill, pattern, status

# How long packets wait, in ms, and how long what waits for them does, in seconds.
DELAY, PATIENCE = int(2000 * SLOWNESS), 30 * SLOWNESS
MTU, IP, UDP, BTH, ICRC = 1024, 14, 34, 42, 4
# Nobody has this number.
PEER = 0x2345


def hold():
    """The interface holds back what it sends."""
    netem = ["tc", "qdisc", "replace", "dev", os.environ["NETDEV"], "root", "netem", "delay", f"{DELAY}ms"]
    if subprocess.run(netem, check=False).returncode:
        raise Skip("no sch_netem in this kernel")


def next_to_peer(tap):
    """What comes for that queue pair: a frame, of one packet or of several that came together."""
    end = time.monotonic() + PATIENCE
    tap.socket.settimeout(PATIENCE)
    while time.monotonic() < end:
        data = tap.socket.recv(1 << 16)
        fields = f.parse(data)
        if fields and fields["qpn"] == PEER:
            return data
    raise AssertionError("no packet")


def payloads(data):
    """What the packets of a message hold that came together; the first has no header beyond its BTH."""
    at = BTH
    while at < len(data):
        end = min(at + f.BTH + MTU + ICRC, len(data))
        yield data[at + f.BTH:end - ICRC]
        at = end


def sends(length, meanwhile):
    """Sends a message to nobody; its packets hold what was posted, whatever follows."""
    hold()
    tap, end, before = Tap(), End(), pattern(length, 3)
    # A peer that does not answer is not given up.
    end.to_rts(PEER, dgid=gid_text(os.environ["PEER_ADDR"]), gid=int(os.environ["GID4"]), timeout=0)
    fill(end, before)
    began = time.monotonic()
    end.send(e.IBV_WR_SEND, pieces=[end.sge(0, length)])
    meanwhile(end)
    true(time.monotonic() - began < DELAY / 1000, "the packets may have left before that")
    data = next_to_peer(tap)
    tap.close()
    true(b"".join(payloads(data)) == before, "what has left is not what was sent")
    if length <= MTU:
        equal(data[-ICRC:], f.icrc(data[IP:UDP], data[UDP:BTH], data[BTH:-ICRC]), "ICRC")


def fail(end):
    """Has the request flushed, and uses its buffer."""
    end.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
    status(end, FLUSHED, "what was sent")
    fill(end, bytes(4 * MTU))


def destroy(end):
    """Has the queue pair destroyed, and uses the buffer."""
    end.qp.close()
    fill(end, bytes(4 * MTU))


def shared():
    """What is written into a buffer that is being sent does not leave"""
    sends(MTU - 24, lambda end: fill(end, bytes(MTU)))


def failed():
    """What is written into a buffer when its request was flushed does not leave"""
    sends(MTU - 24, fail)


def failed_burst():
    """Nor does it in packets that leave together"""
    sends(3 * MTU, fail)


def destroyed():
    """What is written into a buffer when its queue pair was destroyed does not leave"""
    sends(3 * MTU, destroy)


if __name__ == "__main__":
    run([shared, failed, failed_burst, destroyed])
