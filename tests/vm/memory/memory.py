# SPDX-License-Identifier: GPL-2.0
"""Access rights of keys: regions that change while they exist, and regions at the ends of the address space.

rdma-core's library for this ABI does not support reregistration, so the tests issue the kernel command directly.
"""

import ctypes
import errno
import os
import struct

from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.qp import QPAttr

import enums as e
import mapping
from mapping import Memory
from rc import FULL_ACCESS, PAGE, End, async_event, context, forget_events, own_context
from tap import equal, not_for_rxe, run, true
from work import OK, READ, WRITE, fill, status

REREG_TRANS, REREG_PD, REREG_ACCESS = 1, 2, 4
IB_USER_VERBS_CMD_REREG_MR = 11
DATA = bytes(range(64))
NO_REMOTE = e.IBV_ACCESS_LOCAL_WRITE


def rereg(region, flags, start=0, length=0, iova=0, domain=None, access=0):
    """Issues REREG_MR through `write`. Returns the new keys; raises OSError."""
    response = ctypes.create_string_buffer(8)
    body = struct.pack("=QIIQQQII", ctypes.addressof(response), region.handle, flags, start, length, iova,
                       domain.handle if domain else 0, access)
    head = struct.pack("=IHH", IB_USER_VERBS_CMD_REREG_MR, (8 + len(body)) // 4, 2)
    os.write(context().cmd_fd, head + body)
    return struct.unpack("=II", response.raw)


def refused(code, action):
    """Checks that the action fails with this error."""
    try:
        action()
    except OSError as error:
        equal(errno.errorcode[error.errno], errno.errorcode[code])
        return
    raise AssertionError("was not refused")


def reaches(opcode, remote, end, wanted=OK):
    """Runs one operation of 64 bytes on `remote`, by a peer of the end's queue pair, and checks its status.

    Resets the end first, so that it can be used repeatedly.
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
    """Returns bytes of a region."""
    return ctypes.string_at(region.buf + offset, length)


def owner():
    """Returns an end, and a region of its domain with all rights, filled with zeros."""
    end = End()
    region = MR(end.pd, 4 * PAGE, FULL_ACCESS)
    ctypes.memset(region.buf, 0, region.length)
    return end, region


def change_rights():
    """Reregistration takes rights from a region and grants them again; its keys stay"""
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


def optional_rights():
    """Registration accepts every optional right and keeps the other rights"""
    end, region = owner()
    for bit in range(20, 30):
        with MR(end.pd, PAGE, FULL_ACCESS | 1 << bit) as other:
            ctypes.memset(other.buf, 0, PAGE)
            reaches(WRITE, (other.buf, other.rkey), end)
            equal(bytes_of(other, 0, 64), DATA, f"bit {bit}")
        rereg(region, REREG_ACCESS, access=NO_REMOTE | 1 << bit)
        reaches(WRITE, (region.buf, region.rkey), end, e.IBV_WC_REM_ACCESS_ERR)
        rereg(region, REREG_ACCESS, access=FULL_ACCESS | 1 << bit)
        reaches(WRITE, (region.buf, region.rkey), end)
    refused(errno.EINVAL, lambda: rereg(region, REREG_ACCESS, access=FULL_ACCESS | 1 << 30))
    region.close()
    end.close()


def change_domain():
    """A region that moves to another protection domain is reachable only from there"""
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
    """A region moves to other memory, of another length, at another address"""
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
    """A region may end with the last address of the address space"""
    end, region = owner()
    inside = region.buf % PAGE
    length = PAGE - inside
    iova = 2**64 - length
    rereg(region, REREG_TRANS, region.buf, length, iova)
    true(length > 64, "pyverbs allocates enough")
    reaches(WRITE, (2**64 - 64, region.rkey), end)
    equal(bytes_of(region, length - 64, 64), DATA)
    reaches(READ, (2**64 - 63, region.rkey), end, e.IBV_WC_REM_ACCESS_ERR)
    region.close()
    end.close()


def failed_change():
    """A refused reregistration changes nothing"""
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
    """Reregistration for writing pins read-only memory again, or fails if the memory is not writable"""
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


def on_demand():
    """A region on demand changes domain, rights and memory, and becomes pinned and on demand again"""
    on_demand = e.IBV_ACCESS_ON_DEMAND
    end, other = End(), End()
    held = Memory(4 * PAGE)
    region = MR(end.pd, 4 * PAGE, e.IBV_ACCESS_REMOTE_READ | on_demand, address=held.address)
    remote = (held.address, region.rkey)
    reaches(WRITE, remote, end, e.IBV_WC_REM_ACCESS_ERR)
    for access in (FULL_ACCESS | on_demand, FULL_ACCESS, FULL_ACCESS | on_demand):
        pinned = locked()
        rereg(region, REREG_ACCESS, access=access)
        equal(locked() > pinned, not access & on_demand, f"pinned with access {access:#x}")
        held.advise(mapping.DONTNEED)
        reaches(WRITE, remote, end)
        if access & on_demand:
            equal(held.read(64), DATA, "pages that were faulted in")
    rereg(region, REREG_PD | REREG_ACCESS, domain=other.pd, access=NO_REMOTE | on_demand)
    reaches(WRITE, remote, other, e.IBV_WC_REM_ACCESS_ERR)
    rereg(region, REREG_ACCESS, access=FULL_ACCESS | on_demand)
    reaches(WRITE, remote, end, e.IBV_WC_REM_ACCESS_ERR)
    held.advise(mapping.DONTNEED)
    reaches(WRITE, remote, other)
    equal(held.read(64), DATA, "from the other domain")
    moved = Memory(PAGE)
    rereg(region, REREG_TRANS, moved.address, PAGE, held.address)
    reaches(WRITE, (held.address + PAGE - 64, region.rkey), other)
    equal(moved.read(64, PAGE - 64), DATA, "in the other memory")
    moved.advise(mapping.DONTNEED)
    # Its bounds are those of its own address range (IOVA), not of the memory behind it.
    for wrong in (held.address + PAGE - 63, held.address - 1, moved.address):
        reaches(WRITE, (wrong, region.rkey), other, e.IBV_WC_REM_ACCESS_ERR)
        reaches(READ, (wrong, region.rkey), other, e.IBV_WC_REM_ACCESS_ERR)
    equal(moved.read(PAGE), bytes(PAGE), "bytes out of bounds")
    for part in (region, other, end):
        part.close()


def everything_on_demand():
    """An implicit region on demand loses and gains rights, and cannot be pinned"""
    end = End()
    held = Memory(PAGE)
    region = MR(end.pd, 0, FULL_ACCESS | e.IBV_ACCESS_ON_DEMAND, implicit=True)
    remote = (held.address, region.rkey)
    rereg(region, REREG_ACCESS, access=e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_ON_DEMAND)
    reaches(WRITE, remote, end, e.IBV_WC_REM_ACCESS_ERR)
    rereg(region, REREG_ACCESS, access=FULL_ACCESS | e.IBV_ACCESS_ON_DEMAND)
    try:
        rereg(region, REREG_ACCESS, access=FULL_ACCESS)
    except OSError as error:
        true(error.errno in (errno.EINVAL, errno.ENOMEM), str(error))
    else:
        raise AssertionError("all memory was pinned")
    reaches(WRITE, remote, end)
    equal(held.read(64), DATA)
    region.close()
    end.close()


def keys_of(count):
    """Returns the keys of regions and windows that are created in sequence."""
    with PD(context()) as domain:
        made = []
        for _ in range(count):
            made += [MR(domain, PAGE, NO_REMOTE), MW(domain, e.IBV_MW_TYPE_2)]
        keys = [one.rkey for one in made]
        for one in made:
            one.close()
    return keys


def keys_elsewhere(count):
    """Returns the same for another process."""
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        try:
            own_context()
            os.write(sink, struct.pack(f"={2 * count}I", *keys_of(count)))
        finally:
            os._exit(0)
    os.close(sink)
    data = os.read(source, 65536)
    os.close(source)
    equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "the other process")
    return list(struct.unpack(f"={2 * count}I", data))


def unguessable():
    """The keys of a process predict neither its next keys nor those of another process"""
    not_for_rxe("allocates indices in sequence")
    count = 256
    mine = keys_of(count)
    theirs = keys_elsewhere(count)
    for name, keys in (("mine", mine), ("theirs", theirs), ("mine, again", keys_of(count))):
        indices = [key >> 8 for key in keys]
        # With 512 draws, a random source fails each of these checks less than once in a million runs.
        steps = {(after - before) % (1 << 24) for before, after in zip(indices, indices[1:])}
        true(len(steps) > len(keys) - 8, f"{name}: {len(steps)} different steps")
        for shift in (0, 8, 16):
            values = {index >> shift & 0xFF for index in indices}
            true(len(values) > 180, f"{name}: {len(values)} different bytes at bit {shift}")
        low = {key & 0xFF for key in keys[::2]}
        true(len(low) > 120, f"{name}: {len(low)} different low bytes")
        ones = [sum(index >> bit & 1 for index in indices) for bit in range(24)]
        true(all(180 < found < 332 for found in ones), f"{name}: ones of {len(indices)} by bit: {ones}")
    near = sum(abs((a >> 8) - (b >> 8)) <= 4 for a in mine for b in theirs)
    true(near < 8, f"{near} indices of theirs lie beside ours")


def many_changes():
    """A region that is reregistered a thousand times leaves no memory pinned"""
    end, region = owner()
    before = locked()
    for count in range(1000):
        rereg(region, REREG_TRANS, region.buf, PAGE * (1 + count % 4), region.buf)
    equal(locked(), before, "KiB pinned")
    region.close()
    true(locked() < before, f"{locked()} KiB pinned after, {before} before")
    end.close()


def locked():
    """Returns the KiB that the process has pinned."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmPin:"))


if __name__ == "__main__":
    run([change_rights, optional_rights, change_domain, change_memory, last_byte, failed_change, read_only_memory,
         on_demand, everything_on_demand, unguessable, many_changes])
