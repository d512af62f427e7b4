# SPDX-License-Identifier: GPL-2.0
"""Memory on demand as an application sees it: pages are absent at first and may be reclaimed at any time, and all
bytes are right. An access without memory ends with the expected status, and blocks nothing else.
"""

import contextlib
import os
import random
import resource

from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE

import enums as e
import mapping
from mapping import HUGE, Memory
from rc import FULL_ACCESS, PAGE, context, eventually, pair
from tap import Skip, equal, not_for_rxe, true
from work import OK, READ, SEND, WRITE, pattern, status

SEED = int(os.environ.get("SEED", "4791"))
ON_DEMAND = e.IBV_ACCESS_ON_DEMAND
ALL = 0xFFFFFFFFFFFFFFFF
# Lengths around a page, a packet and a huge page of 2 MiB.
LENGTHS = (1, 100, PAGE - 1, PAGE, PAGE + 1, 65536, HUGE + 5)


class Region:
    """Memory of this process, registered on demand in the domain of one end."""

    def __init__(self, end, held, access=FULL_ACCESS, length=None):
        self.held = held
        self.mr = MR(end.pd, length or held.length, access | ON_DEMAND, address=held.address)

    def sge(self, length, offset=0):
        """Returns a scatter/gather list of one SGE."""
        return [SGE(self.held.address + offset, length, self.mr.lkey)]

    def remote(self, offset=0):
        """Returns address and rkey for a peer."""
        return self.held.address + offset, self.mr.rkey

    def close(self):
        """Deregisters the region."""
        self.mr.close()


@contextlib.contextmanager
def regions(size=4 * HUGE, near=None, far=None, **settings):
    """Two connected ends, each with a region of untouched memory."""
    with pair(**settings) as (a, b):
        here, there = Region(a, near or Memory(size)), Region(b, far or Memory(size))
        yield a, b, here, there
        here.close()
        there.close()


def untouched():
    """SEND, WRITE and READ work with untouched memory"""
    chance = random.Random(SEED)
    with regions() as (a, b, here, there):
        for seed, length in enumerate(LENGTHS):
            for opcode in (SEND, WRITE, READ):
                for region in (here, there):
                    region.held.advise(mapping.DONTNEED)
                offset = chance.randrange(PAGE)
                source, target = (there, here) if opcode == READ else (here, there)
                source.held.write(pattern(length, seed), offset)
                if opcode == SEND:
                    b.receive(pieces=there.sge(length, 7))
                    a.send(SEND, pieces=here.sge(length, offset))
                    status(b, OK, f"receive of {length}", 30)
                elif opcode == WRITE:
                    a.send(WRITE, pieces=here.sge(length, offset), remote=there.remote(7))
                else:
                    a.send(READ, pieces=here.sge(length, 7), remote=there.remote(offset))
                status(a, OK, f"opcode {opcode}, {length} bytes", 30)
                true(target.held.read(length, 7) == pattern(length, seed), f"opcode {opcode}, {length} bytes")


def unreliable():
    """UC SEND and WRITE work with untouched memory at both ends"""
    service = {"service": e.IBV_QPT_UC}
    with regions(a=service, b=service) as (a, b, here, there):
        for seed, length in enumerate(LENGTHS[:-1]):
            data = pattern(length, seed)
            for opcode in (SEND, WRITE):
                there.held.advise(mapping.DONTNEED)
                here.held.write(data, 9)
                # Runs the MMU notifiers for all pages; their bytes stay.
                mapping.take_all_pages()
                b.receive(pieces=there.sge(length, 7))
                if opcode == SEND:
                    a.send(SEND, pieces=here.sge(length, 9))
                else:
                    a.send(e.IBV_WR_RDMA_WRITE_WITH_IMM, pieces=here.sge(length, 9), remote=there.remote(7))
                status(a, OK, f"opcode {opcode}, {length} bytes", 30)
                status(b, OK, f"receive of {length} bytes", 30)
                true(there.held.read(length, 7) == data, f"opcode {opcode}, {length} bytes")
        there.held.unmap(HUGE)
        a.send(WRITE, pieces=here.sge(9), remote=there.remote(HUGE))
        status(a, OK, "UC reports no remote error")
        b.receive(pieces=there.sge(8))
        a.send(SEND, pieces=here.sge(8))
        status(b, OK, "a message after a WRITE to unmapped memory")
        here.held.unmap()
        a.send(SEND, pieces=here.sge(8))
        status(a, OK, "the SEND before")
        status(a, e.IBV_WC_LOC_PROT_ERR, "a SEND from unmapped memory", 30)
        equal(a.state(), e.IBV_QPS_SQE)


