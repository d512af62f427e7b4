# SPDX-License-Identifier: GPL-2.0
"""A process that knows every number of another process's objects gains no access to them.

The numbers are keys, addresses, handles and ring offsets.

	owner, root      opens DEV: PD, regions, windows, CQ, two connected pairs, of RC and of UC, SRQ, AH
	stranger         opens DEV itself: another user, or root without capabilities, or another user in namespace b,
	                 whose queue pairs of PEER_DEV are the requesters of its queue pairs of DEV

A stranger is forked before the owner opens anything, so it holds only the numbers that the owner passes to it. Each
attempt ends with the error that its name gives. Afterwards the owner's bytes are unchanged, and its queue pairs and
keys work.
"""

import ctypes
import errno
import functools
import mmap
import multiprocessing
import os
import struct
import traceback

from pyverbs.addr import AH
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.qp import QPAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, SendWR

import enums as e
import uverbs
import windows
from hostile_hand import device_path
from impostor import by_datagrams, expected_by
from memory import REREG_ACCESS
from rc import (DEVICE, FULL_ACCESS, PAGE, QUICK_TIMEOUT, End, across, async_event, context, forget_events, gid_index,
                pair)
from ring import ABI, Hostile, mappings, with_rings
from tap import equal, not_for_rxe, run, true
from work import OK, READ, SEND, WRITE, fill, held, pattern, status

NOBODY = 65534
OPEN = FULL_ACCESS | e.IBV_ACCESS_REMOTE_ATOMIC | e.IBV_ACCESS_MW_BIND
RIGHTS = FULL_ACCESS | e.IBV_ACCESS_REMOTE_ATOMIC
SECRET = b"nobody else has a right to this. " * 300
ADD, SEND_INV = e.IBV_WR_ATOMIC_FETCH_AND_ADD, e.IBV_WR_SEND_WITH_INV
BIND = 8
RC, UC = e.IBV_QPT_RC, e.IBV_QPT_UC
# A stranger owns fewer objects than this, so no object of its context has the number of one of the owner's.
PADDING = 20
_CAPABILITIES_V3 = 0x20080522
_shared = {}


# ---- the owner -------------------------------------------------------------------------------


class Owner:
    """An object of every kind that a number can name."""

    def __init__(self):
        self.padding = [PD(context()) for _ in range(PADDING)]
        self.pair = pair(b={"access": OPEN}, rights=RIGHTS)
        self.a, self.b = self.pair.__enter__()
        self.unreliable = pair(a={"service": UC}, b={"service": UC})
        for end in (self.a, self.b, *self.unreliable.__enter__()):
            # One receive is always posted, for a message that gets through.
            end.receive(pieces=[end.sge(4096, 500)])
        self.region = MR(self.b.pd, 4 * PAGE, OPEN)
        self.secret = SECRET[:3 * PAGE]
        ctypes.memmove(self.region.buf, self.secret, len(self.secret))
        self.windows = [MW(self.b.pd, kind) for kind in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2)]
        self.keys = [windows.bind(self.b, window, self.region, 0, 4 * PAGE, RIGHTS) for window in self.windows]
        self.srq = SRQ(self.b.pd, SrqInitAttr(SrqAttr(max_wr=64, max_sge=1)))
        self.ah = AH(self.b.pd, attr=self.b.attr(self.a).ah_attr)
        self.last = PD(context())
        true(self.last.handle > PADDING + 10, f"handles grow: {self.last.handle}")
        self.rounds = 0
        self.works()

    def close(self):
        """Closes the objects, users before the objects that they use."""
        for part in (*self.windows, self.ah, self.srq, self.region):
            part.close()
        self.unreliable.__exit__()
        self.pair.__exit__()

    def told(self):
        """Returns every number of the owner's objects."""
        rings = [(offset, end - start) for start, (end, offset) in mappings().items()]
        connected = [(end.qp.qp_num, service) for ends, service in ((self.pair.ends, RC), (self.unreliable.ends, UC))
                     for end in ends]
        return {"address": self.region.buf, "lkey": self.region.lkey, "keys": [self.region.rkey, *self.keys],
                "connected": connected, "gid": self.a.gid(gid_index()),
                "handles": range(self.last.handle + 1), "rings": rings, "entries": self.a.cq.cqe}

    def works(self):
        """Checks that the owner's queue pairs work, and that its keys grant its peer the intended access."""
        a, b, self.rounds = self.a, self.b, self.rounds + 1
        equal((a.state(), b.state()), (e.IBV_QPS_RTS, e.IBV_QPS_RTS), "the owner's queue pairs")
        place = self.region.buf + 3 * PAGE
        for at, key in enumerate((self.region.rkey, *self.keys)):
            data = pattern(500, self.rounds + at)
            fill(a, data)
            b.receive(pieces=[b.sge(4096, 500)])
            a.send(WRITE, pieces=[a.sge(0, 500)], remote=(place, key))
            a.send(READ, pieces=[a.sge(8192, 500)], remote=(place, key))
            a.send(SEND, pieces=[a.sge(0, 500)])
            equal([wc.status for wc in a.completions(3)], [OK] * 3, "the owner's requests")
            status(b, OK, "the owner's receive")
            equal((held(a, 500, 8192), held(b, 500, 4096)), (data, data), "bytes between the owner's ends")
        for this, other in (self.unreliable.ends, self.unreliable.ends[::-1]):
            data = pattern(500, self.rounds + this.qp.qp_num)
            fill(this, data)
            other.receive(pieces=[other.sge(4096, 500)])
            this.send(SEND, pieces=[this.sge(0, 500)])
            status(this, OK, "an unreliable send of the owner")
            status(other, OK, "its receive")
            equal(held(other, 500, 4096), data, "bytes between the owner's unreliable ends")

    def unharmed(self):
        """Checks that the owner's bytes are unchanged, and that its objects work."""
        equal(ctypes.string_at(self.region.buf, len(self.secret)), self.secret, "the owner's bytes")
        for end in (*self.pair.ends, *self.unreliable.ends):
            end.silent(0.01)
        equal(async_event(0), None, "an event for the owner")
        self.works()


