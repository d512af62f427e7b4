# SPDX-License-Identifier: GPL-2.0
"""All pairs of queue pair states: which transitions exist, which attributes they require or allow, and that all
others are refused. IBA 10.3.1, table "QP state transition properties", for RC, UC and UD.

Also tests attribute changes in RTS, and the attributes that query_qp returns before they are set.
"""

import bisect
import errno
import multiprocessing
import os
import time
from functools import partial

from pyverbs.qp import QPAttr
from pyverbs.wr import SendWR, SGE

import enums as e
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
# The next states that are legal in each state.
LEGAL = {RESET: (RESET, INIT), INIT: (RESET, INIT, RTR, ERR), RTR: (RESET, RTS, ERR), RTS: (RESET, RTS, SQD, ERR),
         SQD: (RESET, RTS, SQD, ERR), SQE: (RESET, RTS, ERR), ERR: (RESET, ERR)}
# Every attribute that a mask can name, without IBV_QP_.
ATTRIBUTES = ("CUR_STATE", "EN_SQD_ASYNC_NOTIFY", "ACCESS_FLAGS", "PKEY_INDEX", "PORT", "QKEY", "AV", "PATH_MTU",
              "TIMEOUT", "RETRY_CNT", "RNR_RETRY", "RQ_PSN", "MAX_QP_RD_ATOMIC", "ALT_PATH", "MIN_RNR_TIMER",
              "SQ_PSN", "MAX_DEST_RD_ATOMIC", "PATH_MIG_STATE", "CAP", "DEST_QPN")
# Attributes that a transition requires; others require none.
NEEDED = {
    (RESET, INIT): {RC: "PKEY_INDEX PORT ACCESS_FLAGS", UC: "PKEY_INDEX PORT ACCESS_FLAGS", UD: "PKEY_INDEX PORT QKEY"},
    (INIT, RTR): {RC: "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER", UC: "AV PATH_MTU DEST_QPN RQ_PSN",
                  UD: ""},
    (RTR, RTS): {RC: "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC", UC: "SQ_PSN", UD: "SQ_PSN"},
}
# Further attributes that a transition allows. Alternate paths are left out: no QP here has one.
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
# The states on the way from RESET to each state.
WAYS = {RESET: (), INIT: (INIT,), RTR: (INIT, RTR), RTS: (INIT, RTR, RTS), SQD: (INIT, RTR, RTS, SQD),
        SQE: (INIT, RTR, RTS), ERR: (INIT, ERR)}


def mask_of(words):
    """Returns attribute names as a mask."""
    return sum(getattr(e, f"IBV_QP_{word}") for word in words)


class Traveller:
    """A QP that moves from state to state. It is its own peer."""

    def __init__(self, service):
        self.service = service
        self.end = End(service=service, cqe=1024)
        self.at = RESET

    def attr(self, to):
        """Returns valid values of every attribute."""
        attr = self.end.attr(self.end)
        attr.qp_state, attr.cur_qp_state, attr.qkey = to, self.at, QKEY
        attr.alt_ah_attr, attr.alt_port_num = attr.ah_attr, PORT
        return attr

    def needed(self, to):
        """Returns the names of the attributes that the transition to a state requires."""
        return NEEDED.get((self.at, to), {}).get(self.service, "").split()

    def allowed(self, to):
        """Returns the names of the attributes that the transition also allows."""
        return ALLOWED.get((self.at, to), {}).get(self.service, "").split()

    def go(self, to, *words):
        """Makes a transition, with attributes."""
        self.end.qp.modify(self.attr(to), mask_of(words) | e.IBV_QP_STATE)
        equal(self.end.state(), to, f"{self} -> {NAMES[to]} with {words}: state")
        self.at = to

    def stays(self, to, *words):
        """Attempts a transition that must be refused and change nothing."""
        try:
            refused(lambda: self.end.qp.modify(self.attr(to), mask_of(words) | e.IBV_QP_STATE))
        except AssertionError as error:
            raise AssertionError(f"{self} -> {NAMES[to]} with {words}: {error}") from None
        equal(self.end.state(), self.at, f"{self} -> {NAMES[to]} with {words}, refused: state")

    def travel(self, state):
        """Moves to a state, from any other."""
        self.go(RESET)
        for step in WAYS[state]:
            self.go(step, *self.needed(step))
        if state == SQE:
            self.fail()

    def fail(self):
        """Makes a send fail, which leads to SQE."""
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
    """Yields a QP and a state, for each service and each of its states."""
    for service in SERVICES:
        traveller = Traveller(service)
        for state in range(7):
            # IBA 10.3.1: RC has no SQE state.
            if (service, state) != (RC, SQE):
                yield traveller, state
        traveller.end.close()


