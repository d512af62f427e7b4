# SPDX-License-Identifier: GPL-2.0
"""Memory windows: valid binds, the access that a peer gets through them, and their end.

`b` owns memory and binds windows to it; its peer `a` accesses memory through them. Rules are cited by their number in
the InfiniBand Architecture, volume 1. rdma_rxe checks accesses through a window against the bounds of its region
only.
"""

import ctypes
import errno
import os
import struct

from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.wr import SendWR

import enums as e
from rc import FULL_ACCESS, PAGE, End, async_event, context, forget_events, own_context, pair
from tap import Skip, equal, not_for_rxe, run, true
from work import OK, READ, RXE, WRITE, fill, status

BINDABLE = FULL_ACCESS | e.IBV_ACCESS_MW_BIND
REMOTE = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
# A send queue with FLUSHes and plain requests.
FLUSHING = e.IBV_QP_EX_WITH_FLUSH | e.IBV_QP_EX_WITH_RDMA_WRITE
ZERO_BASED = e.IBV_ACCESS_ZERO_BASED
REFUSED = e.IBV_WC_REM_ACCESS_ERR
BIND_ERROR = e.IBV_WC_MW_BIND_ERR
WRONG = e.IBV_WC_LOC_QP_OP_ERR
ONE, TWO = e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2
IB_USER_VERBS_CMD_DEREG_MR = 13
DATA = bytes(range(1, 65))


class bound:  # pylint: disable=invalid-name
    """`with bound(type) as (a, b, region, window)`: a pair, a region of four zeroed pages, and a window."""

    def __init__(self, kind, rights=BINDABLE, ends=None):
        self.kind, self.rights, self.ends = kind, rights, ends or {}

    def __enter__(self):
        forget_events()
        self.pair = pair(**self.ends)
        a, b = self.pair.__enter__()
        self.region = MR(b.pd, 4 * PAGE, self.rights)
        ctypes.memset(self.region.buf, 0, self.region.length)
        self.window = MW(b.pd, self.kind)
        fill(a, DATA)
        return a, b, self.region, self.window

    def __exit__(self, *_):
        self.window.close()
        self.region.close()
        self.pair.__exit__()


def bind(end, window, region, offset, length, rights=REMOTE, wanted=OK, by_library=True):
    """Binds a window to a part of a region; returns its new key.

    The library has a separate call for type 1, which refuses some mistakes itself; a work request can be posted
    instead.
    """
    info = MWBindInfo(region, region.buf + offset, length, rights)
    if window.type == ONE and by_library:
        end.qp.bind_mw(window, MWBind(info, e.IBV_SEND_SIGNALED))
        key = None
    else:
        request = SendWR(wr_id=5, opcode=e.IBV_WR_BIND_MW)
        request.set_bind_wr(window, info)
        end.qp.post_send(request)
        key = request.rkey
    found = status(end, wanted, "the bind")
    if wanted == OK:
        equal(found.opcode, e.IBV_WC_BIND_MW, "opcode")
    return window.rkey if key is None else key


def through(a, key, address, length=64, opcode=WRITE, wanted=OK):
    """Runs one operation of `a` with the key of a window."""
    a.send(opcode, pieces=[a.sge(0, length)], remote=(address % 2**64, key))
    status(a, wanted, "through the window")
    if wanted == REFUSED:
        equal(async_event(), e.IBV_EVENT_QP_ACCESS_ERR, "asynchronous event")


def content(region, offset, length=64):
    """Returns bytes of a region."""
    return ctypes.string_at(region.buf + offset, length)


def untouched(region):
    """Checks that a region is all zeros."""
    equal(content(region, 0, region.length), bytes(region.length), "nothing was written")


def invalidate(end, key, wanted=OK):
    """Posts a LOCAL_INV."""
    request = SendWR(wr_id=6, opcode=e.IBV_WR_LOCAL_INV)
    request.imm_data = key
    end.qp.post_send(request)
    status(end, wanted, "the invalidation")


def objects():
    """Windows of both types are allocated and freed, each with its own key"""
    with PD(context()) as domain:
        windows = [MW(domain, kind) for kind in (ONE, TWO) for _ in range(100)]
        equal(len({window.rkey for window in windows}), 200, "distinct keys")
        for window in windows:
            window.close()


