# SPDX-License-Identifier: GPL-2.0
"""The states of a queue pair, each with each: which transitions there are, which attributes they need, which they may
have, and that nothing else is taken. IBA 10.3.1, table "QP state transition properties", for RC, UC and UD.

Then what changes in RTS do, and what query_qp tells of attributes that nobody has set.
"""

import bisect
import errno
import multiprocessing
import os
import time
from functools import partial

import pyverbs.enums as e
from pyverbs.qp import QPAttr
from pyverbs.wr import SendWR, SGE

import rc
from counters import counter
from rc import DEVICE, FULL_ACCESS, PORT, SLOWNESS, End, eventually, gid_index, own_context
from tap import equal, not_for_rxe, run, true
from ud import GRH, QKEY, UdEnd
from verbs import refused
from work import OK, READ, SEND, WRITE, e_name, fill, held, status

RESET, INIT, RTR, RTS, SQD, SQE, ERR = range(7)
NAMES = "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"
RC, UC, UD = e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD
SERVICES = {RC: "RC", UC: "UC", UD: "UD"}
# By state: those that it may be left for.
LEGAL = {RESET: (RESET, INIT), INIT: (RESET, INIT, RTR, ERR), RTR: (RESET, RTS, ERR), RTS: (RESET, RTS, SQD, ERR),
         SQD: (RESET, RTS, SQD, ERR), SQE: (RESET, RTS, ERR), ERR: (RESET, ERR)}
# Every attribute that a mask can name, without IBV_QP_.
ATTRIBUTES = ("CUR_STATE", "EN_SQD_ASYNC_NOTIFY", "ACCESS_FLAGS", "PKEY_INDEX", "PORT", "QKEY", "AV", "PATH_MTU",
              "TIMEOUT", "RETRY_CNT", "RNR_RETRY", "RQ_PSN", "MAX_QP_RD_ATOMIC", "ALT_PATH", "MIN_RNR_TIMER",
              "SQ_PSN", "MAX_DEST_RD_ATOMIC", "PATH_MIG_STATE", "CAP", "DEST_QPN")
# What a transition needs; those that are not named need nothing.
NEEDED = {
    (RESET, INIT): {RC: "PKEY_INDEX PORT ACCESS_FLAGS", UC: "PKEY_INDEX PORT ACCESS_FLAGS", UD: "PKEY_INDEX PORT QKEY"},
    (INIT, RTR): {RC: "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER", UC: "AV PATH_MTU DEST_QPN RQ_PSN",
                  UD: ""},
    (RTR, RTS): {RC: "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC", UC: "SQ_PSN", UD: "SQ_PSN"},
}
# And what it may have besides. Alternate paths are left out: no queue pair here has one.
ALLOWED = {
    (INIT, INIT): {RC: "PKEY_INDEX PORT ACCESS_FLAGS", UC: "PKEY_INDEX PORT ACCESS_FLAGS", UD: "PKEY_INDEX PORT QKEY"},
    (INIT, RTR): {RC: "ACCESS_FLAGS PKEY_INDEX", UC: "ACCESS_FLAGS PKEY_INDEX", UD: "PKEY_INDEX QKEY"},
    (RTR, RTS): {RC: "CUR_STATE ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE", UC: "CUR_STATE ACCESS_FLAGS PATH_MIG_STATE",
                 UD: "CUR_STATE QKEY"},
    (RTS, SQD): dict.fromkeys(SERVICES, "EN_SQD_ASYNC_NOTIFY"),
    (SQD, SQD): {RC: "PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ACCESS_FLAGS PKEY_INDEX "
                     "MIN_RNR_TIMER PATH_MIG_STATE", UC: "AV ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE",
                 UD: "PKEY_INDEX QKEY"},
    (SQE, RTS): {UC: "CUR_STATE ACCESS_FLAGS", UD: "CUR_STATE QKEY"},
}
ALLOWED[RTS, RTS] = ALLOWED[SQD, RTS] = ALLOWED[RTR, RTS]
# From RESET to each state.
WAYS = {RESET: (), INIT: (INIT,), RTR: (INIT, RTR), RTS: (INIT, RTR, RTS), SQD: (INIT, RTR, RTS, SQD),
        SQE: (INIT, RTR, RTS), ERR: (INIT, ERR)}


def mask_of(words):
    """Names of attributes as a mask."""
    return sum(getattr(e, f"IBV_QP_{word}") for word in words)


