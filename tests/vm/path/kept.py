# SPDX-License-Identifier: GPL-2.0
"""Packets wait in a queue of the sender's interface while the consumer writes into its buffer: they leave with the
bytes that were sent, and with a matching ICRC. A sender that has nothing more to send does not wait for them.

The consumer may reuse the buffer as soon as the request completes. A peer can make a request complete early, and so
can the consumer, by moving the QP to the error state or destroying it. Before the completion the consumer should not
write, but other processes that share the memory may. Both ends have the other's neighbour entry, because neighbour
discovery would wait in the same queue.
"""

import os
import subprocess
import time

from pyverbs.qp import QPAttr
from pyverbs.wr import SendWR

import enums as e
import frame as f
from counters import counter
from headers import Tap
from rc import SLOWNESS, End
from tap import Skip, equal, run, true
from ud import UdEnd, gid_text
from work import FLUSHED, OK, fill, pattern, status

# How long packets wait, in ms, and the time limit of a wait for them, in seconds.
DELAY, PATIENCE = int(2000 * SLOWNESS), 30 * SLOWNESS
MTU, IP, UDP, BTH, ICRC = 1024, 14, 34, 42, 4
# More than a sender may have in flight at first, even if its first packets leave at once. A wait for the local stack
# ends after 20 ms.
IN_FLIGHT, DATAGRAM, LONGER = 128 << 10, 4000, 0.03
# Unlike netem, it does not detach the sender of a packet that it holds.
SLOW = ("tbf", "rate", "10kbit", "burst", "6000", "limit", "1000000")
# Requests of one run of a sender, and a length with which they fit in one burst, of 60 KiB.
BUDGET, SHORT = 64, 900
# No QP has this number.
PEER = 0x2345


def hold(*queue):
    """Makes the interface delay the packets that it sends, by a queue like this."""
    queue = queue or ("netem", "delay", f"{DELAY}ms")
    if subprocess.run(["tc", "qdisc", "replace", "dev", os.environ["NETDEV"], "root", *queue], check=False).returncode:
        raise Skip(f"no sch_{queue[0]} in this kernel")


def takes_super_packets(on):
    """Sets whether the interface takes super-packets unsplit, and so also single packets without an ICRC."""
    ethtool = ["ethtool", "-K", os.environ["NETDEV"], "tx-udp_tnl-segmentation", "on" if on else "off"]
    if subprocess.run(ethtool, check=False).returncode:
        raise Skip("no ethtool")


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
    takes_super_packets(length > MTU)
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
    takes_super_packets(True)
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


def idle():
    """UD: a queue pair without requests does not wait until its datagrams have left, so that nothing wakes it"""
    hold(*SLOW)
    end = UdEnd()
    handle = end.handle_for(os.environ["PEER_ADDR"], int(os.environ["GID4"]))
    for number in range(IN_FLIGHT // DATAGRAM):
        before = counter("wake_local_stack", os.environ["DEV"])
        began = time.monotonic()
        equal(end.send(handle, bytes(DATAGRAM), PEER), OK, "status")
        if time.monotonic() - began > LONGER / 2:
            break
        time.sleep(LONGER)
        equal(counter("wake_local_stack", os.environ["DEV"]) - before, 0, f"wakes after datagram {number}")
    true(number < IN_FLIGHT // DATAGRAM - 1, "the limit was not reached")
    handle.close()
    end.close()


def idle_connected():
    """UC: a queue pair whose requests are all sent at the end of a run does not wait until they have left"""
    hold(*SLOW)
    end, chain = End(service=e.IBV_QPT_UC, wr=BUDGET), [None]
    end.to_rts(PEER, dgid=gid_text(os.environ["PEER_ADDR"]), gid=int(os.environ["GID4"]))
    for number in range(BUDGET):
        flags = 0 if number else e.IBV_SEND_SIGNALED
        chain.append(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[end.sge(0, SHORT)], send_flags=flags,
                            next_wr=chain[-1]))
    # With these in flight, that burst reaches the limit.
    end.send(e.IBV_WR_SEND, pieces=[end.sge(0, IN_FLIGHT // 4)])
    status(end, OK, "the first send")
    before = counter("wake_local_stack", os.environ["DEV"])
    end.qp.post_send(chain[-1])
    status(end, OK, "the last send")
    time.sleep(LONGER)
    equal(counter("wake_local_stack", os.environ["DEV"]) - before, 0, "wakes")
    end.close()


if __name__ == "__main__":
    run([shared, failed, failed_burst, destroyed, idle, idle_connected])
