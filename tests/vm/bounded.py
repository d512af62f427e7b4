# SPDX-License-Identifier: GPL-2.0
"""A process whose memory cgroup has little makes objects until the kernel says no.

It makes them of one kind, as large as they come, and gives nothing back. Either a verb fails with ENOMEM or the group's
OOM killer ends the process: both are right, and which it is depends on who asks for the last page. Not right is that it
may go on for longer than its group has room, that anything of it is left, or that somebody else suffers.
"""

import contextlib
import errno
import gc
import mmap
import os
import signal
import struct
import time

import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

from bystander import Bystander
from flood import memory_groups, move, ring_bytes
from rc import FULL_ACCESS, PAGE, eventually, own_context
from tap import not_for_rxe, run, true
from verbs import resources

GROUP = "/sys/fs/cgroup/bounded"
ROOM = 8 << 20
# What a process may keep of its group: each processor has charged some pages in advance.
NEXT_TO_NOTHING = 1 << 20
# What the kernel keeps for a region of one page, at least: itself, its key, its pages, its entry with the core.
LEAST_REGION = 512
REFUSED, STRANGE = 3, 4


def text_of(name):
    """A file of the group."""
    with open(f"{GROUP}/{name}", encoding="ascii") as file:
        return file.read()


def kills():
    """How many processes of the group its OOM killer has ended."""
    return int(dict(line.split() for line in text_of("memory.events").splitlines())["oom_kill"])


@contextlib.contextmanager
def little_room():
    """A group that has little memory. In the end nobody is in it, and it can be removed."""
    with memory_groups():
        os.makedirs(GROUP, exist_ok=True)
        with open(f"{GROUP}/memory.max", "w", encoding="ascii") as file:
            file.write(str(ROOM))
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


def least_bytes(kind, count):
    """What so many objects of a kind take at least. To look at the mappings takes long, with thousands of regions."""
    return count * LEAST_REGION if kind == "region" else ring_bytes(0)


def make_until_refused(kind, count):
    """In the group: makes and counts until it is refused. Returns the exit code."""
    maker = Maker()
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


def forked(kind, count):
    """Such a process; returns how it has ended."""
    child = os.fork()
    if not child:
        code = STRANGE
        try:
            gc.disable()
            code = make_until_refused(kind, count)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# {error!r}", flush=True)
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def bounded(kind):
    """One kind of object."""
    not_for_rxe("charges nobody, and takes all memory there is")
    count, before = mmap.mmap(-1, PAGE), resources()
    with little_room():
        killed, bystander = kills(), Bystander()
        ended = forked(kind, count)
        bystander.end()
        made, least = struct.unpack_from("=QQ", count)
        how = "refused" if ended == REFUSED else "killed"
        print(f"# {how} after {made} of {least >> 10} KiB at least", flush=True)
        true(ended == REFUSED or (ended == -signal.SIGKILL and kills() > killed), f"it ended with {ended}")
        true(made, "nothing could be made")
        true(least <= ROOM, f"{made} objects of {least} bytes cannot fit")
        eventually(lambda: resources() == before, "nothing is left")
        eventually(lambda: int(text_of("memory.current")) < NEXT_TO_NOTHING, "the group is charged for nothing", 20)
        print(f"# {int(text_of('memory.current')) >> 10} KiB are left", flush=True)


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


if __name__ == "__main__":
    run([queue_pairs, completion_queues, shared_queues, regions])
