# SPDX-License-Identifier: GPL-2.0
"""Performance management: the counters of a port, in sysfs and by management datagrams of a process (ib_umad).

	DEV over v0 ------ PEER_DEV over v1, in namespace b

Uses IPv6: the core matches a response to its request by the addresses in the GRH, which IPv4 does not have.
"""

import fcntl
import ipaddress
import os
import select
import struct

from tap import equal, run, true

DEV, PEER = os.environ["DEV"], os.environ["PEER_DEV"]
RXE = os.environ["DRIVER"] == "rxe"
REGISTER_AGENT, ENABLE_PKEY = 0xC01C1B01, 0x1B03
HEADER = "=IIIII4s4sHBBBBBB16sIH6x"
GET, GET_RESP, SET = 1, 0x81, 2
CLASS_PORT_INFO, COUNTERS, COUNTERS_EXTENDED = 0x0001, 0x0012, 0x001D


def sysfs(name, device=DEV):
    """Returns a counter as the core shows it."""
    with open(f"/sys/class/infiniband/{device}/ports/1/counters/{name}", encoding="ascii") as file:
        return int(file.read())


def hardware(name, device=DEV):
    """Returns a counter of the driver."""
    with open(f"/sys/class/infiniband/{device}/ports/1/hw_counters/{name}", encoding="ascii") as file:
        return int(file.read())


class Agent:
    """A process that sends performance management requests to a port."""

    def __init__(self):
        number = next(name for name in os.listdir("/sys/class/infiniband_mad") if name.startswith("umad")
                      and open(f"/sys/class/infiniband_mad/{name}/ibdev", encoding="ascii").read().strip() == DEV)
        self.file = os.open(f"/dev/infiniband/{number}", os.O_RDWR)
        fcntl.ioctl(self.file, ENABLE_PKEY)
        request = bytearray(struct.pack("=I16sBBB3sBx", 0, b"", 1, 4, 1, b"", 0))
        fcntl.ioctl(self.file, REGISTER_AGENT, request)
        self.id = struct.unpack_from("=I", request)[0]

    def ask(self, gid, attribute, port=1, method=GET, seconds=10):
        """Returns status and data of the response from the port with that address; None if there is none."""
        where = ipaddress.ip_address(gid).packed
        header = struct.pack(HEADER, self.id, 0, seconds * 1000, 0, 256, (1).to_bytes(4), (0x80010000).to_bytes(4),
                             0, 0, 0, 1, int(os.environ["GID6"]), 64, 0, where, 0, 0)
        mad = struct.pack("!BBBBHHQHHI", 1, 4, 1, method, 0, 0, 0x1234, attribute, 0, 0) + bytes(40)
        mad += bytes((0, port)) + bytes(190)
        os.write(self.file, header + mad)
        true(select.select([self.file], [], [], seconds + 5)[0], "response or time-out")
        answer = os.read(self.file, 64 + 256)
        if struct.unpack_from("=II", answer)[1]:
            return None
        mad = answer[64:]
        equal(mad[3], GET_RESP, "method")
        return struct.unpack_from("!H", mad, 4)[0], mad[64:]

    def close(self):
        """Closes the agent."""
        os.close(self.file)


def in_sysfs():
    """sysfs shows the counters of the port, and they count the packets sent"""
    before = {name: sysfs(name) for name in ("port_xmit_packets", "port_xmit_data", "port_rcv_packets")}
    equal(before["port_xmit_packets"], hardware("sent_pkts"), "port_xmit_packets")
    agent = Agent()
    true(agent.ask(os.environ["PEER_ADDR6"], CLASS_PORT_INFO), "a response")
    agent.close()
    true(sysfs("port_xmit_packets") > before["port_xmit_packets"], "a packet was sent")
    true(sysfs("port_rcv_packets") > before["port_rcv_packets"], "a packet was received")
    true(sysfs("port_xmit_data") >= before["port_xmit_data"] + 256 // 4, "counted in words of four bytes")
    equal(sysfs("VL15_dropped"), 0)


def of_the_peer():
    """The peer's port reports its counters to a process over the network"""
    agent = Agent()
    status, data = agent.ask(os.environ["PEER_ADDR6"], CLASS_PORT_INFO)
    equal(status, 0)
    status, data = agent.ask(os.environ["PEER_ADDR6"], COUNTERS_EXTENDED)
    sent_words, _, sent, received = struct.unpack_from("!QQQQ", data, 8)
    equal(status, 0)
    # The response itself may not be counted yet.
    true(hardware("sent_pkts", PEER) - sent in (0, 1), f"sent: {sent} of {hardware('sent_pkts', PEER)}")
    true(hardware("rcvd_pkts", PEER) - received in (0, 1), f"received: {received}")
    true(0 <= hardware("sent_bytes", PEER) // 4 - sent_words <= 80, f"words sent: {sent_words}")
    status, data = agent.ask(os.environ["PEER_ADDR6"], COUNTERS)
    equal((status, data[7]), (0, hardware("link_downed", PEER)), "link_downed")
    agent.close()


def refusals():
    """The port refuses other ports, other attributes and SET with a status"""
    agent = Agent()
    peer = os.environ["PEER_ADDR6"]
    equal(agent.ask(peer, COUNTERS, port=2)[0], 0x1C, "another port")
    equal(agent.ask(peer, 0x0015)[0], 0x0C, "another attribute")
    equal(agent.ask(peer, COUNTERS, method=SET)[0], 0x08, "SET")
    agent.close()


if __name__ == "__main__":
    run([in_sysfs, of_the_peer] + ([] if RXE else [refusals]))
