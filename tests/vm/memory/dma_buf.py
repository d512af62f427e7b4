# SPDX-License-Identifier: GPL-2.0
"""MRs of DMA buffers: memory that another driver exports and that a process holds by a descriptor.

The provider library of rdma-core for this ABI has no such verb, so the test calls the kernel directly.
"""

import ctypes
import errno
import fcntl
import os
import signal
import struct

from pyverbs.mr import MR

import enums as e
import mapping
from atomics import ADD, ATOMIC, SWAP, atomic, number
from counters import counter
from mapping import Memory
from memory import REREG_ACCESS, REREG_TRANS, refused, rereg
from mistakes import both_failed
from rc import FULL_ACCESS, PAGE, End, across, eventually, forget_events, own_context, pair
from tap import Skip, equal, not_for_rxe, run
from udmabuf import SIZE, of_file
from uverbs import DEREG_MR, issue, reg_dmabuf_mr, request
from work import OK, READ, SEND, WRITE, fill, held, pattern, status

HEAP, BUFFERS = "/dev/dma_heap/system", "/sys/kernel/debug/dma_buf/bufinfo"
HEAP_ALLOC = 0xC0184800
DATA = pattern(SIZE, 5)
IOVA = 0x123456780000


def of_heap(flags=os.O_RDWR):
    """Creates a buffer of new pages (the system heap); returns its descriptor."""
    if not os.path.exists(HEAP):
        raise Skip(f"{HEAP} (CONFIG_DMABUF_HEAPS_SYSTEM)")
    heap = os.open(HEAP, os.O_RDONLY | os.O_CLOEXEC)
    asked = bytearray(struct.pack("=QIIQ", SIZE, 0, flags | os.O_CLOEXEC, 0))
    fcntl.ioctl(heap, HEAP_ALLOC, asked)
    os.close(heap)
    return struct.unpack("=QIIQ", asked)[1]


class Region:
    """An MR of a buffer; the constructor raises OSError."""

    def __init__(self, end, buffer, length=SIZE, offset=0, iova=IOVA, access=ATOMIC):
        not_for_rxe("has no MRs of DMA buffers")
        self.fd = end.ctx.cmd_fd
        place = offset, length, iova
        error, self.handle, (self.lkey, self.rkey) = reg_dmabuf_mr(self.fd, end.pd.handle, place, buffer, access)
        if error:
            raise OSError(error, os.strerror(error))
        self.buf, self.length = iova, length

    def close(self):
        """Deregisters it."""
        equal(issue(self.fd, request(DEREG_MR, struct.pack("=I", self.handle), 0)), 0, "deregistration")


def ends():
    """Two connected ends: of one device, or of two devices in two namespaces."""
    both = {"a": {"access": ATOMIC, "size": SIZE}, "b": {"access": ATOMIC, "size": SIZE}, "rights": ATOMIC}
    return across(**both) if os.environ["TOPOLOGY"] == "netns" else pair(**both)


def buffers():
    """Number of DMA buffers in the kernel."""
    if not os.path.exists(BUFFERS):
        raise Skip(f"{BUFFERS} (debugfs)")
    with open(BUFFERS, encoding="ascii") as file:
        return int(file.read().rsplit("Total ", 1)[1].split()[0])


def use(buffer):
    """Uses an MR of a buffer in every way: as the target and source of a peer, and locally."""
    seen = Memory(SIZE, flags=mapping.SHARED, fd=buffer)
    with ends() as (a, b):
        region = Region(b, buffer)
        fill(a, DATA)
        a.send(WRITE, pieces=[a.sge(0, SIZE)], remote=(IOVA, region.rkey))
        status(a, OK, "write", 20)
        equal(seen.read(SIZE), DATA, "bytes written")
        fill(a, bytes(SIZE))
        a.send(READ, pieces=[a.sge(0, SIZE)], remote=(IOVA, region.rkey))
        status(a, OK, "read", 20)
        equal(held(a, SIZE), DATA, "bytes read")
        seen.write(DATA[::-1])
        a.receive(pieces=[a.sge(0, SIZE)])
        b.send(SEND, pieces=[b.sge(0, SIZE, mr=region)])
        for end in (a, b):
            status(end, OK, "send", 20)
        equal(held(a, SIZE), DATA[::-1], "bytes sent")
        b.receive(pieces=[b.sge(PAGE + 1, 5000, mr=region)])
        fill(a, DATA)
        a.send(SEND, pieces=[a.sge(0, 5000)])
        for end in (a, b):
            status(end, OK, "receive", 20)
        equal(seen.read(5002, PAGE), DATA[::-1][PAGE:PAGE + 1] + DATA[:5000] + DATA[::-1][PAGE + 5001:PAGE + 5002],
              "bytes received")
        seen.write(struct.pack("=Q", 40))
        atomic(a, ADD, (IOVA, region.rkey), 2)
        status(a, OK, "add")
        atomic(a, SWAP, (IOVA, region.rkey), 42, 7)
        status(a, OK, "swap")
        equal((number(a, 256), seen.read(8)), (42, struct.pack("=Q", 7)), "atomic operations")
        region.close()
    seen.unmap()


