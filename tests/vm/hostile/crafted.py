# SPDX-License-Identifier: GPL-2.0
"""Crafted packets that change what a QP does: a reserved opcode, and the credits of an adapter.

As in drops.py, the packets come from namespace b, from the address that the QPs of DEV are connected to.
"""

import os
import time

import enums as e
import frame as f
from counters import counter
from drops import DEV, NOBODY, PSN, Stranger, Victim, aeth
from netns import within_namespace
from rc import SLOWNESS, eventually
from tap import equal, run, true
from wire import ETH_ALL, Wire
from work import FLUSHED, OK, SEND, status

RESERVED = (0x15, 0x18, 0x1B, 0x1E, 0x1F)
INVALID_REQUEST = 0x61
# Credit codes: no receive, two receives, and no count.
NONE, TWO, UNCOUNTED = 0, 2, 0x1F


class Ear:
    """Receives the packets to the absent peer."""

    def __init__(self):
        with within_namespace("b"):
            self.socket = Wire.opened(os.environ["PEER_NETDEV"], ETH_ALL)

    def acknowledgement(self):
        """Returns syndrome and PSN of the next ACK or NAK."""
        self.socket.settimeout(5 * SLOWNESS)
        while True:
            fields = f.parse(self.socket.recv(1 << 16))
            if fields and fields["qpn"] == NOBODY and fields["opcode"] == f.ACK:
                return fields["body"][0], fields["psn"]

    def close(self):
        """Closes the socket."""
        self.socket.close()


def reserved_opcode():
    """A reserved opcode where a request is expected is answered with a NAK, and the QP fails"""
    stranger = Stranger()
    for opcode in RESERVED:
        with Victim() as rc:
            rc.receive()
            ear = Ear()
            stranger.send(rc, opcode, bytes(16))
            equal(ear.acknowledgement(), (INVALID_REQUEST, PSN), f"response to {opcode:#x}")
            ear.close()
            eventually(lambda rc=rc: rc.state() == e.IBV_QPS_ERR, "the QP is in the error state")
            status(rc, FLUSHED, "the receive")


def reserved_elsewhere():
    """A reserved opcode that is early or old, or has a wrong source, key or checksum, does not fail the QP"""
    stranger = Stranger()
    with Victim() as rc:
        stranger.dropped("unknown_duplicate", rc, 0x15, psn=PSN - 1, also=["duplicate_request"])
        stranger.dropped("bad_pkey", rc, 0x15, pkey=0x8001)
        stranger.dropped("bad_icrc", rc, 0x15, icrc=1)
        stranger.dropped("wrong_source", rc, 0x15, source=bytes((10, 0, 0, 77)))
        ear = Ear()
        stranger.dropped("ahead_of_sequence", rc, 0x15, psn=PSN + 5, also=["out_of_seq_request"])
        equal(ear.acknowledgement(), (f.OUT_OF_SEQUENCE, PSN), "response to the early packet")
        ear.close()
        equal(rc.state(), e.IBV_QPS_RTS)
        rc.receive()
        stranger.send(rc, f.SEND_ONLY)
        status(rc, OK, "the expected request")


def credit_limit():
    """A message that the peer has no receive for waits for its credits, but for one"""
    stranger = Stranger()
    with Victim() as rc:

        def acknowledge(psn, code):
            stranger.send(rc, f.ACK, aeth(code), psn=psn)

        def sent(count, why):
            eventually(lambda: counter("sent_pkts", DEV) - before >= count, why)
            time.sleep(0.2)
            equal(counter("sent_pkts", DEV) - before, count, why)

        before = counter("sent_pkts", DEV)
        rc.send(SEND, wr_id=1, pieces=[rc.sge(0, 8)])
        sent(1, "nothing is known before the first ACK")
        acknowledge(PSN, TWO)
        equal(status(rc, OK, "the first message").wr_id, 1)
        for number in range(2, 12):
            rc.send(SEND, wr_id=number, pieces=[rc.sge(0, 8)])
        sent(4, "two credits and one message more")
        acknowledge(PSN + 2, NONE)
        sent(4, "one message more is in flight already")
        acknowledge(PSN + 3, NONE)
        sent(5, "the next message")
        acknowledge(PSN + 3, TWO)
        sent(7, "receives were posted")
        acknowledge(PSN + 6, UNCOUNTED)
        sent(11, "credits are not counted")
        acknowledge(PSN + 10, UNCOUNTED)
        equal([wc.wr_id for wc in rc.completions(10)], list(range(2, 12)), "completions")
        true(rc.state() == e.IBV_QPS_RTS, "the QP works")


if __name__ == "__main__":
    run([reserved_opcode, reserved_elsewhere, credit_limit])
