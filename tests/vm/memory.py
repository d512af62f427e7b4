# SPDX-License-Identifier: GPL-2.0
"""What a key opens: regions that change while they exist, and regions at the ends of the address space.

rdma-core's library for this ABI cannot reregister, so the kernel is asked directly.
"""

import ctypes
import errno
import os
import struct

import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QPAttr

from rc import FULL_ACCESS, PAGE, End, async_event, context, forget_events
from tap import equal, run, true
from work import OK, READ, WRITE, fill, status

REREG_TRANS, REREG_PD, REREG_ACCESS = 1, 2, 4
IB_USER_VERBS_CMD_REREG_MR = 11
DATA = bytes(range(64))
NO_REMOTE = e.IBV_ACCESS_LOCAL_WRITE


def rereg(region, flags, start=0, length=0, iova=0, domain=None, access=0):
    """The verb, as `write` takes it. Returns the new keys; raises OSError."""
    response = ctypes.create_string_buffer(8)
    body = struct.pack("=QIIQQQII", ctypes.addressof(response), region.handle, flags, start, length, iova,
                       domain.handle if domain else 0, access)
    head = struct.pack("=IHH", IB_USER_VERBS_CMD_REREG_MR, (8 + len(body)) // 4, 2)
    os.write(context().cmd_fd, head + body)
    return struct.unpack("=II", response.raw)


def refused(code, action):
    """The action must fail with this error."""
    try:
        action()
    except OSError as error:
        equal(errno.errorcode[error.errno], errno.errorcode[code])
        return
    raise AssertionError("was not refused")


def reaches(opcode, remote, end, wanted=OK):
    """One operation of 64 bytes on `remote`, by a peer of the end's queue pair; it must end as wanted.

    The end is reset before, so that it may be used again and again.
    """
    forget_events()
    peer = End()
    end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
    peer.to_rts(end)
    end.to_rts(peer)
    fill(peer, DATA)
    peer.send(opcode, pieces=[peer.sge(0, len(DATA))], remote=remote)
    status(peer, wanted, "the operation")
    if wanted != OK:
        equal(async_event(), e.IBV_EVENT_QP_ACCESS_ERR, "asynchronous event")
    peer.close()


def bytes_of(region, offset, length):
    """What is in a region."""
    return ctypes.string_at(region.buf + offset, length)


def owner():
    """An end, and a region of its domain with all rights, filled with zeros."""
    end = End()
    region = MR(end.pd, 4 * PAGE, FULL_ACCESS)
    ctypes.memset(region.buf, 0, region.length)
    return end, region


def change_rights():
    """Rights are taken from a region and given back; its keys stay"""
    end, region = owner()
    keys = rereg(region, REREG_ACCESS, access=NO_REMOTE)
    equal(keys, (region.lkey, region.rkey), "keys")
    reaches(WRITE, (region.buf, region.rkey), end, e.IBV_WC_REM_ACCESS_ERR)
    equal(bytes_of(region, 0, 64), bytes(len(DATA)), "nothing was written")
    rereg(region, REREG_ACCESS, access=FULL_ACCESS)
    reaches(WRITE, (region.buf, region.rkey), end)
    equal(bytes_of(region, 0, 64), DATA)
    region.close()
    end.close()


def change_domain():
    """A region goes to another protection domain, and can be reached from there only"""
    end, region = owner()
    other = End()
    rereg(region, REREG_PD, domain=other.pd)
    reaches(WRITE, (region.buf, region.rkey), end, e.IBV_WC_REM_ACCESS_ERR)
    equal(bytes_of(region, 0, 64), bytes(len(DATA)), "nothing was written")
    reaches(WRITE, (region.buf, region.rkey), other)
    equal(bytes_of(region, 0, 64), DATA)
    rereg(region, REREG_PD, domain=end.pd)
    region.close()
    other.close()
    end.close()


def change_memory():
    """A region moves to other memory, of another length, under another address"""
    end, region = owner()
    place = MR(end.pd, 2 * PAGE, FULL_ACCESS)
    ctypes.memset(place.buf, 0, place.length)
    inside = place.buf % PAGE
    for iova in (inside, 0x123456789000 + inside, 2**64 - 2 * PAGE + inside - (PAGE if inside else 0)):
        rereg(region, REREG_TRANS, place.buf, PAGE, iova)
        reaches(WRITE, (iova + PAGE - 64, region.rkey), end)
        equal(bytes_of(place, PAGE - 64, 64), DATA, f"at {iova:#x}")
        ctypes.memset(place.buf, 0, PAGE)
        for wrong in (iova + PAGE - 63, (iova - 1) % 2**64):
            reaches(WRITE, (wrong, region.rkey), end, e.IBV_WC_REM_ACCESS_ERR)
        equal(bytes_of(place, 0, 2 * PAGE), bytes(2 * PAGE), "nothing beyond")
    equal(bytes_of(region, 0, 4 * PAGE), bytes(4 * PAGE), "nothing where it was")
    region.close()
    place.close()
    end.close()


def last_byte():
    """A region may end with the last address there is"""
    end, region = owner()
    inside = region.buf % PAGE
    length = PAGE - inside
    iova = 2**64 - length
    rereg(region, REREG_TRANS, region.buf, length, iova)
    true(length > 64, "pyverbs allocates so")
    reaches(WRITE, (2**64 - 64, region.rkey), end)
    equal(bytes_of(region, length - 64, 64), DATA)
    reaches(READ, (2**64 - 63, region.rkey), end, e.IBV_WC_REM_ACCESS_ERR)
    region.close()
    end.close()


def failed_change():
    """What is refused changes nothing"""
    end, region = owner()
    refused(errno.EOPNOTSUPP, lambda: rereg(region, 8))
    refused(errno.EINVAL, lambda: rereg(region, 0))
    refused(errno.EINVAL, lambda: rereg(region, REREG_ACCESS, access=e.IBV_ACCESS_REMOTE_WRITE))
    refused(errno.EFAULT, lambda: rereg(region, REREG_TRANS, PAGE, PAGE, PAGE))
    refused(errno.EINVAL, lambda: rereg(region, REREG_TRANS, region.buf, 0, region.buf))
    refused(errno.EINVAL, lambda: rereg(region, REREG_TRANS, region.buf, PAGE, region.buf + 1))
    reaches(WRITE, (region.buf, region.rkey), end)
    equal(bytes_of(region, 0, 64), DATA)
    region.close()
    end.close()


def read_only_memory():
    """Memory that was registered for reading is pinned again when it is to be written, or that is refused"""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    private, anonymous, readable, writable = 2, 0x20, 1, 3
    with PD(context()) as domain:
        for prot, possible in ((readable, False), (writable, True)):
            start = libc.mmap(None, ctypes.c_size_t(PAGE), prot, private | anonymous, -1, ctypes.c_long(0))
            region = MR(domain, PAGE, e.IBV_ACCESS_REMOTE_READ, address=start)
            change = lambda region=region: rereg(region, REREG_ACCESS, access=FULL_ACCESS)
            change() if possible else refused(errno.EFAULT, change)
            region.close()
            libc.munmap(ctypes.c_void_p(start), ctypes.c_size_t(PAGE))


def many_changes():
    """A region that is changed a thousand times leaves nothing pinned"""
    end, region = owner()
    before = locked()
    for count in range(1000):
        rereg(region, REREG_TRANS, region.buf, PAGE * (1 + count % 4), region.buf)
    equal(locked(), before, "KiB pinned")
    region.close()
    true(locked() < before, f"{locked()} KiB pinned after, {before} before")
    end.close()


def locked():
    """KiB that the process has pinned."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmPin:"))


if __name__ == "__main__":
    run([change_rights, change_domain, change_memory, last_byte, failed_change, read_only_memory, many_changes])
