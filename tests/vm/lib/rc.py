# SPDX-License-Identifier: GPL-2.0
"""Connected QPs, RC by default, over one device, for tests in Python.

Creates an end (PD, CQ, QP, memory), connects pairs, and waits with time limits. Contains no test. Uses rdma-core's
own pyverbs, and bypasses no part of it.
"""

import os
import select
import time

from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.wr import RecvWR, SendWR, SGE

import enums as e
import mapping
from far import call
from tap import true

DEVICE = os.environ["DEV"]
PORT = 1
PAGE = mapping.PAGE

FULL_ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
# pyverbs requires an SGE in each work request; one of zero bytes needs no key.
NOTHING = [SGE(0, 0, 0)]
# A short timeout, so that exhausting retries does not take minutes: 4.096 us * 2 ** 10 = 4.2 ms.
QUICK_TIMEOUT = 10

# Time limits in seconds are meant for the stock kernel; a slower kernel multiplies them.
SLOWNESS = int(os.environ.get("SLOWNESS", "1"))

# Whether the peer is on another machine.
FAR = os.environ.get("TOPOLOGY") == "pair"

# Seconds for which a wait for completions takes a whole processor, and then the pause between two looks.
SPIN, POLL = 0.01, 0.002

_CLOCK = time.monotonic
_shared = {}


def event_fds():
    """Returns the descriptors of this process that carry events of the RDMA core."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            if "infinibandevent" in os.readlink(f"/proc/self/fd/{name}"):
                found.add(int(name))
        except OSError:
            pass
    return found


def with_event_fd(make):
    """Returns the result of make(), and the event descriptor that it opened: pyverbs does not expose it."""
    before = event_fds()
    made = make()
    return made, (event_fds() - before).pop()


def readable(fd, seconds):
    """Waits until a descriptor is readable; returns whether it is."""
    return bool(select.select([fd], [], [], seconds * SLOWNESS)[0])


def context():
    """Returns the context of the device, one for the whole process."""
    if not _shared:
        _shared["context"], _shared["events"] = with_event_fd(lambda: Context(name=DEVICE))
    return _shared["context"]


def own_context():
    """Returns a new context for a forked child, which must not use its parent's descriptors."""
    _shared.clear()
    return context()


def async_event(seconds=5):
    """Returns the type of the next asynchronous event of the shared context; None if there is none in time."""
    ctx = context()
    if not readable(_shared["events"], seconds):
        return None
    event = ctx.get_async_event()
    kind = event.event_type
    event.ack()
    return kind


def forget_events():
    """Consumes the events that earlier tests have left."""
    while async_event(0) is not None:
        pass


def gid_index(family=4):
    """Returns the index of the device's GID of an address family, 4 or 6, from the environment."""
    return int(os.environ[f"GID{family}"])


