# SPDX-License-Identifier: GPL-2.0
"""QPs attacked from the wire (wire.py) while they work. WIRE_PACKETS is the number of packets.

Attacked QPs may fail, since any sender with the peer's address can act as the peer; they are connected again. The test
requires that memory without a valid key is neither written nor read, that only posted requests complete, and that
connections that are not attacked deliver every message, during and after the attack.
"""
import contextlib
import ctypes
import json
import mmap
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import time

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.device import Context
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QPAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE

import enums as e
import frame
from bystander import Bystander
from rc import FULL_ACCESS, PORT, SLOWNESS, End
from tap import equal, run, true
from ud import QKEY, UdEnd
from windows import ONE, TWO, bind
from wire import ETH_ALL, SEED, SOL_PACKET

COUNT = int(os.environ.get("WIRE_PACKETS", "20000"))
ENOUGH = 20000
OPEN = FULL_ACCESS | e.IBV_ACCESS_REMOTE_ATOMIC | e.IBV_ACCESS_FLUSH_GLOBAL
REGION = 1 << 16
GUARD = mmap.PAGESIZE
GROUP, GROUP_RECEIVES = "239.1.1.9", 32
SECRET = b"nobody has a key for this, or the right. "
NOBODY = 0xF00000
# Source of the attacker's frames.
ATTACKER = bytes.fromhex("020000000001")
SO_ATTACH_FILTER, PACKET_STATISTICS = 26, 6
# Windows of a region: type, owner, and place. The memory around them is secret.
WINDOW_RIGHTS = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
WINDOWS = ((ONE, 0, 8192, 16384), (TWO, 0, 28672, 12288), (TWO, 3, 45056, 12288))
SLOT, TAKEN = 1024, 600
SEND, WRITE, READ, ADD = e.IBV_WR_SEND, e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ, e.IBV_WR_ATOMIC_FETCH_AND_ADD