class Traveller:
    """A queue pair that is taken from state to state. It is its own peer."""

    def __init__(self, service):
        self.service = service
        self.end = End(service=service, cqe=1024)
        self.at = RESET

    def attr(self, to):
        """Values that are right, of every attribute."""
        attr = self.end.attr(self.end)
        attr.qp_state, attr.cur_qp_state, attr.qkey = to, self.at, QKEY
        attr.alt_ah_attr, attr.alt_port_num = attr.ah_attr, PORT
        return attr

    def needed(self, to):
        """Names of the attributes that the way from here to there needs."""
        return NEEDED.get((self.at, to), {}).get(self.service, "").split()

    def allowed(self, to):
        """Names of those that it may have."""
        return ALLOWED.get((self.at, to), {}).get(self.service, "").split()

    def go(self, to, *words):
        """A transition, with attributes."""
        self.end.qp.modify(self.attr(to), mask_of(words) | e.IBV_QP_STATE)
        equal(self.end.state(), to, f"{self} -> {NAMES[to]} with {words}: state")
        self.at = to

    def stays(self, to, *words):
        """A transition that is refused, and changes nothing."""
        try:
            refused(lambda: self.end.qp.modify(self.attr(to), mask_of(words) | e.IBV_QP_STATE))
        except AssertionError as error:
            raise AssertionError(f"{self} -> {NAMES[to]} with {words}: {error}") from None
        equal(self.end.state(), self.at, f"{self} -> {NAMES[to]} with {words}, refused: state")

    def travel(self, state):
        """To a state, from whatever there is."""
        self.go(RESET)
        for step in WAYS[state]:
            self.go(step, *self.needed(step))
        if state == SQE:
            self.fail()

    def fail(self):
        """A send fails."""
        self.end.cq.poll(1024)
        request = SendWR(wr_id=1, opcode=SEND, num_sge=1, sg=[SGE(self.end.mr.buf, 8, 0xBAD00)])
        if self.service == UD:
            with UdEnd.handle_for(self.end, os.environ["ADDR"], gid_index(4)) as handle:
                request.set_wr_ud(handle, self.end.qp.qp_num, QKEY)
                self.end.qp.post_send(request)
                status(self.end, e.IBV_WC_LOC_PROT_ERR, "send")
        else:
            self.end.qp.post_send(request)
            status(self.end, e.IBV_WC_LOC_PROT_ERR, "send")
        eventually(lambda: self.end.state() == SQE, "SQE")
        self.at = SQE

    def __str__(self):
        return f"{SERVICES[self.service]}, {NAMES[self.at]}"


def travellers():
    """For each service and each state that it has: a queue pair, and the state."""
    for service in SERVICES:
        traveller = Traveller(service)
        for state in range(7):
            # IBA 10.3.1: a reliable connection has no SQE.
            if (service, state) != (RC, SQE):
                yield traveller, state
        traveller.end.close()


def every_transition():
    """Each state can be left for those that IBA names, and for no other, whatever attributes are given"""
    not_for_rxe("does not take each that there is")
    for traveller, state in travellers():
        for to in range(7):
            traveller.travel(state)
            if to in LEGAL[state]:
                traveller.go(to, *traveller.needed(to))
                continue
            traveller.stays(to)
            # What it needs on the way where it can be had.
            for start, end in NEEDED:
                if end == to:
                    traveller.stays(to, *NEEDED[start, end][traveller.service].split())


def every_attribute():
    """A transition needs each of the attributes that IBA names, takes those it allows, and no other"""
    not_for_rxe("does not take each that there is")
    for traveller, state in travellers():
        for to in LEGAL[state]:
            traveller.travel(state)
            needed, allowed = traveller.needed(to), traveller.allowed(to)
            for word in needed:
                traveller.stays(to, *(other for other in needed if other != word))
            for word in (word for word in ATTRIBUTES if word not in needed and word not in allowed):
                traveller.stays(to, word, *needed)
            for word in allowed:
                traveller.travel(state)
                traveller.go(to, word, *needed)


def current_state():
    """A transition from a state that the queue pair is not in is refused"""
    not_for_rxe("believes what it is told")
    for traveller, state in travellers():
        if state not in (RTR, RTS, SQD, SQE):
            continue
        traveller.travel(state)
        for claimed in range(7):
            if claimed != state:
                traveller.at = claimed
                attr = traveller.attr(RTS)
                traveller.at = state
                mask = mask_of(traveller.needed(RTS) + ["CUR_STATE"]) | e.IBV_QP_STATE
                refused(partial(traveller.end.qp.modify, attr, mask), errno.EINVAL)
                equal(traveller.end.state(), state, f"{traveller}, claimed to be {NAMES[claimed]}")


def told():
    """query_qp tells port and P_Key from INIT on, and an address vector only of who has one; RESET forgets them"""
    not_for_rxe("tells of an address vector that nobody has set")
    for traveller, state in travellers():
        traveller.travel(state)
        attr = traveller.end.qp.query(0xFFFFF)[0]
        equal((attr.qp_state, attr.cur_qp_state), (state, state), str(traveller))
        equal((attr.port_num, attr.pkey_index), (0 if state == RESET else PORT, 0), f"{traveller}: port, P_Key")
        connected = traveller.service != UD and state in (RTR, RTS, SQD, SQE)
        equal(attr.ah_attr.is_global, int(connected), f"{traveller}: is_global")
        equal(attr.ah_attr.port_num, PORT if connected else 0, f"{traveller}: port of the address vector")
        equal(attr.dest_qp_num, traveller.end.qp.qp_num if connected else 0, f"{traveller}: the peer's number")