def shared_receives():
    """Receives of a shared queue work with untouched memory"""
    with PD(context()) as domain, SRQ(domain, SrqInitAttr(SrqAttr(64, 4))) as queue:
        with pair(b={"srq": queue, "pd": domain}) as (a, b):
            here, there = Region(a, Memory(HUGE)), Region(b, Memory(4 * HUGE))
            for number in range(40):
                offset = number * 3 * PAGE + 5
                queue.post_recv(RecvWR(wr_id=offset, num_sge=1, sg=there.sge(2 * PAGE, offset)))
            for number in range(40):
                data = pattern(PAGE + 100, number)
                here.held.write(data)
                a.send(SEND, pieces=here.sge(len(data)))
                status(a, OK, "send", 30)
                got = status(b, OK, "receive", 30)
                equal(there.held.read(got.byte_len, got.wr_id), data, f"receive {number}")
            queue.post_recv(RecvWR(wr_id=1, num_sge=1, sg=there.sge(PAGE)))
            there.held.unmap()
            a.send(SEND, pieces=here.sge(8))
            status(a, e.IBV_WC_REM_OP_ERR, "send to unmapped memory", 30)
            equal(status(b, e.IBV_WC_LOC_PROT_ERR, "receive to unmapped memory", 30).wr_id, 1)
            here.close()
            there.close()


def windows():
    """A window gives a peer access to untouched memory, and only within its bounds"""
    for kind in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2):
        with pair() as (a, b):
            here, there = Region(a, Memory(HUGE)), Region(b, Memory(HUGE), FULL_ACCESS | e.IBV_ACCESS_MW_BIND)
            rights = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
            with MW(b.pd, kind) as window:
                request = SendWR(wr_id=1, opcode=e.IBV_WR_BIND_MW)
                request.set_bind_wr(window, MWBindInfo(there.mr, there.held.address + 100, 5 * PAGE, rights))
                b.qp.post_send(request)
                status(b, OK, "bind")
                for seed in range(5):
                    data = pattern(4 * PAGE, seed)
                    here.held.write(data)
                    there.held.advise(mapping.DONTNEED)
                    remote = (there.held.address + 100 + PAGE, request.rkey)
                    a.send(WRITE, pieces=here.sge(len(data)), remote=remote)
                    status(a, OK, "write")
                    a.send(READ, pieces=here.sge(len(data), 64 * PAGE), remote=remote)
                    status(a, OK, "read")
                    equal(here.held.read(len(data), 64 * PAGE), data)
                    equal(there.held.read(len(data), 100 + PAGE), data)
                not_for_rxe("checks the bounds of the region only")
                there.held.advise(mapping.DONTNEED)
                a.send(WRITE, pieces=here.sge(4 * PAGE + 1), remote=remote)
                status(a, e.IBV_WC_REM_ACCESS_ERR, "one byte beyond")
                equal(there.held.read(6 * PAGE, 0), bytes(6 * PAGE), "nothing was written")
            here.close()
            there.close()


def zeros():
    """Memory that was never written is read as zeros"""
    with regions() as (a, b, here, there):
        here.held.write(pattern(3 * PAGE, 1))
        a.send(READ, pieces=here.sge(3 * PAGE), remote=there.remote(HUGE - PAGE))
        status(a, OK, "read")
        equal(here.held.read(3 * PAGE), bytes(3 * PAGE))
        a.send(WRITE, pieces=here.sge(2 * PAGE, HUGE), remote=there.remote(5))
        status(a, OK, "write")
        del b