class Ears:
    """Counts the attacker's frames that arrive at this end of the wire."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        # A classic packet filter for frames with the attacker's address; no process reads them.
        high, low = struct.unpack(">IH", ATTACKER)
        code = ((0x20, 0, 0, 6), (0x15, 0, 3, high), (0x28, 0, 0, 10), (0x15, 0, 1, low), (0x06, 0, 0, 1),
                (0x06, 0, 0, 0))
        self.code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in code))
        program = struct.pack("=H6xQ", len(code), ctypes.addressof(self.code))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        self.socket.bind((os.environ["NETDEV"], ETH_ALL))

    def heard(self):
        """The number of frames."""
        found = struct.unpack("=II", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[0]
        self.socket.close()
        return found


class Guarded:
    """A region within secret memory. The region itself is secret except for its parts, (offset, length) each, which
    others may read; by default one part covers the whole region."""

    def __init__(self, pd, access, parts=((0, REGION),)):
        self.memory = mmap.mmap(-1, REGION + 2 * GUARD)
        self.text = SECRET * (len(self.memory) // len(SECRET) + 1)
        self.memory[:] = self.text[:len(self.memory)]
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory)) + GUARD
        self.parts = parts
        for offset, length in parts:
            self.memory[GUARD + offset:GUARD + offset + length] = bytes(length)
        self.mr = MR(pd, REGION, access, address=self.start)

    def place(self, key=None, part=(0, REGION)):
        """Address, length and key of the region or a part of it, as an attacker would use them."""
        return self.start + part[0], part[1], self.mr.rkey if key is None else key

    def page_out(self):
        """Discards the pages, so that the device must fault them in again. The memory is shared, so its bytes stay."""
        self.memory.madvise(mmap.MADV_DONTNEED, GUARD, REGION)

    def written(self, part):
        """Returns whether a writable part was written."""
        return any(self.memory[GUARD + part[0]:GUARD + sum(part)])

    def check(self, what):
        """Checks that no byte changed outside the parts."""
        end = GUARD + REGION
        equal(self.memory[:GUARD], self.text[:GUARD], f"memory before {what}")
        equal(self.memory[end:], self.text[end:end + GUARD], f"memory behind {what}")
        at = GUARD
        for offset, length in (*self.parts, (REGION, 0)):
            equal(self.memory[at:GUARD + offset], self.text[at:GUARD + offset], what)
            at = GUARD + offset + length


class Victim:
    """A QP of DEV. Its peer is a QP of PEER_DEV, or only the attacker."""

    def __init__(self, scene, service, version, lonely=False, srq=None):
        self.scene, self.service, self.version, self.lonely = scene, service, version, lonely
        self.shared = srq is not None
        self.end = End(ctx=scene.a, pd=scene.pd, access=OPEN, service=service, srq=srq, wr=32, cqe=64)
        self.peer = None if lonely else End(ctx=scene.b, access=OPEN, service=service, wr=32, cqe=64)
        self.peer_qpn = NOBODY + len(scene.victims) if lonely else self.peer.qp.qp_num
        self.posted = {id(self.end): set(), id(self.peer): set()}
        self.number = 0
        self.broken = 0
        self.connect()

    def told(self):
        """The attacker's knowledge of the QP."""
        service = {e.IBV_QPT_RC: frame.RC, e.IBV_QPT_UC: frame.UC, e.IBV_QPT_UD: frame.UD}[self.service]
        return {"qpn": self.end.qp.qp_num, "peer": self.peer_qpn, "service": service, "mtu": 1024, "psn": 0x1000,
                "version": self.version, "qkey": QKEY}

    def connect(self):
        """Moves the ends to RTS from any state."""
        ends = [(self.end, self.peer_qpn, 0)] + ([] if self.lonely else [(self.peer, self.end.qp.qp_num, 1)])
        for end, number, side in ends:
            end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
            # Old completions stay in the queue, and no new ones follow.
            while end.cq.poll(32)[1]:
                pass
            self.posted[id(end)].clear()
            gids = self.scene.gids[self.version]
            attr = end.attr(number, gid=gids[side], timeout=10, retry_cnt=3, rnr_retry=1, rights=OPEN)
            attr.qkey = QKEY
            contexts = (self.scene.a, self.scene.b)
            route = GlobalRoute(dgid=contexts[1 - side].query_gid(PORT, gids[1 - side]), sgid_index=gids[side],
                                hop_limit=64)
            attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=PORT)
            end.qp.to_rts(attr)

    def slot(self, end):
        """The next slot of an end's memory; each is followed by a gap that must stay unused."""
        self.number += 1
        region = self.scene.inbox if end is self.end else end
        start = region.start if end is self.end else region.mr.buf
        return SGE(start + self.number % 32 * SLOT, TAKEN, region.mr.lkey)

    def post(self, chance, end):
        """Posts receives and a request."""
        numbers = self.posted[id(end)]
        for _ in range(0 if self.shared else 4):
            sge = self.slot(end)
            end.qp.post_recv(RecvWR(wr_id=self.number, num_sge=1, sg=[sge]))
            numbers.add(self.number)
        if self.service == e.IBV_QPT_UD:
            return
        sge = self.slot(end)
        opcode = chance.choice((SEND, WRITE, READ, ADD) if self.service == e.IBV_QPT_RC else (SEND, WRITE))
        sge.length = 8 if opcode == ADD else chance.choice((0, 8, TAKEN))
        request = SendWR(wr_id=self.number, num_sge=1, sg=[sge], opcode=opcode, send_flags=e.IBV_SEND_SIGNALED)
        target = self.scene.open if end is not self.end or self.lonely else self.peer
        address = target.start if isinstance(target, Guarded) else target.mr.buf
        if opcode == ADD:
            request.set_wr_atomic(target.mr.rkey, address, 1)
        elif opcode != SEND:
            request.set_wr_rdma(target.mr.rkey, address)
        end.qp.post_send(request)
        numbers.add(self.number)

    def work(self, chance):
        """Takes completions, posts requests, and reconnects a failed QP."""
        for end in (self.end, self.peer):
            if end is None:
                continue
            for wc in end.cq.poll(32)[1]:
                if not self.shared:
                    true(wc.wr_id in self.posted[id(end)], f"{wc.wr_id} completed but was not posted")
                    self.posted[id(end)].discard(wc.wr_id)
                true(wc.status != e.IBV_WC_SUCCESS or wc.byte_len <= REGION, f"{wc.byte_len} bytes")
        try:
            for end in (self.end, self.peer):
                if end and len(self.posted[id(end)]) < 20:
                    self.post(chance, end)
            broken = any(end and end.state() != e.IBV_QPS_RTS for end in (self.end, self.peer))
        except PyverbsError:
            broken = True
        if broken:
            self.broken += 1
            with contextlib.suppress(PyverbsError):
                self.connect()  # It may fail meanwhile; the next call tries again.


