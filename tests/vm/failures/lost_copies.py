# SPDX-License-Identifier: GPL-2.0
"""Datagrams to a group while allocations of copies fail: a member without a copy loses only that datagram, and each
loss is counted. 76-lost-memory.sh sets which allocations may fail.

	DEV over v0 ------ PEER_DEV over v1, in namespace b
"""

import time

from counters import counter
from multicast import DEV, GROUPS, PEER, closing, gid, opened
from tap import equal, run, true
from ud import GRH
from work import OK

MEMBERS, ROUNDS, LAST, AT_ONCE, PLACES = 3, 100, 10, 8, 32


def fail(percent):
    """Sets the percentage of allocations that fail from now on."""
    with open("/sys/kernel/debug/failslab/probability", "w", encoding="ascii") as file:
        file.write(str(percent))


def drained(member):
    """Takes the messages that arrived at a member, posts as many receives, and returns the messages."""
    came, end = [], time.monotonic() + 0.02
    while time.monotonic() < end:
        for found in member.cq.poll(16)[1]:
            equal(found.status, OK, "receive")
            came.append(member.received(found.wr_id)[GRH:found.byte_len])
            member.receive(at=found.wr_id)
    return came


@closing
def copies():
    """A member for which no copy of a group datagram can be allocated loses that datagram, and the loss is counted"""
    lost = counter("rx_no_memory", DEV)
    members, sender = [opened() for _ in range(MEMBERS)], opened(PEER)
    for member in members:
        member.attach(GROUPS[4])
        member.receive(PLACES)
    handle = sender.handle_for(GROUPS[4], gid(4, peer=True))
    text, got = b"to some of you", [0] * MEMBERS
    fail(30)
    try:
        # The last rounds send nothing: late datagrams arrive.
        for count in ROUNDS * [AT_ONCE] + LAST * [0]:
            for _ in range(count):
                equal(sender.send(handle, text), OK, "send")
            for at, member in enumerate(members):
                came = drained(member)
                equal(came, [text] * len(came), "the messages")
                got[at] += len(came)
    finally:
        fail(0)
    lost = counter("rx_no_memory", DEV) - lost
    print(f"# of {ROUNDS * AT_ONCE} sent, members got {got}; {lost} copies lost", flush=True)
    true(lost > 0, "lost copies")
    # One member gets the original datagram instead of a copy, so it gets every one that arrived.
    equal(sum(got) + lost, MEMBERS * max(got), "copies that arrived or were counted")


if __name__ == "__main__":
    run([copies])
