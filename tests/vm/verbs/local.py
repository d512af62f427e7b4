# SPDX-License-Identifier: GPL-2.0
"""Two queue pairs of one device, whose packets need no network."""

import os
import subprocess
import threading
import time
from functools import partial

from pyverbs.qp import QPAttr

import enums as e
from counters import counter
from rc import DEVICE, SLOWNESS, End, eventually, pair
from tap import Skip, equal, run, true
from work import (FENCE, FLUSHED, OK, READ, SEND, SEND_IMM, SIGNALED, WRITE, WRITE_IMM, fill, held, pattern, piece,
                  status)

# An end gives up after eight timeouts of 33.6 ms, which a busy machine does not reach.
PATIENT = {"timeout": 13, "retry_cnt": 7}

HANDS_OVER = os.environ.get("LOCAL_PATH", "1") != "0"

# Unsignaled requests posted within this time belong to one stream. The requester waits up to 1 ms before it sends an
# ACK request (rust/roce/rc/ack_request.rs).
STREAM = 0.0008


class Counted:  # pylint: disable=too-few-public-methods
    """Counts the growth of counters since its creation."""

    def __init__(self, *names):
        self.before = {name: counter(name, DEVICE) for name in names}

    def __getitem__(self, name):
        return counter(name, DEVICE) - self.before[name]


def streamed(end, *requests):
    """Posts the requests. Returns whether they form one stream. Loopback requests are always acknowledged without an
    ACK request.
    """
    started = time.monotonic()
    for request in requests:
        end.qp.post_send(request)
    return HANDS_OVER or time.monotonic() - started < STREAM


def until_streamed(*attempts):
    """Repeats each attempt until it returns that its posts formed one stream: a busy machine may delay a post. All
    other checks of an attempt run before it returns.
    """
    late = time.monotonic() + 30 * SLOWNESS
    while attempts := [attempt for attempt in attempts if not attempt()]:
        if time.monotonic() >= late:
            raise Skip(f"no machine that posts within {STREAM * 1000} ms")


def message_of_each_kind(a, b, length):
    """Sends messages and a READ of one length. Returns whether the posts were fast enough to check for retransmits."""
    counted = Counted("local_pkts", "sent_pkts", "rcvd_pkts", "duplicate_request", "completer_retry_err")
    data = pattern(length, length)
    fill(a, data)
    places = (b, 40000), (b, 0), (b, 20000), (a, 20000)
    # An earlier attempt leaves the same bytes.
    for end, place in places:
        fill(end, bytes(length), place)
    b.receive(wr_id=7, pieces=[b.sge(40000, 10000)])
    b.receive(wr_id=8, pieces=piece(b, 0))
    b.receive(wr_id=9, pieces=piece(b, 0))
    a.send(SEND_IMM, wr_id=1, pieces=piece(a, length), imm=length)
    stream = streamed(a, a.request(WRITE, wr_id=2, pieces=piece(a, length), remote=b.remote(), flags=0),
                      a.request(WRITE_IMM, wr_id=3, pieces=piece(a, length), remote=b.remote(20000)))
    a.send(READ, wr_id=4, pieces=[a.sge(20000, length)], remote=b.remote())
    a.send(SEND, wr_id=5, pieces=piece(a, 0), flags=SIGNALED | FENCE)
    equal([(wc.wr_id, wc.status) for wc in a.completions(4)], [(n, OK) for n in (1, 3, 4, 5)])
    equal([(wc.wr_id, wc.status, wc.byte_len) for wc in b.completions(3)],
          [(7, OK, length), (8, OK, length), (9, OK, 0)])
    for end, place in places:
        equal(held(end, length, place), data, f"{length} bytes at {place}")
    equal(counted["sent_pkts"], counted["rcvd_pkts"], "packets sent and received")
    equal(counted["local_pkts"], counted["sent_pkts"] if HANDS_OVER else 0, "loopback packets")
    if stream:
        equal((counted["duplicate_request"], counted["completer_retry_err"]), (0, 0), "retransmits")
    return stream


