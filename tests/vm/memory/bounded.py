# SPDX-License-Identifier: GPL-2.0
"""A process in a memory cgroup with a low limit creates objects until the kernel refuses.

It creates objects of one kind, as large as possible, and frees none. Then either a verb fails with ENOMEM or the OOM
killer of the cgroup ends the process: both are correct, and depend on the allocation that exceeds the limit. It is an
error if the process exceeds the limit, leaves anything behind, or disturbs others.

Small objects would be too many, and each needs memory of the process as well. Bare commands create them instead, as
many as are needed to measure the charge.
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

from pyverbs.cq import CQ
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

import enums as e
import uverbs
from bystander import Bystander
from flood import CHARGE_BATCH, cgroups, current_kernel, move, ring_bytes
from rc import FULL_ACCESS, PAGE, eventually, gid_index, own_context
from tap import equal, not_for_rxe, run, true
from ud import gid_bytes
from verbs import resources

GROUP = "/sys/fs/cgroup/bounded"
ROOM = 8 << 20
# Charge that an ended process may leave in its group: each CPU charges some pages in advance.
NEXT_TO_NOTHING = 1 << 20
# Minimum of kernel memory for a region of one page: the region, its key, its pages, its entry in the core.
LEAST_REGION = 512
# Pages of a scattered region. It stores an address and an offset for each run; some pages may be contiguous after all.
SCATTERED = 2048
LEAST_SCATTERED = SCATTERED * 16 * 3 // 4
# Minimum charge for one object that a bare command creates. For no driver does this include the core's own part, which
# is nearly all of a PD. The sizes come from the module's debug information; kmalloc rounds them up, and each allocation
# has 8 bytes more for its owner.
# PD: an Arc of 8 (Pd in rust/driver/mem/pd.rs).
# AH: an Arc of 96 (Ah in rust/driver/port/ah.rs), and one of 32 (AhHandle in rust/driver/verbs/ah.rs), 144 together.
# MW: 80 (Mw in rust/driver/mem/mw.rs), an Arc of 64 (KeyEntry in rust/driver/mem/key_table.rs), and nodes of the key
# table. Its indices are random among 2^24, so few keys share one of its nodes of 576 bytes, which have two levels. With
# many keys the upper nodes are shared; the total stays above half of 1344.
# Small MR: as an MW without the first part, plus the list of its pages.
CHARGED = {"domain": 16, "handle": 128, "window": 1024, "small_region": 1024}
REFUSED, STRANGE = 3, 4
# Objects that must not be closed before the objects of bare commands, which exit with the process.
_kept = []


def text_of(name):
    """The contents of a file of the group."""
    with open(f"{GROUP}/{name}", encoding="ascii") as file:
        return file.read()


def kills():
    """Number of processes that the group's OOM killer has killed."""
    return int(dict(line.split() for line in text_of("memory.events").splitlines())["oom_kill"])


@contextlib.contextmanager
def little_room(room=ROOM):
    """Creates a group with a low memory limit. The group is empty at the end and can be removed."""
    with cgroups("memory"):
        os.makedirs(GROUP, exist_ok=True)
        with open(f"{GROUP}/memory.max", "w", encoding="ascii") as file:
            file.write(str(room))
        yield
        os.rmdir(GROUP)


class Maker:
    """Creates objects of one kind."""

    def __init__(self):
        self.ctx = own_context()
        self.pd = PD(self.ctx)
        self.cq = CQ(self.ctx, 16, None, None, 0)
        # One page serves all MRs.
        self.page = MR(self.pd, PAGE, FULL_ACCESS)

    def queue_pair(self):
        """A QP with large rings."""
        cap = QPCap(max_send_wr=2048, max_recv_wr=2048, max_send_sge=4, max_recv_sge=4)
        return QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap))

    def completion_queue(self):
        """A CQ with a large ring."""
        return CQ(self.ctx, 8192, None, None, 0)

    def shared_queue(self):
        """An SRQ with a large ring."""
        return SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=8192, max_sge=4)))

    def region(self):
        """An MR of a page that other MRs share."""
        return MR(self.pd, PAGE, FULL_ACCESS, address=self.page.buf)

    def window(self):
        """An MW that is not bound."""
        return MW(self.pd, e.IBV_MW_TYPE_1)

    def resized_queue(self):
        """A CQ that is resized from a small ring to a large one."""
        queue = CQ(self.ctx, 1, None, None, 0)
        queue.resize(8192)
        return queue

    def scatter(self):
        """Populates pages of a contiguous mapping in random order, so that they are scattered in physical memory."""
        self.pages = mmap.mmap(-1, SCATTERED * PAGE)
        for at in random.Random(1).sample(range(SCATTERED), SCATTERED):
            self.pages[at * PAGE] = 1
        self.scattered = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))

    def large_region(self):
        """An MR of many scattered pages, which needs a long page list."""
        return MR(self.pd, SCATTERED * PAGE, FULL_ACCESS, address=self.scattered)

    def command(self, kind, answer):
        """The command that creates an object of a kind."""
        pd, page, gid, index = self.pd.handle, self.page.buf, gid_bytes(os.environ["ADDR"]), gid_index()
        number, *fields = {
            "domain": (uverbs.ALLOC_PD,),
            "handle": (uverbs.CREATE_AH, 0, pd, 0, gid, 0, index, 64, *[0] * 6, 1, 1, 0),
            "window": (uverbs.ALLOC_MW, pd, e.IBV_MW_TYPE_1, b""),
            "small_region": (uverbs.REG_MR, page, PAGE, page, pd, FULL_ACCESS),
        }[kind]
        return uverbs.command(number, answer, *fields)