def unbound():
    """An unbound window gives no access"""
    for kind in (ONE, TWO):
        with bound(kind) as (a, _, region, window):
            through(a, window.rkey, region.buf, wanted=REFUSED)
            untouched(region)


def inside():
    """A peer writes and reads up to the bounds of a window"""
    for kind in (ONE, TWO):
        with bound(kind) as (a, b, region, window):
            key = bind(b, window, region, 100, 1000)
            through(a, key, region.buf + 100)
            through(a, key, region.buf + 100 + 1000 - 64)
            equal(content(region, 100), DATA)
            equal(content(region, 1036), DATA)
            fill(a, bytes(64))
            through(a, key, region.buf + 1036, opcode=READ)
            equal(bytes(ctypes.string_at(a.mr.buf, 64)), DATA)


def outside():
    """An access one byte outside a window is refused, even within its region"""
    not_for_rxe("checks the bounds of the region only")
    for kind in (ONE, TWO):
        for opcode in (WRITE, READ):
            for offset in (99, 100 + 1000 - 63, 2000):
                with bound(kind) as (a, b, region, window):
                    key = bind(b, window, region, 100, 1000)
                    through(a, key, region.buf + offset, opcode=opcode, wanted=REFUSED)
                    untouched(region)


def rights():
    """A window grants the rights of its bind, independently of the region's remote rights"""
    for kind in (ONE, TWO):
        for given, refused in ((e.IBV_ACCESS_REMOTE_READ, WRITE), (e.IBV_ACCESS_REMOTE_WRITE, READ), (0, WRITE)):
            with bound(kind) as (a, b, region, window):
                key = bind(b, window, region, 0, 1000, given)
                through(a, key, region.buf, opcode=refused, wanted=REFUSED)
                untouched(region)
        with bound(kind, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_MW_BIND) as (a, b, region, window):
            through(a, bind(b, window, region, 0, 64), region.buf)
            equal(content(region, 0), DATA)


def zero_based():
    """A zero-based window of type 2 is addressed from its start; a type 1 window cannot be zero-based (o10-36.2.2)"""
    with bound(TWO) as (a, b, region, window):
        key = bind(b, window, region, 200, 128, REMOTE | ZERO_BASED)
        through(a, key, 0)
        through(a, key, 64)
        equal(content(region, 200, 128), DATA + DATA)
        not_for_rxe("checks the bounds of the region only")
        through(a, key, 65, wanted=REFUSED)
        equal(content(region, 328), bytes(64))
    with bound(ONE) as (_, b, region, window):
        bind(b, window, region, 0, 64, REMOTE | ZERO_BASED, BIND_ERROR, by_library=False)


def wrong_binds():
    """An invalid bind fails: C10-72 to C10-75, o10-37.2.40"""
    for kind in (ONE, TWO):
        def fails(region_rights=BINDABLE, offset=0, length=64, given=REMOTE, kind=kind):
            with bound(kind, region_rights) as (_, b, region, window):
                bind(b, window, region, offset, length, given, BIND_ERROR)
                equal(b.state(), e.IBV_QPS_ERR, "state of the queue pair")
        fails(region_rights=FULL_ACCESS)
        fails(region_rights=e.IBV_ACCESS_MW_BIND | e.IBV_ACCESS_REMOTE_READ, given=e.IBV_ACCESS_REMOTE_WRITE)
        fails(offset=4 * PAGE - 63)
        fails(offset=-1)
        fails(length=4 * PAGE + 1)
        fails(length=2**64 - 1)
        fails(given=REMOTE | 1 << 10)
    with bound(TWO) as (_, b, region, window):
        bind(b, window, region, 0, 0, wanted=BIND_ERROR)


def foreign_domain():
    """A bind fails unless QP, window and region share a domain (C10-72)"""
    for kind in (ONE, TWO):
        with bound(kind) as (_, b, _region, window), PD(context()) as other, MR(other, PAGE, BINDABLE) as theirs:
            bind(b, window, theirs, 0, 64, wanted=BIND_ERROR, by_library=False)
        with bound(kind) as (a, b, region, _), MW(a.pd, kind) as theirs:
            bind(b, theirs, region, 0, 64, wanted=BIND_ERROR, by_library=False)