def messages():
    """Messages and READs of all kinds complete in order, and loopback packets use no network"""
    with pair(timeout=20) as (a, b):
        until_streamed(*(partial(message_of_each_kind, a, b, length) for length in (1, 1024, 1025, 10000)))


def asked_once():
    """Posts unsignaled writes. Returns whether the posts were fast enough to check the ACK requests."""
    with pair(timeout=20) as (a, b):
        # A requester that has received nothing from its peer yet sends an ACK request promptly.
        a.send(WRITE, pieces=[a.sge(0, 2000)], remote=b.remote())
        status(a, OK, "a write")
        counted, probes = Counted("duplicate_request", "completer_retry_err"), 0 if HANDS_OVER else 1
        writes = [a.request(WRITE, pieces=[a.sge(0, 2000)], remote=b.remote(), flags=0) for _ in range(3)]
        if not streamed(a, *writes):
            return False
        eventually(lambda: counted["duplicate_request"] == probes, "the ACK request")
        time.sleep(0.05)
        equal(counted["duplicate_request"], probes, "the ACK request is sent once")
        equal(counted["completer_retry_err"], 0, "retransmits")
    return True


def unasked():
    """Unsignaled requests are acknowledged: over a network, after one ACK request"""
    until_streamed(asked_once)


def scattered():
    """SEND gathers and scatters SGEs of different lengths, and WRITE copies to an overlapping range"""
    with pair() as (a, b):
        data = pattern(9000, 4)
        fill(a, data)
        b.receive(pieces=[b.sge(0, 1), b.sge(100, 4000), b.sge(5000, 30), b.sge(6000, 9000)])
        a.send(SEND, pieces=[a.sge(0, 3000), a.sge(3000, 7), a.sge(3007, 5993)])
        status(a, OK, "send")
        equal(status(b, OK, "receive").byte_len, 9000)
        found = held(b, 1) + held(b, 4000, 100) + held(b, 30, 5000) + held(b, 4969, 6000)
        equal(found, data)
    end = End()
    end.to_rts(end)
    fill(end, pattern(5000, 9))
    for distance in (1, 100, 4096):
        end.send(WRITE, pieces=[end.sge(0, 5000)], remote=end.remote(distance))
        status(end, OK, "a write over its own source")
    before = held(end, 5000)
    end.send(WRITE, pieces=[end.sge(0, 5000)], remote=end.remote(5000))
    status(end, OK, "a write beside its source")
    equal(held(end, 5000, 5000), before)
    end.close()


def pauses():
    """A peer without a receive sends RNR NAKs, as many as the retry count allows"""
    counted = Counted("rcvd_rnr_err", "send_rnr_err", "retry_rnr_exceeded_err", "rcvd_seq_err")
    with pair(rnr_retry=3, min_rnr_timer=14) as (a, _b):
        a.send(SEND, pieces=[a.sge(0, 4)])
        a.send(SEND, wr_id=3, pieces=[a.sge(0, 4)])
        status(a, e.IBV_WC_RNR_RETRY_EXC_ERR, "the first")
        status(a, FLUSHED, "the second")
    equal((counted["rcvd_rnr_err"], counted["send_rnr_err"], counted["retry_rnr_exceeded_err"]), (4, 4, 1))
    with pair(rnr_retry=7, min_rnr_timer=14) as (a, b):
        for number in range(20):
            a.send(SEND, wr_id=number, pieces=[a.sge(0, 2000)])
        for number in range(20):
            b.receive(wr_id=number, pieces=[b.sge(0, 2000)])
        for end in (a, b):
            found = end.completions(20)
            equal([(wc.wr_id, wc.status) for wc in found], [(number, OK) for number in range(20)])
    equal(counted["rcvd_seq_err"], 0, "sequence errors")


