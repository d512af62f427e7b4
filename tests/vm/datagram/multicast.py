# SPDX-License-Identifier: GPL-2.0
"""Multicast without a connection manager: ibv_attach_mcast alone, over IPv4 and IPv6; which QP gets which datagram.

	DEV over v0 ------ PEER_DEV over v1, in namespace b

One process opens both devices; only their interfaces are in different namespaces.
"""

import errno
import os
import socket
import struct
import subprocess

import enums as e
from counters import counter
from tap import equal, not_for_rxe, run, true
from ud import GRH, MULTICAST_QPN, PORT, QKEY, UdEnd, filters, gid_bytes

DEV, PEER = os.environ["DEV"], os.environ["PEER_DEV"]
GROUPS = {4: "239.1.1.5", 6: "ff1e::1:5"}
# Multicast MAC addresses of the groups: from the last 23 bits (IPv4) or 32 bits (IPv6) of the address.
MACS = {4: "01:00:5e:01:01:05", 6: "33:33:00:01:00:05"}
RXE = os.environ["DRIVER"] == "rxe"


def gid(family, peer=False):
    """Returns the GID index of an end."""
    return int(os.environ[f"{'PEER_' if peer else ''}GID{family}"])


def opened(device=DEV, **settings):
    """Returns an end that is closed at the end of the test."""
    end = UdEnd(device, **settings)
    _ends.append(end)
    return end


_ends = []


def closing(test):
    """Decorates a test: closes the ends that it opened."""
    def wrapped():
        try:
            test()
        finally:
            while _ends:
                _ends.pop().close()
    wrapped.__doc__, wrapped.__name__ = test.__doc__, test.__name__
    return wrapped


def over_the_wire(family):
    """Checks a datagram that the peer sends to a group."""
    group = GROUPS[family]
    a, b = opened(), opened(PEER)
    true(MACS[family] not in filters(), "the filter does not accept the group yet")
    a.attach(group)
    true(MACS[family] in filters() and group in filters(), f"the interface is joined: {filters()}")
    a.receive(2)
    handle = b.handle_for(group, gid(family, peer=True), hop_limit=3)
    equal(b.send(handle, b"to the group"), e.IBV_WC_SUCCESS, "send")
    done = a.completion()
    equal((done.status, done.byte_len), (e.IBV_WC_SUCCESS, GRH + 12), "receive")
    equal((done.src_qp, done.wc_flags & e.IBV_WC_GRH), (b.qp.qp_num, e.IBV_WC_GRH), "sender and GRH")
    data = a.received()
    equal(data[GRH:GRH + 12], b"to the group")
    equal(data[36:40], gid_bytes(group)[-4:], "the group in the IP header")
    equal(data[28] if family == 4 else data[7], 3, "hop limit")
    a.detach(group)
    true(MACS[family] not in filters(), f"the interface has left: {filters()}")
    equal(b.send(handle), e.IBV_WC_SUCCESS, "send to a group without members")
    a.silent()


@closing
def over_ipv4():
    """A datagram to an IPv4 group arrives over the wire after ibv_attach_mcast alone"""
    not_for_rxe("joins no IPv4 group")
    over_the_wire(4)


@closing
def over_ipv6():
    """A datagram to an IPv6 group arrives over the wire after ibv_attach_mcast alone"""
    not_for_rxe("joins no IPv6 group")
    over_the_wire(6)


