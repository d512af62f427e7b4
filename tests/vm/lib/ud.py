# SPDX-License-Identifier: GPL-2.0
"""UD queue pairs for tests in Python.

Creates an end on any device of this kernel (context, PD, CQ, QP, memory), address handles, and multicast memberships,
which pyverbs does not support. Contains no test.
"""

import errno
import ipaddress
import os
import struct
import subprocess
import time

from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE

import enums as e
from rc import POLL, SPIN

PORT = 1
GRH = 40
QKEY = 0x11111111
# The Q_Key of QP 1.
GSI_QKEY = 0x80010000
MULTICAST_QPN = 0xFFFFFF
# enum ib_uverbs_write_cmds.
_ATTACH, _DETACH = 30, 31
_CLOCK = time.monotonic


def filters(netdev=None, where=()):
    """Returns the multicast addresses of an interface."""
    command = [*where, "ip", "maddr", "show", "dev", netdev or os.environ["NETDEV"]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def gid_text(address):
    """Returns an IP address as a GID, in the form that pyverbs accepts."""
    parsed = ipaddress.ip_address(address)
    octets = parsed.packed if parsed.version == 6 else b"\0" * 10 + b"\xff\xff" + parsed.packed
    return ":".join(octets[at:at + 2].hex() for at in range(0, 16, 2))


def gid_bytes(address):
    """Returns an IP address as the bytes of a GID."""
    return bytes.fromhex(gid_text(address).replace(":", ""))


class UdEnd:
    """One UD QP in RTS, in a new context unless one is given."""

    def __init__(self, device=None, qkey=QKEY, size=1 << 14, depth=64, ctx=None, srq=None, pd=None):
        self.own = None if ctx else Context(name=device or os.environ["DEV"])
        self.ctx, self.srq = ctx or self.own, srq
        self.own_pd = None if pd else PD(self.ctx)
        self.pd = pd or self.own_pd
        self.cq = CQ(self.ctx, 256, None, None, 0)
        self.mr = MR(self.pd, size, e.IBV_ACCESS_LOCAL_WRITE)
        self.qp = self.make_qp(qkey, depth)
        self.handles = []
        self.groups = []

    def make_qp(self, qkey=QKEY, depth=4):
        """Returns a QP in RTS."""
        cap = QPCap(max_send_wr=depth, max_recv_wr=depth, max_send_sge=1, max_recv_sge=1)
        attr = QPAttr(port_num=PORT)
        attr.qkey = qkey
        return QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=self.cq, rcq=self.cq, srq=self.srq, cap=cap),
                  attr)

    def _command(self, command, handle, address):
        words = struct.pack("=IHH16sIHH", command, 8, 0, gid_bytes(address), handle, 0, 0)
        os.write(self.ctx.cmd_fd, words)

    def attach(self, address):
        """Attaches the queue pair of this context (all of them, if there are several) to a group."""
        refused = OSError(errno.ENOENT, "no queue pair")
        attached = 0
        for handle in self.handles or range(400):
            try:
                self._command(_ATTACH, handle, address)
            except OSError as error:
                # A handle of no QP fails with EINVAL too.
                if error.errno != errno.EINVAL:
                    refused = error
                    break
                continue
            attached += 1
            if handle not in self.handles:
                self.handles.append(handle)
        if not attached:
            raise refused
        self.groups.append(address)
        return attached

    def detach(self, address):
        """Detaches the queue pairs that attach() attached."""
        if address in self.groups:
            self.groups.remove(address)
        for handle in self.handles:
            self._command(_DETACH, handle, address)

    def handle_for(self, address, gid, **route):
        """Returns an address handle."""
        defaults = {"hop_limit": 1}
        route = GlobalRoute(dgid=GID(gid_text(address)), sgid_index=gid, **{**defaults, **route})
        return AH(self.pd, attr=AHAttr(gr=route, is_global=1, port_num=PORT))

    def receive(self, count=1, at=0):
        """Posts receives in places of their own; the first one has the number `at`."""
        for at in range(at, at + count):
            sge = SGE(self.mr.buf + self.mr.length // 2 + at * 256, 256, self.mr.lkey)
            self.qp.post_recv(RecvWR(wr_id=at, num_sge=1, sg=[sge]))

    def received(self, number=0, length=256):
        """Returns the bytes of the receive with that number, GRH first."""
        data = self.mr.read(length, self.mr.length // 2 + number * 256)
        return data.encode("latin-1") if isinstance(data, str) else bytes(data)

    def post(self, handle, qpn, wr_id, data=b"datagram", qkey=QKEY):
        """Posts a send."""
        self.mr.write(data, len(data))
        request = SendWR(wr_id=wr_id, num_sge=1, sg=[SGE(self.mr.buf, len(data), self.mr.lkey)])
        request.set_wr_ud(handle, qpn, qkey)
        self.qp.post_send(request)

    def send(self, handle, data=b"datagram", qpn=MULTICAST_QPN, qkey=QKEY):
        """Sends a datagram, and waits for its completion; returns the status."""
        self.post(handle, qpn, 1000, data, qkey)
        return self.completion(lambda wc: wc.wr_id == 1000).status

    def completion(self, wanted=lambda wc: True, seconds=10):
        """Returns the next wanted completion; keeps others for later."""
        begin = _CLOCK()
        waiting = getattr(self, "_waiting", [])
        while True:
            waiting += self.cq.poll(16)[1]
            for at, found in enumerate(waiting):
                if wanted(found):
                    del waiting[at]
                    self._waiting = waiting
                    return found
            if _CLOCK() > begin + seconds:
                raise AssertionError(f"no completion after {seconds} s")
            if _CLOCK() > begin + SPIN:
                time.sleep(POLL)

    def silent(self, seconds=0.3):
        """Checks that nothing completes for a while."""
        end, late = _CLOCK() + seconds, False
        while not late:
            late = _CLOCK() >= end
            found = getattr(self, "_waiting", []) + self.cq.poll(16)[1]
            if found:
                raise AssertionError(f"unexpected completions: {[(w.wr_id, w.status) for w in found]}")
            time.sleep(POLL)

    def close(self):
        """Closes the objects, users before the objects that they use."""
        for group in set(self.groups):
            self.detach(group)
        for part in (self.qp, self.mr, self.cq, self.own_pd, self.own):
            if part:
                part.close()
