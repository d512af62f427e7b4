# SPDX-License-Identifier: GPL-2.0
"""The kernel's rdma cgroup: how many devices a group has open, and how many objects it has there.

That is the core's to count, of drivers that let it. It bounds what costs nobody's memory cgroup much, as protection
domains and address handles. What memory is charged for is in bounded.py.
"""

import contextlib
import errno
import os

from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.pd import PD

import memory
import uverbs
from flood import cgroups, move
from hostile_hand import device_path
from rc import PORT, eventually, gid_index, own_context
from tap import equal, run
from ud import gid_text
from verbs import refused

GROUP = "/sys/fs/cgroup/verbs"
DEVICES, OBJECTS = 2, 10


def text_of(name):
    """What a file of the group says of our device: count by kind, or nothing."""
    with open(f"{GROUP}/{name}", encoding="ascii") as file:
        lines = [line.split() for line in file]
    of_device = [words[1:] for words in lines if words[0] == os.environ["DEV"]]
    return dict(word.split("=") for words in of_device for word in words)


@contextlib.contextmanager
def narrow_group():
    """A group that may have few of everything. In the end it is removed."""
    with cgroups("rdma"):
        os.makedirs(GROUP, exist_ok=True)
        with open(f"{GROUP}/rdma.max", "w", encoding="ascii") as file:
            file.write(f"{os.environ['DEV']} hca_handle={DEVICES} hca_object={OBJECTS}")
        yield
        # It goes only when it is charged for nothing.
        os.rmdir(GROUP)


def in_group(body):
    """In a process of its own, which ends with what it has; then the group has nothing."""
    child = os.fork()
    if not child:
        code = 1
        try:
            move(GROUP)
            body()
            code = 0
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# {error!r}", flush=True)
        os._exit(code)
    equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "exit code of the process in the group")
    eventually(lambda: not any(map(int, text_of("rdma.current").values())), "nothing is counted")


def opens():
    """As many as it may, and once more."""
    held = [own_context() for _ in range(DEVICES)]
    memory.refused(errno.EAGAIN, lambda: uverbs.open_context(device_path()))
    equal(text_of("rdma.current")["hca_handle"], str(DEVICES))
    held.pop().close()
    held.append(own_context())


def makes(more):
    """A protection domain, and as many more objects as may be; what goes makes room."""
    def body():
        ctx = own_context()
        pd = PD(ctx)
        held = [more(ctx, pd) for _ in range(OBJECTS - 1)]
        refused(lambda: more(ctx, pd), errno.EAGAIN)
        equal(text_of("rdma.current")["hca_object"], str(OBJECTS))
        held.pop().close()
        held.append(more(ctx, pd))
        refused(lambda: more(ctx, pd), errno.EAGAIN)
    return body


def devices():
    """A group opens no more devices than it may"""
    with narrow_group():
        in_group(opens)


def domains():
    """It has no more protection domains than it may"""
    with narrow_group():
        in_group(makes(lambda ctx, pd: PD(ctx)))


def completion_queues():
    """Nor completion queues"""
    with narrow_group():
        in_group(makes(lambda ctx, pd: CQ(ctx, 1)))


def handles():
    """Nor address handles"""
    route = GlobalRoute(dgid=GID(gid_text(os.environ["ADDR"])), sgid_index=gid_index())
    with narrow_group():
        in_group(makes(lambda ctx, pd: AH(pd, attr=AHAttr(gr=route, is_global=1, port_num=PORT))))


if __name__ == "__main__":
    run([devices, domains, completion_queues, handles])