class Scene:
    """Devices, memory, and the attacked QPs."""

    def __init__(self):
        self.a, self.b = Context(name=os.environ["DEV"]), Context(name=os.environ["PEER_DEV"])
        self.gids = {4: [int(os.environ[name]) for name in ("GID4", "PEER_GID4")],
                     6: [int(os.environ[name]) for name in ("GID6", "PEER_GID6")]}
        self.pd, self.other_pd = PD(self.a), PD(self.a)
        self.open = Guarded(self.pd, OPEN)
        self.inbox = Guarded(self.pd, e.IBV_ACCESS_LOCAL_WRITE)
        self.private = Guarded(self.pd, e.IBV_ACCESS_LOCAL_WRITE, parts=())
        self.foreign = Guarded(self.other_pd, OPEN, parts=())
        self.windowed = Guarded(self.pd, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_MW_BIND,
                                parts=[part for _, _, *part in WINDOWS])
        self.demand = self.on_demand()
        self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=64, max_sge=1)))
        self.victims = []
        for service, version, options in (
                (e.IBV_QPT_RC, 4, {}), (e.IBV_QPT_RC, 6, {}), (e.IBV_QPT_RC, 4, {"lonely": True}),
                (e.IBV_QPT_RC, 6, {"lonely": True}), (e.IBV_QPT_RC, 4, {"srq": self.srq, "lonely": True}),
                (e.IBV_QPT_UC, 4, {}), (e.IBV_QPT_UC, 6, {"lonely": True}), (e.IBV_QPT_UD, 4, {"lonely": True})):
            self.victims.append(Victim(self, service, version, **options))
        self.member = UdEnd(os.environ["DEV"])
        self.member.attach(GROUP)
        self.member.receive(GROUP_RECEIVES)
        self.came = 0
        # Windows of type 2 belong to one QP, and its peer can invalidate them.
        self.windows = [(MW(self.pd, kind), part) for kind, _, *part in WINDOWS]
        self.window_keys = [bind(self.victims[whose].end, window, self.windowed.mr, *part, OPEN & WINDOW_RIGHTS)
                            for (window, part), (_, whose, *_) in zip(self.windows, WINDOWS)]

    def on_demand(self):
        """A region that pages out, if the device supports on-demand paging."""
        try:
            return Guarded(self.pd, FULL_ACCESS | e.IBV_ACCESS_REMOTE_ATOMIC | e.IBV_ACCESS_ON_DEMAND)
        except PyverbsRDMAError as error:
            print(f"# no region on demand: {error}", flush=True)
            return None

    def regions(self):
        """All regions by name."""
        names = ("open", "inbox", "private", "foreign", "windowed", "demand")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def targets(self, spared):
        """The attacker's knowledge, as JSON."""
        with open(f"/sys/class/net/{os.environ['NETDEV']}/address", encoding="ascii") as file:
            to = file.read()
        ends = {}
        for version, names in ((4, ("PEER_GID4", "GID4")), (6, ("PEER_GID6", "GID6"))):
            found = []
            for context, name in zip((self.b, self.a), names):
                packed = bytes.fromhex(str(context.query_gid(PORT, int(os.environ[name]))).replace(":", ""))
                found.append((packed if version == 6 else packed[12:]).hex())
            ends[str(version)] = {"source": found[0], "destination": found[1],
                             "ether_to": to.strip().replace(":", ""), "ether_from": ATTACKER.hex()}
        places = [self.open.place(), self.open.place(), self.private.place(), self.foreign.place(),
                  self.inbox.place(), self.private.place(self.open.mr.rkey), self.foreign.place(0),
                  self.windowed.place(), self.windowed.place(self.window_keys[0])]
        places += [self.windowed.place(key, part) for key, (_, part) in zip(self.window_keys, self.windows)]
        places += [self.demand.place()] if self.demand else []
        return {"interface": os.environ["PEER_NETDEV"], "ends": ends, "keys": places, "spared": spared,
                "secret": SECRET.hex(), "flows": [victim.told() for victim in self.victims],
                "group": {"address": socket.inet_aton(GROUP).hex(), "ether": "01005e010109", "qkey": QKEY}}

    def work(self, chance):
        """Lets every QP do some work."""
        if self.demand and chance.random() < 0.1:
            self.demand.page_out()
        for at in range(4):
            try:
                sge = SGE(self.inbox.start + (32 + at) * SLOT, TAKEN, self.inbox.mr.lkey)
                self.srq.post_recv(RecvWR(wr_id=at, num_sge=1, sg=[sge]))
            except PyverbsError:
                break  # The SRQ is full.
        for victim in self.victims:
            victim.work(chance)
        for wc in self.member.cq.poll(GROUP_RECEIVES)[1]:
            equal(wc.status, e.IBV_WC_SUCCESS, "status of a datagram to the group")
            self.came += 1
            self.member.receive(at=wc.wr_id)

    def check(self):
        """Checks all memory."""
        for name, region in self.regions().items():
            region.check(f"the {name} region")
        for at in range(36):
            gap = GUARD + at * SLOT + TAKEN
            equal(self.inbox.memory[gap:gap + SLOT - TAKEN], bytes(SLOT - TAKEN), f"memory behind receive {at}")

    def close(self):
        """Closes everything, users first. In rdma_rxe a window holds a reference to its QP, so windows come first."""
        windows = [window for window, _ in self.windows]
        ends = [end for victim in self.victims for end in (victim.end, victim.peer) if end]
        regions = [region.mr for region in self.regions().values()]
        for part in (*windows, *ends, self.member, *regions, self.srq, self.pd, self.other_pd, self.a, self.b):
            part.close()