def file_buffer():
    """WRITE, READ, SEND, receive and atomics work on a buffer of file pages"""
    buffer = of_file()
    use(buffer)
    os.close(buffer)


def heap_buffer():
    """WRITE, READ, SEND, receive and atomics work on a buffer of the system heap"""
    buffer = of_heap()
    use(buffer)
    os.close(buffer)


def written_meanwhile():
    """Concurrent stores to a buffer change the payload but never break an ICRC"""
    buffer = of_file()
    seen = Memory(SIZE, flags=mapping.SHARED, fd=buffer)
    with ends() as (a, b):
        device = a.ctx.name
        before = counter("rx_bad_icrc", device)
        region = Region(b, buffer)
        writer = os.fork()
        while not writer:
            for byte in range(256):
                seen.write(bytes([byte]) * (1 << 16))
        try:
            for _ in range(300):
                b.send(WRITE, pieces=[b.sge(0, 1 << 16, mr=region)], remote=a.remote())
                status(b, OK, "write", 20)
        finally:
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)
        equal(counter("rx_bad_icrc", device) - before, 0, "packets with a wrong ICRC")
        region.close()
    seen.unmap()
    os.close(buffer)


def parts():
    """An MR of a part of a buffer enforces its bounds and leaves adjacent bytes unchanged"""
    buffer = of_file()
    seen = Memory(SIZE, flags=mapping.SHARED, fd=buffer)
    with pair(rights=ATOMIC) as (a, b):
        fill(a, DATA[:1000])
        region = Region(b, buffer, 1000, 3 * PAGE + 8, IOVA + 8)
        a.send(WRITE, pieces=[a.sge(0, 1000)], remote=(IOVA + 8, region.rkey))
        status(a, OK, "write")
        equal(seen.read(SIZE), bytes(3 * PAGE + 8) + DATA[:1000] + bytes(SIZE - 3 * PAGE - 1008))
        region.close()
    for at, length in ((IOVA + 9, 1000), (IOVA + 7, 8), (IOVA + 1008, 1), (3 * PAGE, 8)):
        forget_events()
        with pair(rights=ATOMIC) as (a, b):
            region = Region(b, buffer, 1000, 3 * PAGE + 8, IOVA + 8)
            a.send(WRITE, pieces=[a.sge(2000, length)], remote=(at, region.rkey))
            status(a, e.IBV_WC_REM_ACCESS_ERR, "write outside")
            both_failed(a, b, e.IBV_EVENT_QP_ACCESS_ERR)
            region.close()
    equal(seen.read(SIZE), bytes(3 * PAGE + 8) + DATA[:1000] + bytes(SIZE - 3 * PAGE - 1008))
    seen.unmap()
    os.close(buffer)


def rights():
    """An MR of a buffer enforces its access rights, and reregistration changes them"""
    buffer = of_heap()
    seen = Memory(SIZE, flags=mapping.SHARED, fd=buffer)
    with pair() as (a, b):
        region = Region(b, buffer, access=e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ)
        a.send(WRITE, pieces=[a.sge(0, 64)], remote=(IOVA, region.rkey))
        status(a, e.IBV_WC_REM_ACCESS_ERR, "write")
        equal(seen.read(64), bytes(64), "the buffer")
        region.close()
    forget_events()
    end = End()
    region = Region(end, buffer, access=e.IBV_ACCESS_REMOTE_READ)
    refused(errno.EOPNOTSUPP, lambda: rereg(region, REREG_ACCESS, access=FULL_ACCESS))
    refused(errno.EOPNOTSUPP, lambda: rereg(region, REREG_ACCESS, access=e.IBV_ACCESS_ON_DEMAND))
    refused(errno.EOPNOTSUPP, lambda: rereg(region, REREG_ACCESS, access=e.IBV_ACCESS_FLUSH_PERSISTENT))
    region.close()
    region = Region(end, buffer, access=FULL_ACCESS)
    rereg(region, REREG_ACCESS, access=e.IBV_ACCESS_REMOTE_READ)
    rereg(region, REREG_ACCESS, access=FULL_ACCESS)
    region.close()
    end.close()
    seen.unmap()
    os.close(buffer)