# ---- strangers -------------------------------------------------------------------------------


class Stranger:
    """A child process that runs the attempts sent to it."""

    def __init__(self, become):
        self.wire, theirs = multiprocessing.Pipe()
        self.child = os.fork()
        if self.child:
            theirs.close()
            return
        try:
            become()
            _live(theirs)
            os._exit(0)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# stranger: {error!r}", flush=True)
            os._exit(1)

    def tries(self, attempt, told):
        """Runs an attempt in the stranger, and raises if it fails there."""
        self.wire.send((attempt, told))
        failure = self.wire.recv()
        true(failure is None, failure)

    def end(self):
        """Ends the stranger."""
        self.wire.send(None)
        equal(os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1]), 0, "the stranger's exit code")


def _live(wire):
    """Runs attempts until the pipe sends None."""
    while order := wire.recv():
        attempt, told = order
        try:
            attempt(told)
            wire.send(None)
        except Exception:  # pylint: disable=broad-except
            wire.send(traceback.format_exc(limit=-3))


def _without_capabilities():
    """Drops all capabilities."""
    head, none = struct.pack("=Ii", _CAPABILITIES_V3, 0), bytes(24)
    equal(uverbs.libc.capset(head, none), 0, "capset")
    with open("/proc/self/status", encoding="ascii") as lines:
        equal([line.split()[1] for line in lines if line.startswith(("CapEff", "CapPrm"))], ["0" * 16] * 2)


def powerless():
    """root without capabilities"""
    _without_capabilities()


def nobody():
    """another user"""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    _without_capabilities()


def elsewhere():
    """another user in another namespace"""
    _shared["elsewhere"] = True
    namespace = os.open("/run/netns/b", os.O_RDONLY)
    os.setns(namespace, os.CLONE_NEWNET)
    os.close(namespace)
    nobody()


def ends(**settings):
    """Returns two connected ends of the stranger: the first, of the owner's device, responds; the second requests."""
    settings = {"rights": RIGHTS, **settings}
    if not _shared.get("elsewhere"):
        return pair(**settings)
    if "peer" not in _shared:
        _shared["peer"] = Context(name=os.environ["PEER_DEV"])
    return across(contexts=(context(), _shared["peer"]), **settings)


# ---- what it tries ---------------------------------------------------------------------------


def by_remote_key(told):
    """the owner's remote keys from the peer of its own queue pair: remote access error"""
    for key in told["keys"]:
        for opcode in (WRITE, READ, ADD):
            with ends() as (_, asking):
                fill(asking, before := pattern(64, 5))
                request = asking.request(opcode, pieces=[asking.sge(0, 8 if opcode == ADD else 64)],
                                         remote=(told["address"], key))
                if opcode == ADD:
                    request.set_wr_atomic(key, told["address"], 1)
                asking.qp.post_send(request)
                status(asking, e.IBV_WC_REM_ACCESS_ERR, f"opcode {opcode}")
                equal(held(asking, 64), before, "bytes at the requester")


def by_local_key(told):
    """the owner's local key, in requests and a receive: local protection error"""
    for opcode in (SEND, WRITE, READ):
        with ends() as (answering, asking):
            answering.receive()
            asking.send(opcode, pieces=[SGE(told["address"], 64, told["lkey"])], remote=answering.remote())
            status(asking, e.IBV_WC_LOC_PROT_ERR, f"opcode {opcode}")
            equal(held(answering, 64), bytes(64), "bytes at the responder")
    with ends() as (answering, asking):
        answering.receive(pieces=[SGE(told["address"], 64, told["lkey"])])
        asking.send(SEND, pieces=[asking.sge(0, 64)])
        status(answering, e.IBV_WC_LOC_PROT_ERR, "receive")
        status(asking, e.IBV_WC_REM_OP_ERR, "send")