def rebind():
    """A rebind of a type 1 window changes its key and place; a bind of length zero unbinds it"""
    with bound(ONE) as (a, b, region, window):
        first = bind(b, window, region, 0, 64)
        second = bind(b, window, region, PAGE, 64)
        true(first != second, "the key changes")
        through(a, second, region.buf + PAGE)
        equal(content(region, PAGE), DATA)
        through(a, first, region.buf, wanted=REFUSED)
        equal(content(region, 0), bytes(64))
    with bound(ONE) as (a, b, region, window):
        bind(b, window, region, 0, 64)
        through(a, bind(b, window, region, 0, 0, 0), region.buf, wanted=REFUSED)
        untouched(region)


def wide_rights():
    """Rights that concern a region's memory, and optional ones, are ignored by a bind"""
    for kind in (ONE, TWO):
        for extra in (e.IBV_ACCESS_ON_DEMAND, e.IBV_ACCESS_HUGETLB, e.IBV_ACCESS_RELAXED_ORDERING, 1 << 29):
            if extra == e.IBV_ACCESS_HUGETLB and RXE:
                continue
            with bound(kind) as (a, b, region, window):
                through(a, bind(b, window, region, 0, 64, REMOTE | extra, by_library=False), region.buf)
                equal(content(region, 0), DATA)


def flushed():
    """A FLUSH through a window needs the window's right, and stays within the window"""
    rights, place = e.IBV_ACCESS_FLUSH_GLOBAL, (e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_RANGE)
    whole = (e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_MR)
    for kind in (ONE, TWO):
        for granted, offset, how, wanted in ((rights, 0, place, OK), (rights, 0, whole, OK), (0, 0, place, REFUSED),
                                             (0, 0, whole, REFUSED), (rights, 64, place, REFUSED)):
            if offset and RXE:
                continue
            with bound(kind, BINDABLE | rights, {"a": {"ops": FLUSHING}, "rights": FULL_ACCESS | rights}) as (
                    a, b, region, window):
                key = bind(b, window, region, 0, 64, REMOTE | granted, by_library=False)
                a.order("flush", key, region.buf + offset, 64, *how)
                status(a, wanted, "the flush")
                if wanted == REFUSED:
                    equal(async_event(), e.IBV_EVENT_QP_ACCESS_ERR, "asynchronous event")


def bind_twice():
    """A bound type 2 window cannot be bound again before it is invalidated (o10-37.2.30)"""
    with bound(TWO) as (_, b, region, window):
        bind(b, window, region, 0, 64)
        bind(b, window, region, 0, 64, wanted=BIND_ERROR)


def invalidation():
    """LOCAL_INV ends a binding of type 2, and later accesses are refused"""
    with bound(TWO) as (a, b, region, window):
        key = bind(b, window, region, 0, 64)
        through(a, key, region.buf)
        ctypes.memset(region.buf, 0, 64)
        invalidate(b, key)
        through(a, key, region.buf, wanted=REFUSED)
        untouched(region)


def remote_invalidation():
    """A peer's SEND_WITH_INV ends a binding and sets IBV_WC_WITH_INV in the completion"""
    with bound(TWO) as (a, b, region, window):
        key = bind(b, window, region, 0, 64)
        b.receive(wr_id=9)
        request = SendWR(wr_id=8, opcode=e.IBV_WR_SEND_WITH_INV, num_sge=1, sg=[a.sge(0, 8)])
        request.imm_data = key
        a.qp.post_send(request)
        status(a, OK, "the send")
        got = status(b, OK, "the receive")
        true(got.wc_flags & e.IBV_WC_WITH_INV, "IBV_WC_WITH_INV")
        through(a, key, region.buf, wanted=REFUSED)
        untouched(region)


def wrong_invalidation():
    """LOCAL_INV fails for a user-space region, a type 1 window and an unknown key"""
    with bound(ONE) as (_, b, region, window):
        key = bind(b, window, region, 0, 64)
        invalidate(b, key, WRONG)
    for pick in (lambda region, window: region.rkey, lambda region, window: window.rkey ^ 0x55):
        with bound(TWO) as (_, b, region, window):
            invalidate(b, pick(region, window), WRONG)