def wrong():
    """A wrong descriptor, range or access right is refused"""
    # No descriptor has this number.
    buffer, closed = of_file(), 4000
    end = End()
    null = os.open("/dev/null", os.O_RDWR)
    make = lambda *args, **options: Region(end, *args, **options).close()
    for code, args in ((errno.EBADF, (closed,)), (errno.EINVAL, (null,)), (errno.EINVAL, (buffer, 0)),
                       (errno.EINVAL, (buffer, SIZE + 1)), (errno.EINVAL, (buffer, PAGE, SIZE)),
                       (errno.EINVAL, (buffer, PAGE, SIZE - PAGE + 1, IOVA + 1)), (errno.EINVAL, (buffer, 8, 1)),
                       (errno.EINVAL, (buffer, PAGE, 2 ** 64 - PAGE)), (errno.EINVAL, (buffer, 2 ** 64 - 1))):
        refused(code, lambda args=args: make(*args))
    for access in (e.IBV_ACCESS_ON_DEMAND, e.IBV_ACCESS_FLUSH_GLOBAL, e.IBV_ACCESS_MW_BIND, e.IBV_ACCESS_REMOTE_WRITE):
        refused(errno.EINVAL, lambda access=access: make(buffer, access=access))
    readable = of_heap(os.O_RDONLY)
    for access in (e.IBV_ACCESS_LOCAL_WRITE, FULL_ACCESS, ATOMIC):
        refused(errno.EACCES, lambda access=access: make(readable, access=access))
    make(readable, access=e.IBV_ACCESS_REMOTE_READ)
    for descriptor in (buffer, null, readable):
        os.close(descriptor)
    end.close()


def outlives():
    """An MR keeps its buffer after the descriptor is closed, and the last MR frees it"""
    before = buffers()
    for make in (of_file, of_heap):
        with ends() as (a, b):
            buffer = make()
            region = Region(b, buffer)
            again = Region(b, buffer)
            os.close(buffer)
            equal(buffers(), before + 1, "buffers")
            fill(a, DATA)
            for one, opcode in ((region, WRITE), (again, READ)):
                a.send(opcode, pieces=[a.sge(0, SIZE)], remote=(IOVA, one.rkey))
                status(a, OK, "after the descriptor was closed", 20)
                equal(held(a, SIZE), DATA)
                fill(a, bytes(SIZE))
            region.close()
            a.send(READ, pieces=[a.sge(0, 64)], remote=(IOVA, again.rkey))
            status(a, OK, "through the other MR")
            equal(held(a, 64), DATA[:64])
            again.close()
        eventually(lambda: buffers() == before, "the buffer is freed")


def moved():
    """Reregistration with other memory releases the buffer"""
    before = buffers()
    with pair() as (a, b):
        buffer = of_heap()
        region = Region(b, buffer, PAGE)
        os.close(buffer)
        place = MR(b.pd, 2 * PAGE, FULL_ACCESS)
        start = place.buf + -place.buf % PAGE
        rereg(region, REREG_TRANS, start, PAGE, IOVA)
        eventually(lambda: buffers() == before, "the buffer is freed")
        fill(a, DATA[:64])
        a.send(WRITE, pieces=[a.sge(0, 64)], remote=(IOVA, region.rkey))
        status(a, OK, "write")
        equal(ctypes.string_at(start, 64), DATA[:64])
        region.close()
        place.close()


def killed():
    """A process that exits with MRs of buffers leaves no buffer"""
    before = buffers()
    made = of_file(), of_heap()
    child = os.fork()
    if not child:
        try:
            own_context()
            end = End()
            kept = [Region(end, buffer) for buffer in made for _ in range(8)]
            os._exit(0 if len(kept) == 16 and buffers() == before + 2 else 1)
        finally:
            os._exit(2)
    for buffer in made:
        os.close(buffer)
    equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "the child")
    eventually(lambda: buffers() == before, "the buffers are freed")


if __name__ == "__main__":
    run((file_buffer, heap_buffer, written_meanwhile, parts, rights, wrong, outlives, moved, killed))