def not_pinned():
    """A region may exceed RLIMIT_MEMLOCK, and pins no memory"""
    limits = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (PAGE, limits[1]))
    size = 1 << 36
    try:
        with regions(far=Memory(size)) as (a, _, here, there):
            here.held.write(b"here")
            for place in (0, 1 << 30, size - 4):
                a.send(WRITE, pieces=here.sge(4), remote=there.remote(place))
                status(a, OK, f"write at {place:#x}")
                equal(there.held.read(4, place), b"here")
            true(there.held.resident() < 64 * HUGE, "resident memory")
            there.held.unmap()
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, limits)


def other_pages():
    """Replaced pages are neither written nor read any more"""
    with regions(size=HUGE) as (a, _, here, there):
        for seed in range(20):
            data = pattern(3 * PAGE, seed)
            here.held.write(data)
            a.send(WRITE, pieces=here.sge(len(data)), remote=there.remote(PAGE))
            status(a, OK, "write")
            equal(there.held.read(len(data), PAGE), data)
            if seed % 2:
                there.held.advise(mapping.DONTNEED)
            else:
                Memory(HUGE, at=there.held.address)
            equal(there.held.read(len(data), PAGE), bytes(len(data)), "new memory")
            there.held.write(data[::-1], PAGE)
            a.send(READ, pieces=here.sge(len(data), 9 * PAGE), remote=there.remote(PAGE))
            status(a, OK, "read")
            equal(here.held.read(len(data), 9 * PAGE), data[::-1])


def forked():
    """After a fork parent and child have separate pages: data goes to the parent"""
    with regions(size=HUGE) as (a, _, here, there):
        for seed in range(5):
            old, new = pattern(5 * PAGE, seed), pattern(5 * PAGE, seed + 100)
            here.held.write(old)
            a.send(WRITE, pieces=here.sge(len(old)), remote=there.remote())
            status(a, OK, "write")
            gate, go = os.pipe()
            child = os.fork()
            if child == 0:
                os.read(gate, 1)
                same = there.held.read(len(old)) == old and here.held.read(len(old)) == old
                os._exit(0 if same else 1)
            here.held.write(new)
            a.send(WRITE, pieces=here.sge(len(new)), remote=there.remote())
            status(a, OK, "write after fork")
            os.write(go, b"x")
            equal(os.waitpid(child, 0)[1], 0, "the child sees the old bytes")
            equal(there.held.read(len(new)), new, "the parent sees the new bytes")
            os.close(gate)
            os.close(go)


def read_only():
    """Memory mapped read-only is read, but not written"""
    with regions(size=HUGE) as (a, b, here, there):
        there.held.write(b"mine")
        there.held.protect(mapping.READ)
        a.send(READ, pieces=here.sge(4), remote=there.remote())
        status(a, OK, "read")
        equal(here.held.read(4), b"mine")
        a.send(WRITE, pieces=here.sge(4, 8), remote=there.remote())
        status(a, e.IBV_WC_REM_ACCESS_ERR, "write")
        equal(there.held.read(4), b"mine")
        eventually(lambda: b.state() == e.IBV_QPS_ERR, "the peer's queue pair fails")


def protected_and_back():
    """Memory that was write-protected for a while is written again"""
    with regions(size=HUGE) as (a, _, here, there):
        for seed in range(20):
            there.held.protect(mapping.READ)
            there.held.protect(mapping.READ | mapping.WRITE)
            here.held.write(pattern(PAGE, seed))
            a.send(WRITE, pieces=here.sge(PAGE), remote=there.remote())
            status(a, OK, "write")
            equal(there.held.read(PAGE), pattern(PAGE, seed))