def every_transition():
    """Each state has exactly the transitions that IBA names, with any attributes"""
    not_for_rxe("does not accept every legal transition")
    for traveller, state in travellers():
        for to in range(7):
            traveller.travel(state)
            if to in LEGAL[state]:
                traveller.go(to, *traveller.needed(to))
                continue
            traveller.stays(to)
            # The attributes that a legal transition to that state requires.
            for start, end in NEEDED:
                if end == to:
                    traveller.stays(to, *NEEDED[start, end][traveller.service].split())


def every_attribute():
    """A transition requires each attribute that IBA requires, accepts those it allows, and refuses all others"""
    not_for_rxe("does not accept every legal transition")
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
    """A transition with a wrong current state is refused"""
    not_for_rxe("does not check it")
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
    """query_qp returns port and P_Key from INIT on, and an address vector only of a connected QP; RESET clears them"""
    not_for_rxe("returns an address vector that was not set")
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
    """Changes attributes in RTS; query_qp returns the new values."""
    attr, mask = QPAttr(qp_state=RTS), e.IBV_QP_STATE
    for name, value in settings.items():
        setattr(attr, name, value)
        mask |= getattr(e, f"IBV_QP_{name.removeprefix('qp_').upper()}")
    end.qp.modify(attr, mask)
    told_now = end.qp.query(mask)[0]
    equal({name: getattr(told_now, name) for name in settings}, settings, "the reported values")


def rights_in_rts():
    """RTS: rights are taken away and granted again, with immediate effect"""
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
    """Body of a child process: an end that repeatedly writes all of its peer's memory, with alternating bytes, until
    it is refused; sends the status.
    """
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
    """Takes the right away from the writer; returns whether that interrupted a WRITE."""
    wire, theirs = multiprocessing.Pipe()
    writer = multiprocessing.get_context("fork").Process(target=writes, args=(theirs, size), daemon=True)
    writer.start()
    end = End(size=size)
    end.to_rts(wire.recv())
    wire.send((end.qp.qp_num, end.remote()))
    eventually(lambda: held(end, 1, size - 1) != b"\0", "one WRITE is complete", 30)
    changed(end, qp_access_flags=e.IBV_ACCESS_REMOTE_READ)
    newest = held(end, 1)

    def boundary():
        return bisect.bisect_left(range(size), True, key=lambda place: held(end, 1, place) != newest)

    written = boundary()
    equal(wire.recv(), "IBV_WC_REM_INV_REQ_ERR", "status of the refused WRITE")
    equal(boundary(), written, "the end of the bytes written")
    writer.join()
    equal(writer.exitcode, 0, "exit code of the writer")
    end.close()
    return written < size


def rights_at_work():
    """RTS: a right that is taken away is gone when the call returns, also for a WRITE in progress"""
    not_for_rxe("still places packets in progress")
    eventually(lambda: taken_at_work(32 << 20), "in the middle of a WRITE", 30)


def answered_after(code):
    """Returns the seconds that a message without a receive takes if `min_rnr_timer` changes to `code`."""
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
    """RTS: a changed min_rnr_timer takes effect"""
    # Codes of IBA table 45: 491 ms, and 0.01 ms.
    true(answered_after(31) >= 0.45, "the long pause")
    # A slow machine may be late for other reasons, but not always.
    shortest = min(answered_after(1) for _ in range(5))
    true(shortest < 0.4 * SLOWNESS, f"the short pause: {shortest:.3f} s")


def key_in_rts():
    """UD in RTS: datagrams with the old Q_Key are dropped, and those with the new one are received"""
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
