# SPDX-License-Identifier: GPL-2.0
"""A process whose memory cgroup has little makes objects until the kernel says no.

It makes them of one kind, as large as they come, and gives nothing back. Either a verb fails with ENOMEM or the group's
OOM killer ends the process: both are right, and which it is depends on who asks for the last page. Not right is that it
may go on for longer than its group has room, that anything of it is left, or that somebody else suffers.

Of what is small there would be too many, and a process needs memory of its own for each: so it is made by bare
commands, as many as it takes to see what the kernel charges for them.
"""

import contextlib
import ctypes
import errno
import gc
import mmap
import os
import random
import signal
import struct
import time

import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

import uverbs
from bystander import Bystander
from flood import CHARGE_BATCH, cgroups, current_kernel, move, ring_bytes
from rc import FULL_ACCESS, PAGE, eventually, gid_index, own_context
from tap import equal, not_for_rxe, run, true
from ud import gid_bytes
from verbs import resources

GROUP = "/sys/fs/cgroup/bounded"
ROOM = 8 << 20
# What a process may keep of its group: each processor has charged some pages in advance.
NEXT_TO_NOTHING = 1 << 20
# What the kernel keeps for a region of one page, at least: itself, its key, its pages, its entry with the core.
LEAST_REGION = 512
# Of a region of so many pages that do not follow each other, address and offset of each; some may do so after all.
SCATTERED = 2048
LEAST_SCATTERED = SCATTERED * 16 * 3 // 4
# What is charged for one of those that are made by bare commands, at least. The core's own part of each is not, for any
# driver: of a protection domain, that is nearly all. Sizes are what the module's debug information says; kmalloc rounds
# them up, and 8 bytes more of each piece say whom it is charged to.
# A domain: an Arc of 8 (Pd in rust/driver/mem/mr.rs).
# A handle: an Arc of 96 (Ah in rust/driver/port/ah.rs), and one of 32 (Handle in ah/handle.rs), which makes 144.
# A window: 80 (Mw in rust/driver/mem/mw.rs), an Arc of 64 (Entry in rust/driver/mem/key_table.rs), and what the table of keys needs:
# their indices are random among 2^24, so few share one of its nodes of 576, of which there are two levels. Of many the
# upper ones are shared; what is left is more than half of 1344.
# A small region: the same, but without the first part, and with what it has of its memory.
CHARGED = {"domain": 16, "handle": 128, "window": 1024, "small_region": 1024}
REFUSED, STRANGE = 3, 4
# Not to be closed before what it knows nothing of, which goes with the process.
_kept = []


def text_of(name):
    """A file of the group."""
    with open(f"{GROUP}/{name}", encoding="ascii") as file:
        return file.read()


def kills():
    """How many processes of the group its OOM killer has ended."""
    return int(dict(line.split() for line in text_of("memory.events").splitlines())["oom_kill"])


@contextlib.contextmanager
def little_room(room=ROOM):
    """A group that has little memory. In the end nobody is in it, and it can be removed."""
    with cgroups("memory"):
        os.makedirs(GROUP, exist_ok=True)
        with open(f"{GROUP}/memory.max", "w", encoding="ascii") as file:
            file.write(str(room))
        yield
        os.rmdir(GROUP)


class Maker:
    """What a process makes, of one kind."""

    def __init__(self):
        self.ctx = own_context()
        self.pd = PD(self.ctx)
        self.cq = CQ(self.ctx, 16, None, None, 0)
        # One page serves all regions.
        self.page = MR(self.pd, PAGE, FULL_ACCESS)

    def queue_pair(self):
        """One with large rings."""
        cap = QPCap(max_send_wr=2048, max_recv_wr=2048, max_send_sge=4, max_recv_sge=4)
        return QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap))

    def completion_queue(self):
        """One with a large ring."""
        return CQ(self.ctx, 8192, None, None, 0)

    def shared_queue(self):
        """One with a large ring."""
        return SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=8192, max_sge=4)))

    def region(self):
        """One of a page that others have registered, too."""
        return MR(self.pd, PAGE, FULL_ACCESS, address=self.page.buf)

    def window(self):
        """One that is bound to nothing."""
        return MW(self.pd, e.IBV_MW_TYPE_1)

    def resized_queue(self):
        """A completion queue that had a small ring, and has a large one."""
        queue = CQ(self.ctx, 1, None, None, 0)
        queue.resize(8192)
        return queue

    def scatter(self):
        """Makes pages that follow each other, but not in memory: they come in any order."""
        self.pages = mmap.mmap(-1, SCATTERED * PAGE)
        for at in random.Random(1).sample(range(SCATTERED), SCATTERED):
            self.pages[at * PAGE] = 1
        self.scattered = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))

    def large_region(self):
        """One of many pages, whose places are a long list."""
        return MR(self.pd, SCATTERED * PAGE, FULL_ACCESS, address=self.scattered)

    def command(self, kind, answer):
        """The command that makes one of a kind."""
        pd, page, gid, index = self.pd.handle, self.page.buf, gid_bytes(os.environ["ADDR"]), gid_index()
        number, *fields = {
            "domain": (uverbs.ALLOC_PD,),
            "handle": (uverbs.CREATE_AH, 0, pd, 0, gid, 0, index, 64, *[0] * 6, 1, 1, 0),
            "window": (uverbs.ALLOC_MW, pd, e.IBV_MW_TYPE_1, b""),
            "small_region": (uverbs.REG_MR, page, PAGE, page, pd, FULL_ACCESS),
        }[kind]
        return uverbs.command(number, answer, *fields)


