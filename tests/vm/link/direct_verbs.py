# SPDX-License-Identifier: GPL-2.0
"""Verbs that ferroce's own provider has and librxe lacks: thread and parent domains, MRs of DMA buffers, advice, import
of contexts, times of completions, queues that may overrun, deep queues.
"""

import ctypes
import errno
import os
import struct
import time

from pyverbs.cq import CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.device import Context
from pyverbs.mr import MR, DmaBufMR
from pyverbs.pd import PD, ParentDomain, ParentDomainContext, ParentDomainInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR, SGE

import enums as e
import mapping
import ring_rxe
import udmabuf
import uverbs
from libibverbs import Library
from odp import Region
from rc import DEVICE, PAGE, End, async_event, context, forget_events, pair
from tap import equal, run, true
from verbs import device_number, refused
from work import OK, READ, SEND, WRITE, fill, held, pattern, status

PREFETCH_WRITE, FLUSH = 1, 1
SINGLE_THREADED, IGNORE_OVERRUN = 1, 2
TIMES = e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | e.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
DEEP = 32768
# Devices that librxe may drive report no clock: its completions have no time.
HAS_CLOCK = os.environ["PROVIDER"] == "direct"


class ExEnd(End):
    """An end whose CQ has attributes, and is polled field by field."""

    def __init__(self, cqe=256, **settings):
        self.attr_ex = {name: settings.pop(name) for name in ("wc_flags", "flags", "parent_domain") if name in settings}
        self.entries = cqe
        super().__init__(**settings)

    def make(self, maker):
        if hasattr(self, "cq"):
            return maker()
        mask = 0
        if "flags" in self.attr_ex:
            mask |= e.IBV_CQ_INIT_ATTR_MASK_FLAGS
        if "parent_domain" in self.attr_ex:
            mask |= e.IBV_CQ_INIT_ATTR_MASK_PD
        return CQEX(self.ctx, CqInitAttrEx(cqe=self.entries, comp_mask=mask, **self.attr_ex))

    def read(self, count, *fields, seconds=5):
        """Reads that many completions; returns (wr_id, status, field, ...) of each."""
        found, late = [], time.monotonic() + seconds * int(os.environ.get("SLOWNESS", "1"))
        while len(found) < count:
            true(time.monotonic() < late, f"{len(found)} of {count} completions")
            if self.cq.start_poll(PollCqAttr()):
                continue
            while True:
                found.append((self.cq.wr_id, self.cq.status, *(getattr(self.cq, f"read_{name}")() for name in fields)))
                if len(found) == count or self.cq.poll_next():
                    break
            self.cq.end_poll()
        return found


def connect(a, b):
    """Connects two ends."""
    a.to_rts(b)
    b.to_rts(a)


def close(*parts):
    """Closes the parts in this order."""
    for part in parts:
        part.close()


def write_and_read(a, b):
    """Moves bytes from a to b and back, by WRITE, READ and SEND."""
    data = pattern(5000, a.qp.qp_num)
    fill(a, data)
    a.send(WRITE, pieces=[a.sge(0, 5000)], remote=b.remote())
    b.receive(pieces=[b.sge(8000, 5000)])
    a.send(SEND, pieces=[a.sge(0, 5000)])
    a.send(READ, pieces=[a.sge(8000, 5000)], remote=b.remote())
    return data


def parent_domains():
    """A parent domain is used as the domain that it stands for, which stays as long"""
    domain = PD(context())
    parent = ParentDomain(context(), attr=ParentDomainInitAttr(pd=domain))
    a, b = End(pd=parent), End(pd=domain)
    connect(a, b)
    data = write_and_read(a, b)
    for end, count in ((a, 3), (b, 1)):
        equal({wc.status for wc in end.completions(count)}, {OK}, "statuses")
    equal((held(b, 5000), held(b, 5000, 8000), held(a, 5000, 8000)), (data,) * 3, "bytes")
    # An MR of the one serves the QP of the other.
    a.send(WRITE, pieces=[a.sge(0, 100, mr=b.mr)], remote=b.remote())
    status(a, OK, "write")
    close(a, b)
    close(parent, domain)


def allocators():
    """A parent domain with allocators is refused: the kernel allocates the queues"""
    with PD(context()) as domain:
        functions = ParentDomainContext(domain, lambda *_: 0, lambda *_: None)
        attr = ParentDomainInitAttr(pd=domain, pd_context=functions)
        refused(lambda: ParentDomain(context(), attr=attr), errno.EOPNOTSUPP)


def thread_domains():
    """QPs, CQs and SRQs are made in a thread domain, which goes last"""
    library = Library(DEVICE)
    domain = library.alloc_pd()
    thread = library.alloc_td()
    parent = library.alloc_parent_domain(domain, thread)
    equal(library.handle(parent), library.handle(domain), "handle of the parent domain")
    queue = library.create_cq_ex(parent)
    equal(library.modify_cq(queue, 8, 100), 0, "moderation")
    shared, qp = library.create_srq(parent), library.create_qp(parent, queue)
    equal(library.dealloc_td(thread), errno.EBUSY, "dealloc_td")
    equal(library.dealloc_pd(domain), errno.EBUSY, "dealloc_pd")
    equal((library.destroy_qp(qp), library.destroy_srq(shared), library.destroy_cq(queue)), (0, 0, 0), "destroy")
    equal((library.dealloc_pd(parent), library.dealloc_td(thread), library.dealloc_pd(domain)), (0, 0, 0), "dealloc")
    library.close()


