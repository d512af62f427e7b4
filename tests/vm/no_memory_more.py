# SPDX-License-Identifier: GPL-2.0
"""Memory runs out, or copies fail, as in no_memory.py: verbs that change something that is there, or only look at it,
regions of other kinds, and the device itself.

What such a verb changes is afterwards as it was before, or as it was asked to be; it still works, and the same call
works right after.
"""

import errno
import os
import socket
import struct
import subprocess

import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

import dma_buf
import mapping
from memory import REREG_ACCESS, REREG_TRANS, owner, rereg
from no_memory import LACKING, MOST, Injection, attempt, close, each_failure
from odp import ON_DEMAND
from rc import FULL_ACCESS, PAGE, PORT, End, context, pair
from tap import equal, run, true
from ud import UdEnd
from work import OK, WRITE, status

# Of the kernel's rdma/rdma_netlink.h: attributes and messages.
NETLINK_RDMA, NEWLINK = 20, 5 << 10 | 3
DEV_NAME, NDEV_NAME, LINK_TYPE = 2, 51, 65
REQUEST_ACK = 5
NEW, NETDEV = "more0", "v1"


def each_time(action, check=lambda done: None, most=MOST):
    """Does something, whose result is not None, with a later failure each time until there is none left; `check` looks
    at what came of it. What failed succeeds right after."""
    for number in range(1, most):
        with Injection(number) as injection:
            done = attempt(action)
        check(done)
        if not injection.happened:
            true(done is not None, "nothing failed, and yet nothing was done")
            true(number > 1, "nothing could be made to fail")
            return
        if done is None:
            true(action() is not None, "the same call, right after")
            check(True)
    raise AssertionError(f"still failing after {most} times")


def resized_queues():
    """resize_cq: completions come, and none is lost"""
    with pair() as (a, b):
        sizes = iter(range(1000, 100000, 7))

        def resize():
            a.cq.resize(next(sizes))
            return True

        def used(_done):
            for wr_id in (3, 4):
                a.send(WRITE, wr_id=wr_id, pieces=[a.sge(0, 64)], remote=b.remote())
            equal([(wc.wr_id, wc.status) for wc in a.completions(2)], [(3, OK), (4, OK)], "completions")

        each_time(resize, used)


def modified_shared_queues():
    """modify_srq: as large as it was, or as it was to be"""
    domain = PD(context())
    queue = SRQ(domain, SrqInitAttr(SrqAttr(max_wr=64, max_sge=2)))
    state = {"now": queue.query().max_wr, "turn": 0}

    def modify():
        state["wanted"] = (100, 500)[state["turn"] % 2]
        queue.modify(SrqAttr(max_wr=state["wanted"]), e.IBV_SRQ_MAX_WR)
        return True

    def is_either(done):
        found = queue.query().max_wr
        true(found >= state["wanted"] if done else found == state["now"] or found >= state["wanted"],
             f"{found} receives, after {state}")
        if done:
            state["now"] = found
            state["turn"] += 1

    each_time(modify, is_either)
    queue.close()
    domain.close()


def regions_registered_again():
    """rereg_mr: other rights, another place"""
    end, region = owner()
    places = [mapping.Memory(4 * PAGE), mapping.Memory(64 * PAGE)]

    def again():
        place = places[again.turn % 2]
        again.turn += 1
        rereg(region, REREG_TRANS | REREG_ACCESS, place.address, place.length, place.address,
              access=FULL_ACCESS if again.turn % 3 else e.IBV_ACCESS_LOCAL_WRITE)
        return True

    again.turn = 0
    each_time(again)
    region.close()
    end.close()


def regions_on_demand():
    """reg_mr on demand, of memory that is there and of all there is"""
    domain = PD(context())
    held = mapping.Memory(64 * PAGE)
    each_failure(lambda: MR(domain, held.length, FULL_ACCESS | ON_DEMAND, address=held.address), close)
    held.write(bytes(held.length))
    each_failure(lambda: MR(domain, held.length, FULL_ACCESS | ON_DEMAND, address=held.address), close)
    domain.close()


def regions_of_buffers():
    """reg_dmabuf_mr"""
    buffer = dma_buf.of_file()
    end = End()
    each_failure(lambda: dma_buf.Region(end, buffer), close)
    end.close()
    os.close(buffer)


def groups():
    """attach_mcast: whoever is refused is no member, and can become one"""
    end = UdEnd()
    address = "239.1.1.9"
    # It learns the handle of its queue pair first.
    end.attach(address)
    end.detach(address)

    def attach():
        end.attach(address)
        return True

    def leave(done):
        if done:
            end.detach(address)

    each_time(attach, leave)
    end.close()


def questions():
    """query_device, query_port, query_qp, query_srq"""
    end, domain = End(), PD(context())
    queue = SRQ(domain, SrqInitAttr(SrqAttr(max_wr=64, max_sge=2)))
    port = context().query_port(PORT).state
    for ask, wanted in (
            (lambda: context().query_device().max_qp, context().query_device().max_qp),
            (lambda: context().query_port(PORT).state, port),
            (end.state, e.IBV_QPS_RESET),
            (lambda: queue.query().max_wr, queue.query().max_wr)):
        def right(done, wanted=wanted):
            if done not in (None, True):
                equal(done, wanted, "the answer")

        each_time(ask, right)
    queue.close()
    domain.close()
    end.close()


def attribute(kind, text):
    """One of netlink's."""
    data = text.encode() + b"\0"
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def add_link(link):
    """What `rdma link add` asks for, by this thread: a program of its own would fail long before it asks."""
    body = attribute(DEV_NAME, NEW) + attribute(LINK_TYPE, os.environ["DRIVER"]) + attribute(NDEV_NAME, NETDEV)
    link.send(struct.pack("=IHHII", 16 + len(body), NEWLINK, REQUEST_ACK, 1, 0) + body)
    error = -struct.unpack_from("=i", link.recv(4096), 16)[0]
    if error:
        raise OSError(error, os.strerror(error))
    return True


def exists():
    """Whether the device is there."""
    return os.path.exists(f"/sys/class/infiniband/{NEW}")


def devices():
    """rdma link add: the device is there, or nothing of it is"""
    gone, number = 0, 0
    while number < 50 * MOST:
        # There are hundreds, each of which takes a device: not each of the later ones is tried.
        number += 1 + number // 12
        # A new socket each time: one that was lost an answer would take it for that to the next question.
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA) as link:
            link.settimeout(60)
            with Injection(number) as injection:
                try:
                    made = add_link(link)
                except MemoryError:
                    made = None
                except OSError as error:
                    # Where the answer is what failed, it may be there nevertheless.
                    true(error.errno in (*LACKING, errno.ENOBUFS), f"errno {error.errno}")
                    made = None
            true(made is None or exists(), "it was made, and is not there")
            gone += not exists()
            if exists():
                subprocess.run(["rdma", "link", "del", NEW], check=True)
            true(not exists(), "it is there after it was deleted")
        if not injection.happened:
            true(made is not None, "nothing failed, and yet nothing was made")
            true(gone > 0, "it could not be made to fail")
            print(f"# up to failure {number}, {gone} without a device")
            return
    raise AssertionError("still failing")


if __name__ == "__main__":
    if os.environ["DRIVER"] == "rxe":
        TESTS = [questions]
    else:
        TESTS = [resized_queues, modified_shared_queues, regions_registered_again, regions_on_demand,
                 regions_of_buffers, groups, questions, devices]
    context()
    run(TESTS)