def holes():
    """Each access to unmapped memory ends with its status"""
    wanted = {"write": e.IBV_WC_REM_ACCESS_ERR, "read": e.IBV_WC_REM_ACCESS_ERR, "receive": e.IBV_WC_REM_OP_ERR,
              "send": e.IBV_WC_LOC_PROT_ERR, "fetch": e.IBV_WC_LOC_PROT_ERR}
    for kind, code in wanted.items():
        # The hole begins in the middle, so the memory before it exists.
        with regions(size=64 * PAGE) as (a, b, here, there):
            remote, local = there.remote(), here.sge(64 * PAGE)
            (there if kind in ("write", "read", "receive") else here).held.unmap(32 * PAGE)
            if kind in ("receive", "send"):
                b.receive(pieces=there.sge(64 * PAGE))
                a.send(SEND, pieces=local)
            else:
                a.send(READ if kind in ("read", "fetch") else WRITE, pieces=local, remote=remote)
            status(a, code, kind, 30)
            if kind == "receive":
                status(b, e.IBV_WC_LOC_PROT_ERR, "the receive itself", 30)


def blamed():
    """The request whose memory is missing fails, not another one that waits for memory too"""
    with regions(size=64 * PAGE) as (a, _, here, there):
        gone = Region(a, Memory(PAGE))
        gone.held.unmap()
        a.send(READ, pieces=here.sge(PAGE), remote=there.remote())
        a.send(WRITE, pieces=gone.sge(8), remote=there.remote(PAGE))
        status(a, OK, "the READ", 30)
        status(a, e.IBV_WC_LOC_PROT_ERR, "the WRITE from unmapped memory", 30)
        gone.close()
    # At the peer, whether a WRITE arrives while the READ waits is a matter of chance.
    for _ in range(10):
        with regions(size=64 * PAGE) as (a, b, here, there):
            gone = Region(b, Memory(PAGE))
            gone.held.unmap()
            a.send(READ, pieces=here.sge(PAGE), remote=gone.remote())
            for page in range(20):
                a.send(WRITE, pieces=here.sge(8), remote=there.remote(page * PAGE))
            status(a, e.IBV_WC_REM_ACCESS_ERR, "a READ from unmapped memory", 30)
            gone.close()


def outside():
    """The bounds and rights of a region are those of its registration"""
    local, reading = e.IBV_ACCESS_LOCAL_WRITE, e.IBV_ACCESS_REMOTE_READ
    for access, opcode, offset in ((FULL_ACCESS, WRITE, 4), (FULL_ACCESS, READ, -1), (local, READ, 0),
                                   (reading, WRITE, 0)):
        with pair() as (a, b):
            here = Region(a, Memory(HUGE))
            there = Region(b, Memory(HUGE), access, PAGE - 8)
            a.send(opcode, pieces=here.sge(PAGE - 8), remote=there.remote(offset))
            status(a, e.IBV_WC_REM_ACCESS_ERR, f"{opcode} at {offset}")
            here.close()
            there.close()


def implicit():
    """An implicit region covers all memory, also memory mapped later"""
    not_for_rxe("no implicit on-demand paging")
    with pair() as (a, b):
        near = MR(a.pd, 0, FULL_ACCESS | ON_DEMAND, implicit=True)
        far = MR(b.pd, 0, FULL_ACCESS | ON_DEMAND, implicit=True)
        held = []
        for seed in range(150):
            source, target = Memory(3 * PAGE), Memory(3 * PAGE)
            # Mapped far from each other.
            held += [source, target, Memory(HUGE * 4)]
            data = pattern(2 * PAGE + 5, seed)
            source.write(data, 77)
            place = target.address + 9
            a.send(WRITE, pieces=[SGE(source.address + 77, len(data), near.lkey)], remote=(place, far.rkey))
            status(a, OK, f"write {seed}")
            equal(target.read(len(data), 9), data)
        gone = held.pop()
        gone.unmap()
        a.send(WRITE, pieces=[SGE(held[0].address, 8, near.lkey)], remote=(gone.address, far.rkey))
        status(a, e.IBV_WC_REM_ACCESS_ERR, "unmapped memory")
        near.close()
        far.close()
        for one in held:
            one.unmap()