@closing
def a_copy_each():
    """Every attached queue pair gets its own copy of a datagram, others get none"""
    not_for_rxe("joins no group")
    members, stranger = [opened() for _ in range(3)], opened()
    b = opened(PEER)
    for end in members:
        end.attach(GROUPS[4])
    stranger.attach("239.1.1.6")
    for end in (*members, stranger):
        end.receive(4)
    handle = b.handle_for(GROUPS[4], gid(4, peer=True))
    for text in (b"one", b"two two", b"three three three"):
        equal(b.send(handle, text), e.IBV_WC_SUCCESS)
    for end in members:
        for number, text in enumerate((b"one", b"two two", b"three three three")):
            done = end.completion()
            equal((done.wr_id, done.byte_len), (number, GRH + len(text)))
            equal(end.received(number)[GRH:GRH + len(text)], text)
    stranger.silent()
    # One member leaves; the others stay.
    members[0].detach(GROUPS[4])
    equal(b.send(handle, b"four"), e.IBV_WC_SUCCESS)
    for end in members[1:]:
        equal(end.completion().wr_id, 3)
    members[0].silent()


@closing
def loopback():
    """A member, another member on its device and one at the peer get the datagrams that the member sends"""
    a, other, b = opened(), opened(), opened(PEER)
    for family in (4, 6):
        if RXE and family == 6:
            continue
        for end in (a, other, b):
            end.attach(GROUPS[family])
            end.receive()
        equal(a.send(a.handle_for(GROUPS[family], gid(family)), b"to all"), e.IBV_WC_SUCCESS)
        for end in (a, other, b):
            if RXE and end is b:
                continue
            done = end.completion(lambda wc: wc.wr_id == 0)
            equal((done.byte_len, done.src_qp), (GRH + 6, a.qp.qp_num), f"IPv{family}")
            equal(end.received()[GRH:GRH + 6], b"to all")
        for end in (a, other, b):
            end.detach(GROUPS[family])


@closing
def no_member_no_copy():
    """A sender that is not attached gets no copy of its datagram"""
    a, other = opened(), opened()
    other.attach(GROUPS[4])
    a.receive()
    equal(a.send(a.handle_for(GROUPS[4], gid(4))), e.IBV_WC_SUCCESS)
    a.silent()


@closing
def wrong_key():
    """A member with another Q_Key drops the datagram and counts it"""
    not_for_rxe("joins no group")
    right, wrong, b = opened(), opened(qkey=0x2222), opened(PEER)
    for end in (right, wrong):
        end.attach(GROUPS[4])
        end.receive()
    before = counter("rx_bad_qkey", DEV)
    equal(b.send(b.handle_for(GROUPS[4], gid(4, peer=True))), e.IBV_WC_SUCCESS)
    right.completion()
    wrong.silent()
    equal(counter("rx_bad_qkey", DEV) - before, 1, "rx_bad_qkey")


@closing
def number_and_address_agree():
    """A datagram to a group's address needs the multicast QPN, and one to a host's address must not have it"""
    not_for_rxe("joins no group")
    a, b = opened(), opened(PEER)
    a.attach(GROUPS[4])
    a.receive(2)
    before = counter("rx_no_multicast_member", DEV), counter("rx_unknown_qp", DEV)
    to_group = b.handle_for(GROUPS[4], gid(4, peer=True))
    equal(b.send(to_group, qpn=a.qp.qp_num), e.IBV_WC_SUCCESS)
    to_host = b.handle_for(os.environ["ADDR"], gid(4, peer=True))
    equal(b.send(to_host, qpn=MULTICAST_QPN), e.IBV_WC_SUCCESS)
    a.silent()
    after = counter("rx_no_multicast_member", DEV), counter("rx_unknown_qp", DEV)
    equal((after[0] - before[0], after[1] - before[1]), (1, 1), "counters")


@closing
def twice_and_never():
    """Attaching twice succeeds, and detaching from a group without a membership fails"""
    a = opened()
    a.attach(GROUPS[4])
    a.attach(GROUPS[4])
    a.detach(GROUPS[4])
    try:
        a.detach(GROUPS[4])
    except OSError as error:
        equal(error.errno, errno.EINVAL)
    else:
        raise AssertionError("leaving twice was not refused")
    try:
        a.attach("10.0.0.1")
    except OSError as error:
        true(error.errno in (errno.EINVAL, errno.ENOENT), f"attached to a host: {error}")
    else:
        raise AssertionError("attached to a host")