def one_thread():
    """A CQ of one thread, in a parent domain, delivers all completions"""
    domain = PD(context())
    parent = ParentDomain(context(), attr=ParentDomainInitAttr(pd=domain))
    a = ExEnd(pd=parent, flags=SINGLE_THREADED, parent_domain=parent, wc_flags=e.IBV_WC_EX_WITH_BYTE_LEN)
    b = End(pd=parent)
    connect(a, b)
    for first in range(0, 3000, 50):
        for number in range(first, first + 50):
            a.send(WRITE, wr_id=number, pieces=[a.sge(0, 8)], remote=b.remote())
        equal(a.read(50), [(number, OK) for number in range(first, first + 50)], "completions")
    close(a, b)
    close(parent, domain)


def dma_buffers():
    """The verb registers a DMA buffer, in whole or in part"""
    buffer = udmabuf.of_file()
    seen = mapping.Memory(udmabuf.SIZE, flags=mapping.SHARED, fd=buffer)
    with pair() as (a, b):
        for offset, length in ((0, udmabuf.SIZE), (3 * PAGE + 5, 2 * PAGE)):
            region = DmaBufMR(b.pd, length, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE, dmabuf=buffer,
                              offset=offset)
            data = pattern(3000, offset)
            fill(a, data)
            # The binding makes the offset the address, too.
            a.send(WRITE, pieces=[a.sge(0, 3000)], remote=(offset + 100, region.rkey))
            status(a, OK, "write")
            equal(seen.read(3000, offset + 100), data, "bytes")
            region.close()
        refused(lambda: DmaBufMR(b.pd, PAGE, 0, dmabuf=buffer, offset=udmabuf.SIZE), errno.EINVAL)
        refused(lambda: DmaBufMR(b.pd, PAGE, 0, dmabuf=0, offset=0), errno.EINVAL)
    seen.unmap()
    os.close(buffer)


def advice():
    """The verb that advises prefetches memory on demand, and fails for other memory"""
    with pair() as (_, b):
        region = Region(b, mapping.Memory(64 * PAGE))
        equal(region.held.resident(), 0, "resident bytes")
        b.pd.advise_mr(PREFETCH_WRITE, FLUSH, region.sge(32 * PAGE))
        equal(region.held.resident(), 32 * PAGE, "resident bytes")
        refused(lambda: b.pd.advise_mr(PREFETCH_WRITE, FLUSH, [SGE(b.mr.buf, 8, b.mr.lkey)]))
        region.close()
        region.held.unmap()