def least_bytes(kind, count):
    """What so many objects of a kind take at least. To look at the mappings takes long, with thousands of regions."""
    each = {"region": LEAST_REGION, "window": CHARGED["window"], "large_region": LEAST_SCATTERED}.get(kind)
    return count * each if each else ring_bytes(0)


def make_until_refused(kind, count):
    """In the group: makes and counts until it is refused. Returns the exit code."""
    maker = Maker()
    if kind == "large_region":
        maker.scatter()
    move(GROUP)
    made = []
    try:
        while True:
            made.append(getattr(maker, kind)())
            # For whoever looks after we have been killed.
            struct.pack_into("=QQ", count, 0, len(made), least_bytes(kind, len(made)))
    except PyverbsError as error:
        return REFUSED if error.error_code == errno.ENOMEM else STRANGE
    except MemoryError:
        return REFUSED


def make_many(kind, count):
    """In the group, on one processor: makes as many as must show in what the group is charged for. Returns the exit
    code."""
    maker, answer = Maker(), ctypes.create_string_buffer(64)
    order = maker.command(kind, ctypes.addressof(answer))
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    wanted = CHARGE_BATCH * PAGE // CHARGED[kind]
    least = wanted * CHARGED[kind] // 2
    _kept.append(maker)
    move(GROUP)
    before = current_kernel(GROUP)
    for _ in range(wanted):
        equal(uverbs.issue(maker.ctx.cmd_fd, order), 0, f"error of a command: {kind}")
    # The figures come late: where little has changed, they are brought up to date every few seconds only.
    eventually(lambda: current_kernel(GROUP) - before > least, f"{wanted} of {kind} are charged for", 20)
    struct.pack_into("=QQ", count, 0, wanted, current_kernel(GROUP) - before)
    return 0


def forked(body, kind, count):
    """Such a process; returns how it has ended."""
    child = os.fork()
    if not child:
        code = STRANGE
        try:
            gc.disable()
            code = body(kind, count)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# {error!r}", flush=True)
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def nothing_left(before):
    """No object is, and nobody is charged."""
    eventually(lambda: resources() == before, "nothing is left")
    eventually(lambda: int(text_of("memory.current")) < NEXT_TO_NOTHING, "the group is charged for nothing", 20)
    print(f"# {int(text_of('memory.current')) >> 10} KiB are left", flush=True)


def bounded(kind, room=ROOM):
    """One kind of object."""
    not_for_rxe("charges nobody, and takes all memory there is")
    count, before = mmap.mmap(-1, PAGE), resources()
    with little_room(room):
        killed, bystander = kills(), Bystander()
        ended = forked(make_until_refused, kind, count)
        bystander.end()
        made, least = struct.unpack_from("=QQ", count)
        how = "refused" if ended == REFUSED else "killed"
        print(f"# {how} after {made} of {least >> 10} KiB at least", flush=True)
        true(ended == REFUSED or (ended == -signal.SIGKILL and kills() > killed), f"it ended with {ended}")
        true(made, "nothing could be made")
        true(least <= room, f"{made} objects of {least} bytes cannot fit")
        nothing_left(before)


def charged(kind):
    """One kind of small object."""
    not_for_rxe("charges nobody")
    count, before = mmap.mmap(-1, PAGE), resources()
    with little_room(ROOM):
        equal(forked(make_many, kind, count), 0, "exit code")
        made, cost = struct.unpack_from("=QQ", count)
        print(f"# charged for {cost >> 10} KiB, {cost / made:.0f} bytes each", flush=True)
        true(cost > made * CHARGED[kind] // 2, "not all of it was charged")
        nothing_left(before)


def queue_pairs():
    """Queue pairs end where the group's memory ends"""
    bounded("queue_pair")


def completion_queues():
    """So do completion queues"""
    bounded("completion_queue")


def shared_queues():
    """So do shared receive queues"""
    bounded("shared_queue")


def regions():
    """So do regions"""
    bounded("region")


def large_regions():
    """So do large regions, by the lists of their pages"""
    bounded("large_region")


def resized_queues():
    """So do completion queues that are made larger"""
    bounded("resized_queue")


def windows():
    """So do windows"""
    # Each takes its time to go.
    bounded("window", ROOM // 4)


def domains():
    """What the driver keeps for protection domains is charged to who made them, and given back"""
    charged("domain")


def handles():
    """So is what it keeps for address handles"""
    charged("handle")


def bare_windows():
    """For windows"""
    charged("window")


def bare_regions():
    """And for regions"""
    charged("small_region")


if __name__ == "__main__":
    run([queue_pairs, completion_queues, shared_queues, regions, large_regions, resized_queues, windows,
         domains, handles, bare_windows, bare_regions])
