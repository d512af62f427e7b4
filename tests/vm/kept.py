# SPDX-License-Identifier: GPL-2.0
"""Packets wait in a queue of the sender's interface while the consumer writes into its buffer: they leave with the
bytes that were sent, and with a matching ICRC.

The consumer may reuse the buffer as soon as the request completes. A peer can make a request complete early, and so
can the consumer, by moving the QP to the error state or destroying it. Before the completion the consumer should not
write, but other processes that share the memory may. Both ends have the other's neighbour entry, because neighbour
discovery would wait in the same queue.
"""

import os
import subprocess
import time

from pyverbs.qp import QPAttr

import enums as e
import frame as f
from headers import Tap
from rc import SLOWNESS, End
from tap import Skip, equal, run, true
from ud import gid_text
from work import FLUSHED, fill, pattern, status

# How long packets wait, in ms, and the time limit of a wait for them, in seconds.
DELAY, PATIENCE = int(2000 * SLOWNESS), 30 * SLOWNESS
MTU, IP, UDP, BTH, ICRC = 1024, 14, 34, 42, 4
# No QP has this number.
PEER = 0x2345


def hold():
    """Makes the interface delay the packets that it sends."""
    netem = ["tc", "qdisc", "replace", "dev", os.environ["NETDEV"], "root", "netem", "delay", f"{DELAY}ms"]
    if subprocess.run(netem, check=False).returncode:
        raise Skip("no sch_netem in this kernel")


def next_to_peer(tap):
    """Returns the next frame for that QP: a packet, or a super-packet, which has one header and no ICRC."""
    end = time.monotonic() + PATIENCE
    tap.socket.settimeout(PATIENCE)
    while time.monotonic() < end:
        data = tap.socket.recv(1 << 16)
        fields = f.parse(data)
        if fields and fields["qpn"] == PEER:
            return data
    raise AssertionError("no packet")


def sends(length, meanwhile):
    """Sends a message to a QP that does not exist; its packets hold the posted bytes, whatever the consumer does
    next.
    """
    hold()
    tap, end, before = Tap(), End(), pattern(length, 3)
    # timeout=0: the requester never gives up on a silent peer.
    end.to_rts(PEER, dgid=gid_text(os.environ["PEER_ADDR"]), gid=int(os.environ["GID4"]), timeout=0)
    fill(end, before)
    began = time.monotonic()
    end.send(e.IBV_WR_SEND, pieces=[end.sge(0, length)])
    meanwhile(end)
    true(time.monotonic() - began < DELAY / 1000, "the packets may have left before that")
    data = next_to_peer(tap)
    tap.close()
    payload = data[BTH + f.BTH:][:length]
    true(payload == before, "the bytes that left differ from the bytes that were sent")
    if length <= MTU:
        equal(data[-ICRC:], f.icrc(data[IP:UDP], data[UDP:BTH], data[BTH:-ICRC]), "ICRC")


def fail(end):
    """Flushes the request by the error state, and overwrites its buffer."""
    end.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
    status(end, FLUSHED, "the send")
    fill(end, bytes(4 * MTU))


def destroy(end):
    """Destroys the QP, and overwrites the buffer."""
    end.qp.close()
    fill(end, bytes(4 * MTU))


def shared():
    """Bytes written into a buffer while it is being sent do not leave"""
    sends(MTU - 24, lambda end: fill(end, bytes(MTU)))


def failed():
    """Bytes written into a buffer after its request was flushed do not leave"""
    sends(MTU - 24, fail)


def failed_burst():
    """Bytes written into a buffer after its request was flushed do not leave in packets that leave together"""
    sends(3 * MTU, fail)


def destroyed():
    """Bytes written into a buffer after its queue pair was destroyed do not leave"""
    sends(3 * MTU, destroy)


if __name__ == "__main__":
    run([shared, failed, failed_burst, destroyed])
