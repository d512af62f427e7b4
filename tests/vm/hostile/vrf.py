# SPDX-License-Identifier: GPL-2.0
"""Packets that arrive through a VRF, another network of the same namespace.

UDP does not deliver them to sockets outside the VRF, and the device must not accept them either, single or coalesced.

	DEV over v0 ------ PEER_DEV over v1, in namespace b
"""

import os
import subprocess

from headers import ip
from rc import across
from tap import Skip, equal, run, true
from work import WRITE, fill, held, pattern

LENGTH = 60000
ACCEPT = "/proc/sys/net/ipv4/udp_l3mdev_accept"


def written(ends, seed):
    """Returns the completion status of a WRITE from the second end to the first."""
    here, there = ends
    fill(there, pattern(LENGTH, seed))
    there.send(WRITE, pieces=[there.sge(0, LENGTH)], remote=here.remote())
    return there.completion(20).status


def other_network():
    """A connection does not accept packets of a VRF interface, on which its socket does not listen"""
    if not os.path.exists(ACCEPT):
        raise Skip("no VRFs in this kernel")
    with open(ACCEPT, encoding="ascii") as file:
        equal(file.read().strip(), "0", "net.ipv4.udp_l3mdev_accept")
    with across({"size": LENGTH}, {"size": LENGTH}, timeout=14, retry_cnt=2) as ends:
        equal(written(ends, 1), 0, "status of a WRITE")
        equal(held(ends[0], LENGTH), pattern(LENGTH, 1), "the bytes written")
        try:
            ip("link", "add", "red", "up", "type", "vrf", "table", "10")
        except subprocess.CalledProcessError as error:
            raise Skip("no VRFs in this kernel") from error
        try:
            ip("link", "set", os.environ["NETDEV"], "master", "red")
            true(written(ends, 2) != 0, "a WRITE into a VRF has been acknowledged")
            equal(held(ends[0], LENGTH), pattern(LENGTH, 1), "the bytes after it")
        finally:
            ip("link", "del", "red")


if __name__ == "__main__":
    run([other_network])