def by_windows(told):
    """to bind a window to the owner's region, and to bind the owner's windows: bind error"""
    end = Hostile(access=OPEN)
    for kind in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2):
        window = MW(end.pd, kind)
        usual = {"remote": told["address"], "mw_length": PAGE, "mr_lkey": told["lkey"], "mw_rkey": window.rkey,
                 "mw_key": window.rkey ^ 1, "mw_access": RIGHTS}
        own = {"remote": end.mr.buf, "mr_lkey": end.mr.lkey}
        for fields in ({}, *({**own, "mw_rkey": key, "mw_key": key ^ 1} for key in told["keys"])):
            end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
            end.to_rts(end, rights=RIGHTS)
            end.post(pieces=[], opcode=BIND, **{**usual, **fields})
            status(end, e.IBV_WC_MW_BIND_ERR, f"type {kind}, {fields}")
        window.close()
    end.close()


def to_invalidate(told):
    """to invalidate the owner's keys, locally and from a peer: the request fails"""
    for key in told["keys"]:
        with ends() as (answering, asking):
            answering.receive()
            request = SendWR(wr_id=8, opcode=SEND_INV, num_sge=1, sg=[asking.sge(0, 8)])
            request.imm_data = key
            asking.qp.post_send(request)
            status(asking, e.IBV_WC_REM_ACCESS_ERR, "the send")
            status(answering, e.IBV_WC_REM_INV_REQ_ERR, "the receive")
        with ends() as (_, asking):
            windows.invalidate(asking, key, e.IBV_WC_LOC_QP_OP_ERR)


def by_forged_keys(told):
    """keys near its own and near the owner's: remote access error"""
    with ends() as (answering, asking):
        own = answering.mr.rkey
        keys = {own ^ 1 << bit for bit in range(32)} | {own + (step << 8) & 0xFFFFFFFF for step in range(-8, 9)}
        keys |= {key ^ low for key in told["keys"] for low in (1, 2, 0x80)}
        fill(asking, before := pattern(8, 3))
        for key in keys - {own, asking.mr.rkey}:
            for opcode in (WRITE, READ):
                asking.send(opcode, pieces=[asking.sge(0, 8)], remote=(answering.mr.buf, key))
                status(asking, e.IBV_WC_REM_ACCESS_ERR, f"key {key:#x} near {own:#x}")
                again(answering, asking)
        equal(held(asking, 8), before, "bytes at the requester")
        equal(held(answering, answering.mr.length), bytes(answering.mr.length), "bytes at the responder")
        asking.send(READ, pieces=[asking.sge(0, 8)], remote=answering.remote())
        status(asking, OK, "its own key")


def again(answering, asking):
    """Resets both ends and connects them again with the same settings."""
    settings = {"rights": RIGHTS}
    for end, peer, names in ((answering, asking, ("GID4", "PEER_GID4")), (asking, answering, ("PEER_GID4", "GID4"))):
        end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
        if _shared.get("elsewhere"):
            own, other = (int(os.environ[name]) for name in names)
            settings.update(gid=own, dgid=peer.gid(other))
        end.to_rts(peer.qp.qp_num, **settings)


def _refused(command, number, code, memory):
    """Checks that a command that names an object by a number fails with an error."""
    kinds = uverbs.LAYOUTS[command][1]
    few = {uverbs.REREG_MR: REREG_ACCESS, uverbs.EX_MODIFY_CQ: 1}.get(command, 0)
    usual = {"answer": ctypes.addressof(memory), "one": 1, "count": 1, "element": 128, "few": few, "kind": 2}
    usual |= dict.fromkeys(uverbs.DESTROY, number) | dict.fromkeys(("group", "gid", "noise", "padding"), b"")
    wish = uverbs.command(command, usual["answer"], *(usual.get(kind, 0) for kind in kinds if kind != "answer"))
    found = uverbs.issue(context().cmd_fd, wish)
    equal(errno.errorcode.get(found, found), errno.errorcode[code], f"command {command:#x} with handle {number}")