def refusals():
    """Both ends fail as over a wire when the peer refuses a request"""
    with pair() as (a, b):
        a.send(WRITE, pieces=[a.sge(0, 5000)], remote=(b.mr.buf, b.mr.rkey ^ 0x100))
        status(a, e.IBV_WC_REM_ACCESS_ERR, "a wrong key")
        eventually(lambda: b.state() == e.IBV_QPS_ERR, "the peer has failed")
    with pair() as (a, b):
        b.receive(pieces=[b.sge(0, 4000)])
        a.send(SEND, pieces=[a.sge(0, 5000)])
        status(b, e.IBV_WC_LOC_LEN_ERR, "a receive that is too short")
        status(a, e.IBV_WC_REM_INV_REQ_ERR, "its send")
    with pair() as (a, b):
        b.receive(pieces=[b.sge(0, 5000)])
        a.send(WRITE, wr_id=1, pieces=[a.sge(0, 5000)], remote=b.remote())
        gone = a.sge(0, 5000)
        gone.lkey ^= 0x100
        a.send(SEND, wr_id=2, pieces=[gone])
        equal([wc.status for wc in a.completions(2)], [OK, e.IBV_WC_LOC_PROT_ERR], "a wrong local key")
        b.silent()


def gone():
    """A request to a peer that was reset or destroyed fails, and succeeds once the peer is connected again"""
    for destroy in (False, True):
        with pair(a={"size": 1 << 20}, b={"size": 1 << 20}, **PATIENT) as (a, b):
            for _ in range(8):
                a.send(WRITE, pieces=[a.sge()], remote=b.remote())
            a.completions(8)
            if destroy:
                b.qp.close()
            else:
                b.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
            a.send(WRITE, pieces=[a.sge()], remote=b.remote())
            status(a, e.IBV_WC_RETRY_EXC_ERR, "no peer")
            if not destroy:
                a.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
                a.to_rts(b)
                b.to_rts(a)
                a.send(WRITE, pieces=[a.sge(0, 100)], remote=b.remote())
                status(a, OK, "after both are connected again")


def bytes_of_packets():
    """The byte counters include the headers and the ICRC of each packet"""
    length, mtu = 65536, 256
    packets = length // mtu
    with pair(path_mtu=e.IBV_MTU_256, timeout=20, a={"size": length}, b={"size": length}) as (a, b):
        counted = Counted("sent_pkts", "sent_bytes", "rcvd_pkts", "rcvd_bytes")
        a.send(WRITE, pieces=[a.sge(0, length)], remote=b.remote())
        status(a, OK, "a write")
        # Each packet has a BTH and an ICRC, the first a RETH; ACKs have an AETH.
        acks = counted["sent_pkts"] - packets
        equal(counted["sent_bytes"], length + packets * (12 + 4) + 16 + acks * (12 + 4 + 4), "sent")
        equal(counted["rcvd_bytes"], counted["sent_bytes"], "received")


def in_turn():
    """Modify and close work while both ends send"""
    for _ in range(30):
        with pair(a={"size": 1 << 18}, b={"size": 1 << 18}, **PATIENT) as (a, b):
            def storm(end, peer):
                for _ in range(16):
                    end.send(WRITE, pieces=[end.sge()], remote=peer.remote())
            threads = [threading.Thread(target=storm, args=ends) for ends in ((a, b), (b, a))]
            for thread in threads:
                thread.start()
            b.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
            for thread in threads:
                thread.join()
            found = [wc.status for wc in b.completions(16, 20)]
            true(set(found) <= {OK, FLUSHED}, f"statuses {found}")
            eventually(lambda: a.completions(16, 20), "all completions of the other end")


def other_routes():
    """Writes complete while routes and addresses come and go"""
    stop = threading.Event()

    def stir():
        while not stop.is_set():
            for verb in ("add", "del"):
                subprocess.run(["ip", "addr", verb, "10.77.0.1/24", "dev", os.environ["NETDEV"]], check=True)

    stirrer = threading.Thread(target=stir)
    stirrer.start()
    try:
        with pair() as (a, b):
            data = pattern(30000, 6)
            fill(a, data)
            for _ in range(300):
                a.send(WRITE, pieces=[a.sge(0, 30000)], remote=b.remote())
                status(a, OK, "write", 20)
            equal(held(b, 30000), data)
    finally:
        stop.set()
        stirrer.join()


run([messages, unasked, scattered, bytes_of_packets, pauses, refusals, gone, in_turn, other_routes])
