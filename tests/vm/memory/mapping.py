# SPDX-License-Identifier: GPL-2.0
"""Memory of this process, and system calls that change it while others use it.

Anonymous and other mappings at known addresses, their bytes, and the system calls that take pages away. Uses no
verbs.
"""

import ctypes
import fcntl
import mmap
import os
import struct

import syscalls

PAGE = mmap.PAGESIZE
# A huge page of x86-64. Elsewhere they may be larger.
HUGE = 2 << 20
READ, WRITE = mmap.PROT_READ, mmap.PROT_WRITE
PRIVATE, SHARED = mmap.MAP_PRIVATE, mmap.MAP_SHARED
_FIXED, _ANONYMOUS, _HUGETLB, _NORESERVE = 0x10, 0x20, 0x40000, 0x4000
DONTNEED, PAGEOUT = 4, 21

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for _name in ("munmap", "mprotect", "madvise"):
    getattr(_LIBC, _name).argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int][:2 if _name == "munmap" else 3]


def _check(result):
    if result in (-1, ctypes.c_void_p(-1).value):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class Memory:
    """A mapping; flags and a file as for mmap."""

    def __init__(self, length, protection=READ | WRITE, flags=PRIVATE, fd=-1, at=None, huge=False):
        flags |= _ANONYMOUS if fd < 0 else 0
        flags |= _FIXED if at else 0
        flags |= _HUGETLB if huge else _NORESERVE
        self.length = length
        self.address = _check(_LIBC.mmap(at, length, protection, flags, fd, 0))

    def write(self, data, offset=0):
        """Writes bytes at an offset."""
        ctypes.memmove(self.address + offset, data, len(data))

    def read(self, length, offset=0):
        """Returns the bytes at an offset."""
        return ctypes.string_at(self.address + offset, length)

    def advise(self, advice, offset=0, length=None):
        """Calls madvise."""
        _check(_LIBC.madvise(self.address + offset, self.length - offset if length is None else length, advice))

    def protect(self, protection):
        """Calls mprotect."""
        _check(_LIBC.mprotect(self.address, self.length, protection))

    def unmap(self, offset=0, length=None):
        """Calls munmap, for all or for a part."""
        _check(_LIBC.munmap(self.address + offset, self.length - offset if length is None else length))

    def resident(self):
        """Returns the number of resident bytes."""
        pages = ctypes.create_string_buffer(self.length // PAGE)
        _check(_LIBC.mincore(self.address, self.length, pages))
        return sum(byte & 1 for byte in pages.raw) * PAGE


def huge_page():
    """Returns the default size of huge pages, in bytes; 0 in kernels without them."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return next((int(line.split()[1]) << 10 for line in file if line.startswith("Hugepagesize:")), 0)


def secret(length):
    """Returns memory that the kernel itself cannot reach (memfd_secret); raises OSError if it is unsupported."""
    fd = _check(_LIBC.syscall(syscalls.MEMFD_SECRET, 0))
    os.ftruncate(fd, length)
    memory = Memory(length, flags=SHARED, fd=fd)
    os.close(fd)
    return memory


def take_all_pages():
    """Clears the soft-dirty bits of every mapping, which runs the MMU notifiers; the bytes stay."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("4")


class Userfault:
    """Memory whose pages come only when the test provides them (userfaultfd)."""

    def __init__(self, memory):
        self.fd = _check(_LIBC.syscall(syscalls.USERFAULTFD, 0))
        self.memory = memory
        fcntl.ioctl(self.fd, 0xC018AA3F, struct.pack("=QQQ", 0xAA, 0, 0))
        fcntl.ioctl(self.fd, 0xC020AA00, struct.pack("=QQQQ", memory.address, memory.length, 1, 0))

    def wanted(self):
        """Waits for a page fault; returns its address."""
        return struct.unpack("=BBHIQQQ", os.read(self.fd, 32))[5]

    def give(self, address):
        """Provides a page of zeros."""
        fcntl.ioctl(self.fd, 0xC020AA04, struct.pack("=QQQq", address & ~(PAGE - 1), PAGE, 0, 0))

    def close(self):
        """Unregisters the memory: later faults are ordinary ones."""
        os.close(self.fd)