def least_bytes(kind, count):
    """Minimum memory of that many objects of a kind. Reading the mappings is slow with thousands of MRs."""
    each = {"region": LEAST_REGION, "window": CHARGED["window"], "large_region": LEAST_SCATTERED}.get(kind)
    return count * each if each else ring_bytes(0)


def make_until_refused(kind, count):
    """In the group: creates and counts objects until the kernel refuses. Returns the exit code."""
    maker = Maker()
    if kind == "large_region":
        maker.scatter()
    move(GROUP)
    made = []
    try:
        while True:
            made.append(getattr(maker, kind)())
            # The parent reads these after an OOM kill.
            struct.pack_into("=QQ", count, 0, len(made), least_bytes(kind, len(made)))
    except PyverbsError as error:
        return REFUSED if error.error_code == errno.ENOMEM else STRANGE
    except MemoryError:
        return REFUSED


def make_many(kind, count):
    """In the group, on one CPU: creates enough objects for the charge to be visible. Returns the exit code."""
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
    # The figures are delayed: small changes appear only every few seconds.
    eventually(lambda: current_kernel(GROUP) - before > least, f"{wanted} of {kind} are charged for", 20)
    struct.pack_into("=QQ", count, 0, wanted, current_kernel(GROUP) - before)
    return 0


def forked(body, kind, count):
    """Runs body() in a forked process; returns its exit code."""
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
    """No object and no charge is left."""
    eventually(lambda: resources() == before, "no object is left")
    eventually(lambda: int(text_of("memory.current")) < NEXT_TO_NOTHING, "no charge is left", 20)
    print(f"# {int(text_of('memory.current')) >> 10} KiB are left", flush=True)


def bounded(kind, room=ROOM):
    """Tests the limit for one kind of object."""
    not_for_rxe("does not charge memory, and takes all of it")
    count, before = mmap.mmap(-1, PAGE), resources()
    with little_room(room):
        killed, bystander = kills(), Bystander()
        ended = forked(make_until_refused, kind, count)
        bystander.end()
        made, least = struct.unpack_from("=QQ", count)
        how = "refused" if ended == REFUSED else "killed"
        print(f"# {how} after {made} of {least >> 10} KiB at least", flush=True)
        true(ended == REFUSED or (ended == -signal.SIGKILL and kills() > killed), f"exit code {ended}")
        true(made, "no object was created")
        true(least <= room, f"{made} objects of {least} bytes exceed the limit")
        nothing_left(before)


def charged(kind):
    """Tests the charge for one kind of small object."""
    not_for_rxe("does not charge memory")
    count, before = mmap.mmap(-1, PAGE), resources()
    with little_room(ROOM):
        equal(forked(make_many, kind, count), 0, "exit code")
        made, cost = struct.unpack_from("=QQ", count)
        print(f"# charged for {cost >> 10} KiB, {cost / made:.0f} bytes each", flush=True)
        true(cost > made * CHARGED[kind] // 2, "some memory was not charged")
        nothing_left(before)


def queue_pairs():
    """The memory limit of a cgroup limits QPs"""
    bounded("queue_pair")


def completion_queues():
    """The memory limit of a cgroup limits CQs"""
    bounded("completion_queue")


def shared_queues():
    """The memory limit of a cgroup limits SRQs"""
    bounded("shared_queue")


def regions():
    """The memory limit of a cgroup limits MRs"""
    bounded("region")


def large_regions():
    """The memory limit of a cgroup limits large MRs by their page lists"""
    bounded("large_region")


def resized_queues():
    """The memory limit of a cgroup limits resized CQs"""
    bounded("resized_queue")


def windows():
    """The memory limit of a cgroup limits MWs"""
    # Destroying each window takes time.
    bounded("window", ROOM // 4)


def domains():
    """The driver's memory for PDs is charged to their creator and freed"""
    charged("domain")


def handles():
    """The driver's memory for AHs is charged to their creator and freed"""
    charged("handle")


def bare_windows():
    """The driver's memory for MWs is charged to their creator and freed"""
    charged("window")


def bare_regions():
    """The driver's memory for MRs is charged to their creator and freed"""
    charged("small_region")


if __name__ == "__main__":
    run([queue_pairs, completion_queues, shared_queues, regions, large_regions, resized_queues, windows,
         domains, handles, bare_windows, bare_regions])