class End:
    """One QP with its own CQ and memory."""

    def __init__(self, ctx=None, size=1 << 16, access=FULL_ACCESS, wr=64, sge=4, inline=0, cqe=256,
                 events=False, signal_all=False, srq=None, pd=None, service=e.IBV_QPT_RC, ops=0):
        self.ctx = ctx or context()
        self.own_pd = None if pd else PD(self.ctx)
        self.pd = pd or self.own_pd
        self.channel = self.channel_fd = None
        if events:
            self.channel, self.channel_fd = with_event_fd(lambda: CompChannel(self.ctx))
        self.cq = self.make(lambda: CQ(self.ctx, cqe, None, self.channel, 0))
        self.mr = MR(self.pd, size, access)
        self.cap = QPCap(max_send_wr=wr, max_recv_wr=wr, max_send_sge=sge, max_recv_sge=sge,
                         max_inline_data=inline)
        init = QPInitAttr(qp_type=service, scq=self.cq, rcq=self.cq, cap=self.cap,
                          srq=srq, sq_sig_all=1 if signal_all else 0)
        self.waiting = []
        self.qp = self.make(lambda: self.extended(ops) if ops else QP(self.pd, init))

    def extended(self, ops):
        """Creates a QP with the extended post functions of the operations in ops (IBV_QP_EX_WITH_*)."""
        mask = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
        init = QPInitAttrEx(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=self.cap, pd=self.pd,
                            sq_sig_all=0, comp_mask=mask, send_ops_flags=ops)
        return QPEx(self.ctx, init)

    def order(self, name, *args, wr_id=2, flags=e.IBV_SEND_SIGNALED, pieces=None):
        """Posts a work request by the function wr_<name> of an extended QP."""
        self.qp.wr_start()
        self.qp.wr_id = wr_id
        self.qp.wr_flags = flags
        getattr(self.qp, f"wr_{name}")(*args)
        if pieces:
            self.qp.wr_set_sge(*pieces)
        self.qp.wr_complete()

    def make(self, maker):
        """Creates a CQ or a QP; a hook for tests that inspect the mappings of its rings."""
        return maker()

    def gid(self, index):
        """Returns a GID of the device as text."""
        return str(self.ctx.query_gid(PORT, index))

    def attr(self, peer, gid=None, dgid=None, **settings):
        """Returns the attributes with which modify_qp reaches a peer's QP, by default over this device's own GID;
        settings override.
        """
        index = gid_index() if gid is None else gid
        attr = QPAttr(port_num=PORT)
        attr.qp_access_flags = settings.pop("rights", FULL_ACCESS)
        attr.dest_qp_num = peer if isinstance(peer, int) else peer.qp.qp_num
        route = GlobalRoute(dgid=GID(dgid or self.gid(index)), sgid_index=index, hop_limit=64)
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=PORT)
        defaults = {
            "path_mtu": e.IBV_MTU_1024, "rq_psn": 0x1000, "sq_psn": 0x1000, "max_rd_atomic": 4,
            "max_dest_rd_atomic": 4, "min_rnr_timer": 1, "timeout": 14, "retry_cnt": 7, "rnr_retry": 7,
        }
        for name, value in {**defaults, **settings}.items():
            setattr(attr, name, value)
        return attr

    def to_rts(self, peer, **settings):
        """Moves the QP from RESET to RTS."""
        self.qp.to_rts(self.attr(peer, **settings))

    def state(self):
        """Returns the state that query_qp reports."""
        return self.qp.query(e.IBV_QP_STATE)[0].qp_state

    def sge(self, offset=0, length=None, mr=None):
        """Returns an SGE of the memory."""
        mr = mr or self.mr
        return SGE(mr.buf + offset, mr.length - offset if length is None else length, mr.lkey)

    def receive(self, wr_id=1, pieces=None):
        """Posts a receive."""
        pieces = [self.sge()] if pieces is None else pieces or NOTHING
        self.qp.post_recv(RecvWR(wr_id=wr_id, num_sge=len(pieces), sg=pieces))

    def request(self, opcode, wr_id=2, pieces=None, flags=e.IBV_SEND_SIGNALED, remote=None, imm=0):
        """Returns a work request, not posted yet; remote is (address, rkey)."""
        pieces = [self.sge()] if pieces is None else pieces or NOTHING
        request = SendWR(wr_id=wr_id, num_sge=len(pieces), sg=pieces, opcode=opcode,
                         send_flags=flags, imm_data=imm)
        if remote:
            request.set_wr_rdma(remote[1], remote[0])
        return request

    def send(self, *args, **named):
        """Posts a work request; arguments as for request."""
        self.qp.post_send(self.request(*args, **named))

    def remote(self, offset=0):
        """Returns address and rkey of this end's memory for a peer."""
        return self.mr.buf + offset, self.mr.rkey

    def completions(self, count, seconds=5):
        """Returns exactly `count` completions, in order; raises if they do not arrive."""
        begin = _CLOCK()
        end = begin + seconds * SLOWNESS
        while len(self.waiting) < count:
            now = _CLOCK()
            self.waiting += self.cq.poll(16)[1]
            if now > end and len(self.waiting) < count:
                got = [(wc.wr_id, wc.status) for wc in self.waiting]
                raise AssertionError(f"{len(got)} of {count} completions after {seconds} s: {got}")
            if now > begin + SPIN:
                time.sleep(POLL)
        found, self.waiting = self.waiting[:count], self.waiting[count:]
        return found

    def completion(self, seconds=5):
        """Returns one completion."""
        return self.completions(1, seconds)[0]

    def event(self, seconds=5):
        """Returns whether an event of the CQ arrives in time, and consumes it."""
        if not readable(self.channel_fd, seconds):
            return False
        self.channel.get_cq_event(self.cq)
        self.cq.ack_events(1)
        return True

    def silent(self, seconds=0.1):
        """Checks that nothing completes for a while."""
        end = _CLOCK() + seconds
        late = False
        while not late:
            late = _CLOCK() >= end
            self.waiting += self.cq.poll(16)[1]
            time.sleep(0 if late else POLL)
        if self.waiting:
            raise AssertionError(f"unexpected completions: {[(w.wr_id, w.status) for w in self.waiting]}")

    def close(self):
        """Closes the objects, users before the objects that they use."""
        for part in (self.qp, self.mr, self.cq, self.channel, self.own_pd):
            if part:
                part.close()


class pair:  # pylint: disable=invalid-name
    """`with pair() as (a, b)`: two ends in RTS, connected; settings go to both."""

    def __init__(self, a=None, b=None, **settings):
        self.ends = (End(**(a or {})), End(**(b or {})))
        self.settings = settings

    def __enter__(self):
        a, b = self.ends
        a.to_rts(b, **self.settings)
        b.to_rts(a, **self.settings)
        return a, b

    def __exit__(self, *_):
        for end in self.ends:
            end.close()


def opened(name):
    """Returns a new context of the device that an environment variable names, and its IPv4 GID index."""
    return Context(name=os.environ[name]), int(os.environ["GID4" if name == "DEV" else "PEER_GID4"])


class across:  # pylint: disable=invalid-name
    """`with across() as (a, b)`: two ends in RTS, a of DEV and b of PEER_DEV, in this kernel or with b on the other
    machine of a pair. `contexts`: contexts of this kernel to use, instead of new ones.
    """

    def __init__(self, a=None, b=None, contexts=None, **settings):
        self.own, self.settings = not contexts, settings
        gids = [int(os.environ[name]) for name in ("GID4", "PEER_GID4")] if contexts else []
        there = call if FAR else lambda function, *args, **named: function(*args, **named)
        if not contexts:
            contexts, gids = zip(opened("DEV"), there(opened, "DEV" if FAR else "PEER_DEV"))
        self.gids = gids
        self.ends = [End(ctx=contexts[0], **(a or {})), there(End, ctx=contexts[1], **(b or {}))]
        self.connect()

    def connect(self):
        """Moves both ends from RESET to RTS."""
        for this, other in ((0, 1), (1, 0)):
            peer, gid = self.ends[other], self.gids[this]
            self.ends[this].to_rts(peer.qp.qp_num, gid=gid, dgid=peer.gid(self.gids[other]), **self.settings)

    def __enter__(self):
        return self.ends

    def __exit__(self, *_):
        for end in self.ends:
            end.close()
            if self.own:
                end.ctx.close()


def eventually(condition, what, seconds=5):
    """Waits until a condition holds."""
    end = _CLOCK() + seconds * SLOWNESS
    while True:
        late = _CLOCK() > end
        if condition():
            return
        true(not late, f"not within {seconds} s: {what}")
        time.sleep(0.01)