@closing
def busy():
    """An attached queue pair cannot be destroyed until it is detached"""
    a = opened()
    a.attach(GROUPS[4])
    try:
        a.qp.close()
    except Exception as error:  # pylint: disable=broad-except
        equal(getattr(error, "error_code", 0), errno.EBUSY, f"{error}")
    else:
        raise AssertionError("destroyed while attached")
    a.detach(GROUPS[4])


@closing
def limits():
    """Exactly max_mcast_qp_attach queue pairs can attach to a group, and exactly max_mcast_grp groups exist"""
    not_for_rxe("checked less exactly")
    a = opened()
    most = a.ctx.query_device().max_mcast_qp_attach
    pairs = [a.make_qp() for _ in range(most)]
    equal(a.attach(GROUPS[4]), most, "attached QPs of one more than the limit")
    true(MACS[4] in filters(), "joined")
    a.detach(GROUPS[4])
    true(MACS[4] not in filters(), f"left: {filters()}")
    a.handles = a.handles[:1]
    groups = a.ctx.query_device().max_mcast_grp
    for number in range(groups):
        a.attach(f"239.2.{number >> 8}.{number & 255}")
    try:
        a.attach("239.3.0.0")
    except OSError as error:
        equal(error.errno, errno.ENOMEM)
    else:
        raise AssertionError(f"more than {groups} groups")
    for number in range(groups):
        a.detach(f"239.2.{number >> 8}.{number & 255}")
    true("239.2." not in filters(), "left all")
    for pair in pairs:
        pair.close()


@closing
def another_part_of_ip():
    """A group stays joined when the interface's IPv6 goes and comes back; a membership of another socket is kept"""
    not_for_rxe("joins no IPv6 group")
    group, netdev = GROUPS[6], os.environ["NETDEV"]
    a, later, b = opened(), opened(), opened(PEER)
    a.attach(group)
    a.receive(2)
    handle = b.handle_for(group, gid(6, peer=True))
    # IPv6 needs an MTU of 1280.
    for mtu in ("1200", os.environ.get("MTU", "4200")):
        subprocess.run(["ip", "link", "set", netdev, "mtu", mtu], check=True)
        equal(MACS[6] in filters(), mtu != "1200", f"joined with an MTU of {mtu}: {filters()}")
    equal(b.send(handle, b"again"), e.IBV_WC_SUCCESS, "send")
    equal(a.completion().byte_len, GRH + 5, "receive")
    later.attach(group)
    later.detach(group)
    true(group in filters(), f"another QP attached and detached: {filters()}")
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other:
        place = socket.inet_pton(socket.AF_INET6, group) + struct.pack("=I", socket.if_nametoindex(netdev))
        # Detaching drops only the QP's own membership, even if it was already lost when IPv6 went away.
        subprocess.run(["ip", "link", "set", netdev, "mtu", "1200"], check=True)
        subprocess.run(["ip", "link", "set", netdev, "mtu", os.environ.get("MTU", "4200")], check=True)
        other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, place)
        a.detach(group)
        true(group in filters(), f"the socket's membership: {filters()}")
    true(group not in filters(), f"all have left: {filters()}")
    subprocess.run(["ip", "addr", "add", f"{os.environ['ADDR6']}/64", "dev", netdev, "nodad"], check=True)


def process_exit():
    """The end of a process leaves its groups"""
    child = os.fork()
    if not child:
        end = UdEnd(DEV)
        end.attach(GROUPS[4])
        os._exit(0 if MACS[4] in filters() or RXE else 1)
    equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "exit code")
    true(MACS[4] not in filters(), f"left: {filters()}")


TESTS = [over_ipv4, over_ipv6, a_copy_each, loopback, no_member_no_copy, wrong_key, number_and_address_agree,
         twice_and_never, busy, limits, process_exit, another_part_of_ip]

if __name__ == "__main__":
    run(TESTS)