def in_child(function):
    """Runs a function in a forked process, which must return."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        function()
        code = 0
    except BaseException as error:  # pylint: disable=broad-except
        print(f"# {error!r}", flush=True)
    os._exit(code)


def use_import(fd, handles, remote, way):
    """Imports a context, a PD and an MR, and writes from that MR to remote memory, as another process would."""
    ctx = Context(cmd_fd=fd)
    domain = PD(ctx, handle=handles[0])
    region = MR(domain, handle=handles[1])
    end = End(ctx=ctx, pd=domain)
    os.write(way[1], struct.pack("=I", end.qp.qp_num))
    peer, = struct.unpack("=I", os.read(way[0], 4))
    end.to_rts(peer)
    end.send(WRITE, pieces=[SGE(remote[2], 1000, region.lkey)], remote=remote[:2])
    status(end, OK, "write")
    # Objects of this process go; those that were imported stay.
    end.close()
    region.unimport()
    domain.unimport()
    ctx.close()


def imports():
    """Another process imports a context, a domain and a region, and uses them"""
    a, b = End(), End()
    data = pattern(1000, 3)
    fill(a, data)
    to_child, to_parent = os.pipe(), os.pipe()
    fd = os.dup(a.ctx.cmd_fd)
    child = in_child(lambda: use_import(fd, (a.pd.handle, a.mr.handle), (*b.remote(), a.mr.buf),
                                        (to_child[0], to_parent[1])))
    os.close(fd)
    peer, = struct.unpack("=I", os.read(to_parent[0], 4))
    b.to_rts(peer)
    os.write(to_child[1], struct.pack("=I", b.qp.qp_num))
    equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "exit code of the other process")
    equal(held(b, 1000), data, "bytes")
    for end in to_child + to_parent:
        os.close(end)
    a.close()
    b.close()
    # The region that was imported is still there, and was not freed by the other process.
    with pair() as (one, two):
        write_and_read(one, two)


def import_of_others():
    """A file without a context, or with one of another ABI, is not imported"""
    path = f"/dev/infiniband/uverbs{device_number()}"
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    refused(lambda: Context(cmd_fd=fd))
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    error = uverbs.get_context(fd, ring_rxe)
    equal(error, errno.EOPNOTSUPP if HAS_CLOCK else 0, "a context of the ABI of rdma_rxe")
    refused(lambda: Context(cmd_fd=fd))


def timestamps():
    """Completions have the time at which they came, of both clocks"""
    attr = context().query_device_ex()
    equal((attr.hca_core_clock, attr.completion_timestamp_mask),
          (1_000_000, 2**64 - 1) if HAS_CLOCK else (0, 0), "clock of the device")
    a, b = ExEnd(wc_flags=TIMES), End()
    connect(a, b)
    before, wall = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), time.time_ns()
    for number in range(20):
        a.send(WRITE, wr_id=number, pieces=[a.sge(0, 8)], remote=b.remote())
        time.sleep(0.001)
    found = a.read(20, "timestamp", "completion_wallclock_ns")
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    times = [entry[2] for entry in found]
    equal(times, sorted(times), "order of times")
    true(before < times[0] and times[-1] < after, f"{times} of {before}..{after}")
    true(times[-1] - times[0] >= 15_000_000, f"{times[-1] - times[0]} ns in all")
    for _, _, stamp, clock in found:
        true(abs(clock - wall - (stamp - before)) < 1_000_000_000, f"{clock} is not {stamp}")
    now = context().query_rt_values_ex()
    true(times[-1] < now[0] * 1_000_000_000 + now[1], "the clock of the device")
    close(a, b)


def overrun():
    """A CQ that ignores overruns loses completions, and nothing else happens"""
    forget_events()
    a, b = ExEnd(cqe=16, wr=256, flags=IGNORE_OVERRUN, wc_flags=e.IBV_WC_EX_WITH_BYTE_LEN), End()
    connect(a, b)
    for number in range(100):
        a.send(WRITE, wr_id=number, pieces=[a.sge(0, 8)], remote=b.remote())
    last = [a.sge(100, 8)]
    fill(a, b"the last", 100)
    a.send(WRITE, wr_id=100, pieces=last, remote=b.remote(100))
    late = time.monotonic() + 10
    while held(b, 8, 100) != b"the last":
        true(time.monotonic() < late, "the last write")
    equal(async_event(0.2), None, "event")
    equal(a.state(), e.IBV_QPS_RTS, "state")
    equal(a.read(16), [(number, OK) for number in range(16)], "those that were kept")
    for number in range(200, 210):
        a.send(WRITE, wr_id=number, pieces=[a.sge(0, 8)], remote=b.remote())
    equal(a.read(10), [(number, OK) for number in range(200, 210)], "those that follow")
    close(a, b)
    refused(lambda: ExEnd(flags=1 << 2), errno.EOPNOTSUPP, errno.EINVAL)


def deep_queues():
    """Queues of 32 768 requests are filled and emptied, and grow"""
    attr = context().query_device()
    true(min(attr.max_qp_wr, attr.max_srq_wr) >= DEEP and attr.max_cqe >= 2 * DEEP, "limits")
    a, b = End(wr=DEEP, sge=1, cqe=DEEP), End(wr=DEEP, sge=1, cqe=256)
    b.cq.resize(DEEP)
    connect(a, b)
    for number in range(DEEP):
        b.receive(number, [b.sge(0, 8)])
    refused(lambda: [b.receive(number, [b.sge(0, 8)]) for number in range(DEEP + 1)], errno.ENOMEM)
    for number in range(DEEP):
        a.send(SEND, wr_id=number, pieces=[a.sge(0, 8)])
    for end in (a, b):
        found = end.completions(DEEP, 60)
        equal([wc.wr_id for wc in found], list(range(DEEP)), "order")
        equal({wc.status for wc in found}, {OK}, "statuses")
    close(a, b)
    with PD(context()) as domain, MR(domain, PAGE, e.IBV_ACCESS_LOCAL_WRITE) as region:
        shared = SRQ(domain, SrqInitAttr(SrqAttr(max_wr=DEEP, max_sge=1)))
        for number in range(DEEP):
            shared.post_recv(RecvWR(wr_id=number, num_sge=1, sg=[SGE(region.buf, 8, region.lkey)]))
        shared.close()


def forked():
    """A process forks with ibv_fork_init: its own memory regions stay its own"""
    with pair() as (a, b):
        fill(a, b"before")
        child = in_child(lambda: None)
        fill(a, b"behind")
        a.send(WRITE, pieces=[a.sge(0, 6)], remote=b.remote())
        status(a, OK, "write")
        equal(held(b, 6), b"behind", "bytes")
        equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "exit code of the child")


TESTS = [parent_domains, allocators, thread_domains, one_thread, dma_buffers, advice, imports, import_of_others,
         timestamps, overrun, deep_queues, forked]

if __name__ == "__main__":
    # Before the first use of a device.
    equal(ctypes.CDLL("libibverbs.so.1").ibv_fork_init(), 0, "ibv_fork_init")
    run(TESTS)