def attack():
    """Packets with any changed field, to working QPs of every service, harm no other connection"""
    bystander = Bystander()
    scene, chance = Scene(), random.Random(SEED)
    with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".json") as file:
        json.dump(scene.targets(bystander.spared), file)
        file.flush()
        command = ["ip", "netns", "exec", "b", sys.executable, "wire.py", file.name, str(COUNT)]
        ears = Ears()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attacker:
            while attacker.poll() is None:
                scene.work(chance)
                time.sleep(0.001)
            *said, score = attacker.stdout.read().splitlines() or [""]
        print("\n".join(said), flush=True)
        equal(attacker.returncode, 0, "the attacker's exit code")
        score, heard = json.loads(score), ears.heard()
    print(f"# broken and connected again: {[victim.broken for victim in scene.victims]}", flush=True)
    print(f"# {heard} came in of {score['ours']} packets that tell their sender, of {score['done']}", flush=True)
    bystander.end()
    scene.check()
    true(score["done"] >= COUNT, f"only {score['done']} packets were sent")
    true(heard >= score["ours"] * 0.9 >= COUNT * 0.5, f"{heard} of {score['ours']} packets arrived")
    wrote = [name for name, region in scene.regions().items() if any(map(region.written, region.parts))]
    through = [scene.windowed.written(part) for _, part in scene.windows]
    print(f"# written to: {wrote}; through windows: {through}", flush=True)
    true("open" in wrote, "no permitted write happened")
    print(f"# {scene.came} datagrams to the group", flush=True)
    true(scene.came > 0, "no datagram reached the group")
    # These are rarer, so a short run does not require them.
    true(COUNT < ENOUGH or {"windowed", "demand"} & set(scene.regions()) <= set(wrote), f"written to: only {wrote}")
    scene.close()


def afterwards():
    """New connections work after the attack"""
    bystander = Bystander()
    time.sleep(0.2 * SLOWNESS)
    bystander.end()


if __name__ == "__main__":
    run([attack, afterwards])
