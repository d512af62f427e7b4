# SPDX-License-Identifier: GPL-2.0
"""Messages of unequal lengths leave in one GSO list, which the kernel splits anew because of an XDP program on the
interface: messages that complete are whole and right.

Two QPs of one device are connected to each other over the loopback interface, to which the test attaches the program.
"""

import ctypes
import os
import struct
import subprocess
import time

from pyverbs.wr import SendWR

import enums as e
import syscalls
from rc import SLOWNESS, pair
from tap import Skip, equal, run, true
from work import OK, READ, SEND, WRITE, fill, held, pattern, piece, status

PINNED = "/sys/fs/bpf/pass"
_PROG_LOAD, _OBJ_PIN, _XDP, _XDP_PASS = 5, 6, 6, 2
# Two or more messages in one list, at a path MTU of 1024: the first shorter or longer, or several packets long.
BURSTS = ((100, 1000), (1000, 100, 1000), (16, 1024, 1024, 16), (3000, 100, 3000))
ROOM = 4096
LIBC = ctypes.CDLL(None, use_errno=True)


def bpf(command, attr):
    """Calls the bpf system call."""
    buffer = ctypes.create_string_buffer(attr, 128)
    done = LIBC.syscall(syscalls.BPF, command, buffer, len(attr))
    if done < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return done


def load():
    """Attaches a program that passes every packet to the loopback interface."""
    code = struct.pack("=BBhi", 0xB7, 0, 0, _XDP_PASS) + struct.pack("=BBhi", 0x95, 0, 0, 0)
    program, licence = (ctypes.create_string_buffer(text, len(text)) for text in (code, b"GPL\0"))
    try:
        attr = struct.pack("=IIQQ", _XDP, 2, ctypes.addressof(program), ctypes.addressof(licence))
        fd = bpf(_PROG_LOAD, attr + bytes(24))
    except OSError as error:
        raise Skip(f"no XDP in this kernel: {error}") from error
    path = ctypes.create_string_buffer(PINNED.encode())
    bpf(_OBJ_PIN, struct.pack("=QI", ctypes.addressof(path), fd))
    os.close(fd)
    subprocess.run(["ip", "link", "set", "lo", "xdpgeneric", "pinned", PINNED], check=True)


def post(end, lengths):
    """Posts SENDs of these lengths as one list."""
    # A request only points to the next one; the list holds references to all.
    chain = [None]
    for number, length in reversed(list(enumerate(lengths))):
        pieces = piece(end, length, number * ROOM)
        chain.append(SendWR(wr_id=number, opcode=SEND, num_sge=1, sg=pieces, next_wr=chain[-1]))
    end.qp.post_send(chain[-1])


def exchange(service, each):
    """Sends all lists; `each` checks the receives of one list."""
    for seed, lengths in enumerate(BURSTS):
        sent = [pattern(length, seed * 10 + number) for number, length in enumerate(lengths)]
        with pair(a={"service": service}, b={"service": service}) as (a, b):
            for number, data in enumerate(sent):
                fill(a, data, number * ROOM)
                b.receive(wr_id=number, pieces=piece(b, ROOM, number * ROOM))
            post(a, lengths)
            each(b, sent)


def reliable():
    """A reliable connection delivers every message"""
    def each(b, sent):
        for number, data in enumerate(sent):
            done = status(b, OK, f"message {number}", 30)
            equal(done.byte_len, len(data), f"length of message {number}")
            true(held(b, len(data), number * ROOM) == data, f"bytes of message {number}")
    exchange(e.IBV_QPT_RC, each)


def unreliable():
    """An unreliable connection delivers whole messages, in order, or none"""
    def each(b, sent):
        time.sleep(0.3 * SLOWNESS)
        left = list(sent)
        for place, done in enumerate(b.cq.poll(16)[1]):
            equal(done.status, OK, f"receive {place}")
            got = held(b, done.byte_len, place * ROOM)
            true(got in left, f"receive {place}, {done.byte_len} bytes, is none of the possible messages")
            left = left[left.index(got) + 1:]
    exchange(e.IBV_QPT_UC, each)


def remote():
    """Reliable WRITEs and READs of many packets transfer every byte"""
    with pair(a={"size": 1 << 17}, b={"size": 1 << 17}) as (a, b):
        data = pattern(1 << 16, 3)
        fill(a, data, 5)
        a.send(WRITE, pieces=piece(a, len(data), 5), remote=b.remote(11))
        status(a, OK, "write", 60)
        true(held(b, len(data), 11) == data, "written")
        a.send(READ, pieces=piece(a, len(data)), remote=b.remote(11))
        status(a, OK, "read", 60)
        true(held(a, len(data), 0) == data, "read")


def present():
    """An XDP program that passes every packet can be attached to the loopback interface"""
    load()


run([present, reliable, unreliable, remote])
