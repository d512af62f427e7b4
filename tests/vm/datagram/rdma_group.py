# SPDX-License-Identifier: GPL-2.0
"""The kernel's rdma cgroup: limits on the open devices and objects of a group.

The core counts them for the drivers. The limits cover objects that cost little memory, such as PDs and AHs;
bounded.py tests what is charged to the memory cgroup.
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
    """Returns the counts of our device in a file of the group, by kind."""
    with open(f"{GROUP}/{name}", encoding="ascii") as file:
        lines = [line.split() for line in file]
    of_device = [words[1:] for words in lines if words[0] == os.environ["DEV"]]
    return dict(word.split("=") for words in of_device for word in words)


def limit(devices, objects):
    """Sets the limits of the group for our device."""
    with open(f"{GROUP}/rdma.max", "w", encoding="ascii") as file:
        file.write(f"{os.environ['DEV']} hca_handle={devices} hca_object={objects}")


@contextlib.contextmanager
def narrow_group():
    """Creates a group with low limits, and removes it at the end."""
    with cgroups("rdma"):
        os.makedirs(GROUP, exist_ok=True)
        limit(DEVICES, OBJECTS)
        yield
        # Before 7.1 a group that is removed with limits leaves them behind, and the kernel dies when the device goes.
        limit("max", "max")
        # rmdir fails unless all charges are gone.
        os.rmdir(GROUP)


def in_group(body):
    """Runs the body in a child process in the group. After it ends, nothing is charged."""
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
    """Opens the maximum number of devices, and one more."""
    held = [own_context() for _ in range(DEVICES)]
    memory.refused(errno.EAGAIN, lambda: uverbs.open_context(device_path()))
    equal(text_of("rdma.current")["hca_handle"], str(DEVICES))
    held.pop().close()
    held.append(own_context())


def makes(more):
    """Returns a body that creates a PD and the maximum number of other objects; closing one makes room."""
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
    """A group cannot open more devices than its limit"""
    with narrow_group():
        in_group(opens)


def domains():
    """A group cannot create more protection domains than its limit"""
    with narrow_group():
        in_group(makes(lambda ctx, pd: PD(ctx)))


def completion_queues():
    """A group cannot create more completion queues than its limit"""
    with narrow_group():
        in_group(makes(lambda ctx, pd: CQ(ctx, 1)))


def handles():
    """A group cannot create more address handles than its limit"""
    route = GlobalRoute(dgid=GID(gid_text(os.environ["ADDR"])), sgid_index=gid_index())
    with narrow_group():
        in_group(makes(lambda ctx, pd: AH(pd, attr=AHAttr(gr=route, is_global=1, port_num=PORT))))


if __name__ == "__main__":
    run([devices, domains, completion_queues, handles])