def implicit_ends():
    """An implicit region ends at the end of the user address space"""
    not_for_rxe("no implicit on-demand paging")
    for place in (0, 4, ALL - 7, 1 << 47, 0xFFFF800000000000):
        with pair() as (a, b):
            far = MR(b.pd, 0, FULL_ACCESS | ON_DEMAND, implicit=True)
            a.send(WRITE, pieces=[a.sge(0, 8)], remote=(place, far.rkey))
            status(a, e.IBV_WC_REM_ACCESS_ERR, hex(place))
            far.close()


def huge_pages():
    """Huge pages work, with and without the flag"""
    size = mapping.huge_page()
    if not size:
        raise Skip("no huge pages in this kernel")
    try:
        one = Memory(2 * size, huge=True)
    except OSError as error:
        raise Skip("no huge pages") from error
    with pair() as (a, b):
        here = Region(a, Memory(2 * HUGE))
        start = size - HUGE + PAGE
        flags = (0,) if os.environ["DRIVER"] == "rxe" else (0, e.IBV_ACCESS_HUGETLB)
        for seed, flag in enumerate(flags):
            there = Region(b, one, FULL_ACCESS | flag)
            data = pattern(HUGE + 3 * PAGE, seed)
            here.held.write(data)
            a.send(WRITE, pieces=here.sge(len(data)), remote=there.remote(start))
            status(a, OK, "write", 30)
            true(one.read(len(data), start) == data, "bytes in huge pages")
            one.advise(mapping.DONTNEED)
            a.send(READ, pieces=here.sge(PAGE), remote=there.remote(size))
            status(a, OK, "read")
            equal(here.held.read(PAGE), bytes(PAGE))
            there.close()
        here.close()
    one.unmap()


def written_back():
    """Bytes written to a mapped file reach the file"""
    name = "/tmp/odp.data"
    with open(name, "wb+") as file:
        file.truncate(HUGE)
        shared = Memory(HUGE, flags=mapping.SHARED, fd=file.fileno())
        with regions(far=shared) as (a, _, here, there):
            for seed in range(10):
                data = pattern(9 * PAGE, seed)
                here.held.write(data)
                a.send(WRITE, pieces=here.sge(len(data)), remote=there.remote(100))
                status(a, OK, "write")
                os.fsync(file.fileno())
                with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as drop:
                    drop.write("1")
                equal(os.pread(file.fileno(), len(data), 100), data)
        shared.unmap()
    os.unlink(name)


def swapped():
    """Written bytes survive swap, also in clean pages"""
    if not os.path.exists("/proc/swaps"):
        raise Skip("no swap in this kernel")
    with open("/proc/swaps", encoding="ascii") as file:
        if len(file.readlines()) < 2:
            raise Skip("no swap")
    with regions(size=HUGE) as (a, _, here, there):
        data = b""
        for seed in range(30):
            if data:
                # Read back into memory, so that the pages equal those in swap.
                equal(there.held.read(len(data)), data)
            data = pattern(16 * PAGE, seed)
            here.held.write(data)
            here.held.advise(mapping.PAGEOUT)
            a.send(WRITE, pieces=here.sge(len(data)), remote=there.remote())
            status(a, OK, "write")
            there.held.advise(mapping.PAGEOUT)
        equal(there.held.read(len(data)), data)


def refused():
    """Registration of an impossible range fails"""
    not_for_rxe("other limits")
    with pair() as (a, _):
        for address, length in ((PAGE, 0), (ALL - PAGE + 1, 2 * PAGE)):
            try:
                MR(a.pd, length, FULL_ACCESS | ON_DEMAND, address=address).close()
            except (PyverbsRDMAError, OverflowError):
                continue
            raise AssertionError(f"{length:#x} bytes at {address:#x}")


TESTS = [untouched, unreliable, shared_receives, windows, zeros, not_pinned, other_pages, forked, read_only,
         protected_and_back, holes, blamed, outside, implicit, implicit_ends, huge_pages, written_back, swapped,
         refused]