def other_queue_pair():
    """A type 2 window serves only the peer of the QP that bound it; a type 1 window serves its whole domain"""
    for kind, wanted in ((ONE, OK), (TWO, REFUSED)):
        with bound(kind) as (_, b, region, window):
            key = bind(b, window, region, 0, 64)
            second, peer = second_pair(b)
            fill(peer, DATA)
            through(peer, key, region.buf, wanted=wanted)
            equal(content(region, 0), DATA if wanted == OK else bytes(64))
            peer.close()
            second.close()


def heirless():
    """A type 2 window whose QP was destroyed gives no access, and can be freed"""
    not_for_rxe("a window keeps its queue pair")
    forget_events()
    with PD(context()) as domain, MR(domain, PAGE, BINDABLE) as region, MW(domain, TWO) as window:
        ctypes.memset(region.buf, 0, PAGE)
        for _ in range(2):
            peer, end = End(), End(pd=domain)
            end.to_rts(peer)
            key = bind(end, window, region, 0, 64)
            end.close()
            heir = End(pd=domain)
            peer.to_rts(heir)
            heir.to_rts(peer)
            fill(peer, DATA)
            through(peer, key, region.buf, wanted=REFUSED)
            untouched(region)
            for one in (peer, heir):
                one.close()
            window.close()
            window = MW(domain, TWO)
        window.close()


def second_pair(end):
    """Returns another QP of the end's domain, and its peer."""
    peer, second = End(), End(pd=end.pd)
    peer.to_rts(second)
    second.to_rts(peer)
    return second, peer


def region_stays():
    """A region cannot be deregistered while a window is bound to it"""
    for kind in (ONE, TWO):
        with bound(kind) as (a, b, region, window):
            extra = MW(b.pd, kind)
            key = bind(b, extra, region, 0, 64)
            try:
                dereg(region)
            except OSError as error:
                equal(errno.errorcode[error.errno], "EBUSY")
            else:
                raise AssertionError("the region was deregistered")
            through(a, key, region.buf)
            extra.close()


def dereg(region):
    """Issues dereg_mr directly: pyverbs forgets the region even if the command fails."""
    os.write(context().cmd_fd, struct.pack("=IHHI", IB_USER_VERBS_CMD_DEREG_MR, 3, 0, region.handle))


def gone():
    """A freed window gives no access"""
    for kind in (ONE, TWO):
        with bound(kind) as (a, b, region, _):
            window = MW(b.pd, kind)
            key = bind(b, window, region, 0, 64)
            window.close()
            through(a, key, region.buf, wanted=REFUSED)
            untouched(region)


def local_use():
    """The key of a window is not valid as a local key"""
    with bound(ONE) as (a, b, region, window):
        key = bind(b, window, region, 0, 64)
        piece = b.sge(0, 64)
        piece.lkey, piece.addr = key, region.buf
        b.send(WRITE, pieces=[piece], remote=a.remote())
        status(b, e.IBV_WC_LOC_PROT_ERR, "the write")


def exit_with_windows():
    """A process that ends with bound windows leaves no objects behind"""
    child = os.fork()
    if not child:
        try:
            own_context()
            keep = []
            for kind in (ONE, TWO):
                made = bound(kind)
                a, b, region, window = made.__enter__()
                bind(b, window, region, 0, 64)
                keep.append((made, a))
            os._exit(0)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# {error!r}", flush=True)
            os._exit(1)
    equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "exit code of the child")


TESTS = [
    objects, unbound, inside, outside, rights, zero_based, wrong_binds, foreign_domain, wide_rights, flushed, rebind,
    bind_twice, invalidation, remote_invalidation, wrong_invalidation, other_queue_pair, heirless, region_stays, gone,
    local_use, exit_with_windows,
]


def windows_or_skip(test):
    """Returns the test, skipped on a device without windows."""
    def run_it():
        if not context().query_device().max_mw:
            raise Skip("the device reports no memory windows")
        test()
    run_it.__doc__ = test.__doc__
    return run_it


if __name__ == "__main__":
    run([windows_or_skip(test) for test in TESTS])