def by_handles(told):
    """the owner's handles in each command: ENOENT, or EINVAL where the stranger owns that number"""
    memory = ctypes.create_string_buffer(PAGE)
    naming = {command: set(kinds) & set(uverbs.DESTROY) for command, (_, kinds, _) in uverbs.LAYOUTS.items()}
    # The driver or the core rejects these commands before any lookup.
    beyond = {uverbs.POLL_CQ, uverbs.POST_RECV, uverbs.POST_SRQ_RECV, uverbs.CREATE_XSRQ, uverbs.OPEN_QP,
              uverbs.EX_CREATE_FLOW, uverbs.EX_CREATE_WQ}
    naming = {command: kinds for command, kinds in naming.items() if kinds and command not in beyond}
    true(len(naming) > 20, f"only {len(naming)} commands")
    for number in told["handles"]:
        for command in naming:
            _refused(command, number, errno.ENOENT, memory)
        for kind, (method, size) in uverbs.DESTROYING.items():
            attributes = uverbs.required([(0, 0, number), (1, size, ctypes.addressof(memory))][:2 if size else 1])
            found = uverbs.ioctl(context().cmd_fd, uverbs.OBJECTS[kind], method, attributes)
            equal(errno.errorcode.get(found, found), "ENOENT", f"to destroy {kind} {number}")
    # The same numbers, as protection domains of the stranger.
    domains = [PD(context()) for _ in told["handles"]]
    equal([domain.handle for domain in domains], list(told["handles"]), "handles of its own")
    for number in told["handles"]:
        for command in (command for command, kinds in naming.items() if "pd" not in kinds):
            _refused(command, number, errno.EINVAL, memory)
    for domain in domains:
        domain.close()


def by_offsets(told):
    """offsets of the owner's rings: EINVAL, or the stranger's own ring at that offset"""
    true(len(told["rings"]) >= 6, f"rings {told['rings']}")
    for offset, length in told["rings"]:
        try:
            mmap.mmap(context().cmd_fd, length, flags=mmap.MAP_SHARED, offset=offset).close()
        except OSError as error:
            equal(errno.errorcode[error.errno], "EINVAL", f"offset {offset:#x}")
        else:
            raise AssertionError(f"offset {offset:#x} was mapped")
    queue, (ring,) = with_rings(lambda: CQ(context(), told["entries"], None, None, 0))
    true(ring.offset in [offset for offset, _ in told["rings"]], "offsets of a context are its own, and begin alike")
    equal(ABI.next_completion(ring), 0, "completions in an unused queue of its own")
    queue.close()


def by_connection(told):
    """to impersonate the peers of the owner's queue pairs with the PSN that they expect: the packets are dropped"""
    there = _shared.get("elsewhere")
    if there and "peer" not in _shared:
        _shared["peer"] = Context(name=os.environ["PEER_DEV"])
    way = {"gid": int(os.environ["PEER_GID4"])} if there else {}
    for number, service in told["connected"]:
        for opcode, remote in ((SEND, None), (WRITE, (told["address"], told["keys"][0] ^ 0x55))):
            asking = End(ctx=_shared.get("peer"), service=service)
            asking.to_rts(number, dgid=told["gid"], sq_psn=expected_by(number), timeout=QUICK_TIMEOUT, retry_cnt=1,
                          **way)
            fill(asking, pattern(64, 9))
            asking.send(opcode, pieces=[asking.sge(0, 64)], remote=remote)
            wanted = e.IBV_WC_RETRY_EXC_ERR if service == RC else OK
            status(asking, wanted, f"opcode {opcode} to queue pair {number}")
            asking.close()


ATTEMPTS = [by_offsets, by_handles, by_remote_key, by_local_key, by_windows, to_invalidate, by_forged_keys,
            by_connection, by_datagrams]
NOT_FOR_RXE = {by_offsets: "all contexts share their offsets", by_handles: "has fewer commands",
               by_local_key: "flushes the request", by_windows: "trusts data written by user space",
               to_invalidate: "acknowledges it", by_connection: "takes packets from every queue pair there",
               by_datagrams: "takes packets from every socket"}
KINDS = [nobody, powerless, elsewhere]


def attempt_of(stranger, kind, owner, attempt):
    """Returns a test: the stranger makes the attempt, and the owner is unharmed."""
    def test():
        if attempt in NOT_FOR_RXE:
            not_for_rxe(NOT_FOR_RXE[attempt])
        stranger.tries(attempt, owner.told())
        owner.unharmed()
    test.__doc__ = f"{kind.__doc__.capitalize()} tries {attempt.__doc__}"
    return functools.update_wrapper(test, attempt, assigned=("__name__",))


def main():
    """Starts the strangers before the owner opens anything."""
    for variable in ("DEV", "PEER_DEV"):
        os.chmod(device_path(os.environ[variable]), 0o666)
    strangers = [(Stranger(kind), kind) for kind in KINDS]
    forget_events()
    owner = Owner()
    tests = [attempt_of(stranger, kind, owner, attempt) for stranger, kind in strangers for attempt in ATTEMPTS]

    def at_last():
        """The strangers end, and all of the owner's objects work"""
        for stranger, _ in strangers:
            stranger.end()
        owner.unharmed()

    try:
        run(tests, [at_last])
    finally:
        owner.close()


if __name__ == "__main__":
    main()
