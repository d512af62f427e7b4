# SPDX-License-Identifier: GPL-2.0
"""Connected queue pairs, RC unless told otherwise, over one device, for tests in Python.

Owns the making of an end (PD, CQ, QP, memory), the way of a pair to RTS, and waiting with a limit. Knows no
test. pyverbs is rdma-core's own; nothing here goes around it.
"""

import os
import select
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.wr import RecvWR, SendWR, SGE

from far import call
from tap import true

DEVICE = os.environ["DEV"]
PORT = 1
PAGE = 4096

FULL_ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
# pyverbs wants a piece in each work request; one of zero bytes needs no key.
NOTHING = [SGE(0, 0, 0)]
# Short waits, so that giving up does not take minutes: 4.096 us * 2 ** 10 = 4.2 ms.
QUICK_TIMEOUT = 10

# Limits in seconds are meant for the stock kernel; a slower one gets more.
SLOWNESS = int(os.environ.get("SLOWNESS", "1"))

# Whether the peer is on another machine.
FAR = os.environ.get("TOPOLOGY") == "pair"

_CLOCK = time.monotonic
_shared = {}


def event_fds():
    """Descriptors of this process that carry events of the RDMA core."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            if "infinibandevent" in os.readlink(f"/proc/self/fd/{name}"):
                found.add(int(name))
        except OSError:
            pass
    return found


def with_event_fd(make):
    """What make() makes, and the descriptor that came with it: pyverbs keeps it to itself."""
    before = event_fds()
    made = make()
    return made, (event_fds() - before).pop()


def readable(fd, seconds):
    """Waits for something to read."""
    return bool(select.select([fd], [], [], seconds * SLOWNESS)[0])


def context():
    """A context of the device, one for the whole process."""
    if not _shared:
        _shared["context"], _shared["events"] = with_event_fd(lambda: Context(name=DEVICE))
    return _shared["context"]


def own_context():
    """For a forked child: descriptors of its parent are not for it."""
    _shared.clear()
    return context()


def async_event(seconds=5):
    """Type of the next asynchronous event of the shared context; None if there is none in time."""
    ctx = context()
    if not readable(_shared["events"], seconds):
        return None
    event = ctx.get_async_event()
    kind = event.event_type
    event.ack()
    return kind


def forget_events():
    """Takes away the events that earlier tests have left."""
    while async_event(0) is not None:
        pass


def gid_index(family=4):
    """Index of the device's GID of an address family, 4 or 6, as the set-up found it."""
    return int(os.environ[f"GID{family}"])


class End:
    """One queue pair with a CQ and memory of its own."""

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
        """A QP to which the operations in ops (IBV_QP_EX_WITH_*) are posted by functions."""
        mask = e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
        init = QPInitAttrEx(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=self.cap, pd=self.pd,
                            sq_sig_all=0, comp_mask=mask, send_ops_flags=ops)
        return QPEx(self.ctx, init)

    def order(self, name, *args, wr_id=2, flags=e.IBV_SEND_SIGNALED, pieces=None):
        """Posts a work request by the function wr_<name> of such a QP."""
        self.qp.wr_start()
        self.qp.wr_id = wr_id
        self.qp.wr_flags = flags
        getattr(self.qp, f"wr_{name}")(*args)
        if pieces:
            self.qp.wr_set_sge(*pieces)
        self.qp.wr_complete()

    def make(self, maker):
        """Makes a CQ or a QP: a place for tests that look at the mappings that come with it."""
        return maker()

    def gid(self, index):
        """A GID of the device as text."""
        return str(self.ctx.query_gid(PORT, index))

    def attr(self, peer, gid=None, dgid=None, **settings):
        """What modify_qp needs to reach a peer's QP, behind this device's own GID unless another is told; settings
        override."""
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
        """RESET to RTS."""
        self.qp.to_rts(self.attr(peer, **settings))

    def state(self):
        """The state that query_qp tells."""
        return self.qp.query(e.IBV_QP_STATE)[0].qp_state

    def sge(self, offset=0, length=None, mr=None):
        """A piece of the memory."""
        mr = mr or self.mr
        return SGE(mr.buf + offset, mr.length - offset if length is None else length, mr.lkey)

    def receive(self, wr_id=1, pieces=None):
        """Posts a receive."""
        pieces = [self.sge()] if pieces is None else pieces or NOTHING
        self.qp.post_recv(RecvWR(wr_id=wr_id, num_sge=len(pieces), sg=pieces))

    def request(self, opcode, wr_id=2, pieces=None, flags=e.IBV_SEND_SIGNALED, remote=None, imm=0):
        """A work request that waits to be posted; remote is (address, rkey)."""
        pieces = [self.sge()] if pieces is None else pieces or NOTHING
        request = SendWR(wr_id=wr_id, num_sge=len(pieces), sg=pieces, opcode=opcode,
                         send_flags=flags, imm_data=imm)
        if remote:
            request.set_wr_rdma(remote[1], remote[0])
        return request

    def send(self, *args, **named):
        """Posts such a work request."""
        self.qp.post_send(self.request(*args, **named))

    def remote(self, offset=0):
        """This end's memory as its peer names it."""
        return self.mr.buf + offset, self.mr.rkey

    def completions(self, count, seconds=5):
        """Exactly so many completions, in order; raises when they do not come."""
        end = _CLOCK() + seconds * SLOWNESS
        while len(self.waiting) < count:
            late = _CLOCK() > end
            self.waiting += self.cq.poll(16)[1]
            if late and len(self.waiting) < count:
                got = [(wc.wr_id, wc.status) for wc in self.waiting]
                raise AssertionError(f"{len(got)} of {count} completions after {seconds} s: {got}")
        found, self.waiting = self.waiting[:count], self.waiting[count:]
        return found

    def completion(self, seconds=5):
        """One completion."""
        return self.completions(1, seconds)[0]

    def event(self, seconds=5):
        """Whether an event of the CQ comes in time; takes it."""
        if not readable(self.channel_fd, seconds):
            return False
        self.channel.get_cq_event(self.cq)
        self.cq.ack_events(1)
        return True

    def silent(self, seconds=0.1):
        """Nothing completes for a while."""
        end = _CLOCK() + seconds
        while _CLOCK() < end:
            self.waiting += self.cq.poll(16)[1]
        if self.waiting:
            raise AssertionError(f"completions that nobody awaits: {[(w.wr_id, w.status) for w in self.waiting]}")

    def close(self):
        """Ends it, users before what they use."""
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
    """A context of its own of the device that a variable of the environment names, and its IPv4 GID."""
    return Context(name=os.environ[name]), int(os.environ["GID4" if name == "DEV" else "PEER_GID4"])


class across:  # pylint: disable=invalid-name
    """`with across() as (a, b)`: two ends in RTS, a of DEV and b of PEER_DEV, in this kernel or on the other machine
    of a pair. `contexts`: of these of this kernel, or each gets its own."""

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
        """Both from RESET to RTS."""
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