def changed(end, **settings):
    """Attributes that are changed in RTS; query_qp tells them."""
    attr, mask = QPAttr(qp_state=RTS), e.IBV_QP_STATE
    for name, value in settings.items():
        setattr(attr, name, value)
        mask |= getattr(e, f"IBV_QP_{name.removeprefix('qp_').upper()}")
    end.qp.modify(attr, mask)
    told_now = end.qp.query(mask)[0]
    equal({name: getattr(told_now, name) for name in settings}, settings, "what is told")


def rights_in_rts():
    """RTS: rights are taken and given back, and hold from then on"""
    with rc.pair() as (a, b):
        fill(a, b"new!")
        changed(b, qp_access_flags=e.IBV_ACCESS_REMOTE_READ)
        changed(b, qp_access_flags=FULL_ACCESS)
        a.send(WRITE, pieces=[a.sge(0, 4)], remote=b.remote())
        status(a, OK, "with the right")
        changed(b, qp_access_flags=e.IBV_ACCESS_REMOTE_READ)
        a.send(READ, pieces=[a.sge(100, 4)], remote=b.remote())
        status(a, OK, "the other right")
        fill(a, b"lost")
        a.send(WRITE, pieces=[a.sge(0, 4)], remote=b.remote())
        status(a, e.IBV_WC_REM_INV_REQ_ERR, "without the right")
        equal(held(b, 4), b"new!")


def writes(wire, size):
    """In a process of its own: an end that writes all of its peer's memory again and again, each time something else,
    until it may not; tells with which status."""
    own_context()
    end = End(size=2 * size)
    fill(end, b"\xaa" * size + b"\x55" * size)
    wire.send(end.qp.qp_num)
    peer, remote = wire.recv()
    end.to_rts(peer)
    number, found = 0, OK
    while found == OK:
        end.send(WRITE, pieces=[end.sge(number % 2 * size, size)], remote=remote)
        number, found = number + 1, end.completion(30).status
    wire.send(e_name(found))
    end.close()


def taken_at_work(size):
    """A right is taken from who writes; whether in the middle of a WRITE."""
    wire, theirs = multiprocessing.Pipe()
    writer = multiprocessing.get_context("fork").Process(target=writes, args=(theirs, size), daemon=True)
    writer.start()
    end = End(size=size)
    end.to_rts(wire.recv())
    wire.send((end.qp.qp_num, end.remote()))
    eventually(lambda: held(end, 1, size - 1) != b"\0", "one WRITE is done", 30)
    changed(end, qp_access_flags=e.IBV_ACCESS_REMOTE_READ)
    newest = held(end, 1)

    def boundary():
        return bisect.bisect_left(range(size), True, key=lambda place: held(end, 1, place) != newest)

    written = boundary()
    equal(wire.recv(), "IBV_WC_REM_INV_REQ_ERR", "what is refused")
    equal(boundary(), written, "up to where it has written")
    writer.join()
    equal(writer.exitcode, 0, "exit code of who writes")
    end.close()
    return written < size


def rights_at_work():
    """RTS: a right that is taken is gone when the call returns, also for a WRITE that has begun"""
    not_for_rxe("places what is in its hands")
    eventually(lambda: taken_at_work(32 << 20), "in the middle of one", 30)


def answered_after(code):
    """How long a message takes, in seconds, that finds no receive at first, if `min_rnr_timer` changes to `code`."""
    with rc.pair(min_rnr_timer=12) as (a, b):
        changed(b, min_rnr_timer=code)
        asked = counter("send_rnr_err", DEVICE)
        start = time.monotonic()
        a.send(SEND, pieces=[a.sge(0, 4)])
        eventually(lambda: counter("send_rnr_err", DEVICE) > asked, "no receive")
        b.receive()
        status(a, OK, "send")
        return time.monotonic() - start


def pause_in_rts():
    """RTS: the pause that a receiver asks for is another from then on"""
    # Codes of IBA table 45: 491 ms, and a hundredth of a millisecond.
    true(answered_after(31) >= 0.45, "the long one")
    # A slow machine has other reasons to need long, but not always.
    shortest = min(answered_after(1) for _ in range(5))
    true(shortest < 0.4 * SLOWNESS, f"the short one: {shortest:.3f} s")


def key_in_rts():
    """UD in RTS: what comes with the key of before is dropped, what has the new one is taken"""
    a, b = UdEnd(), UdEnd()
    b.receive(2)
    with a.handle_for(os.environ["ADDR"], gid_index(4)) as handle:
        changed(b, qkey=QKEY + 1)
        equal(a.send(handle, b"old", b.qp.qp_num), OK)
        equal(a.send(handle, b"new", b.qp.qp_num, QKEY + 1), OK)
        b.completion(lambda wc: wc.wr_id == 0)
        equal(b.received(0, GRH + 3)[GRH:], b"new")
        b.silent()
    a.close()
    b.close()


TESTS = [every_transition, every_attribute, current_state, told, rights_in_rts, rights_at_work, pause_in_rts,
         key_in_rts]

if __name__ == "__main__":
    run(TESTS)
