# SPDX-License-Identifier: GPL-2.0
"""The longest message, the longest scatter list, and empty messages.

A message of 2 GiB needs little memory here: the address range of either end maps a smaller file repeatedly. The files
differ in length, so a misplaced byte is detected.
"""

import os

from pyverbs.mr import MR
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.wr import SGE

import enums as e
from mapping import SHARED, Memory
from rc import FULL_ACCESS, context, pair
from tap import Skip, equal, run, true
from work import OK, READ, SEND, SEND_IMM, WRITE, WRITE_IMM, fill, held, pattern, status

LONGEST = 1 << 31
NEAR, FAR = 32 << 20, 24 << 20
PATIENCE = 280


class Repeated:
    """An address range longer than the longest message that maps one file repeatedly."""

    def __init__(self, period):
        self.period = period
        self.fd = os.memfd_create("message")
        os.ftruncate(self.fd, period)
        length = LONGEST + 2 * period
        self.all = Memory(length - length % period)
        for offset in range(0, self.all.length, period):
            Memory(period, flags=SHARED, fd=self.fd, at=self.all.address + offset)

    def write(self, data):
        """Writes bytes into the file."""
        os.pwrite(self.fd, data, 0)

    def read(self):
        """Returns all bytes of the file."""
        return b"".join(os.pread(self.fd, 1 << 20, at) for at in range(0, self.period, 1 << 20))

    def close(self):
        """Unmaps the range and closes the file."""
        self.all.unmap()
        os.close(self.fd)


def folded(data, period):
    """Returns the contents of a file of length `period` after 2 GiB of repeated `data` were written over it."""
    result = bytearray(period)
    position = LONGEST - period
    while position < LONGEST:
        source, target = position % len(data), position % period
        step = min(len(data) - source, period - target, LONGEST - position)
        result[target:target + step] = data[source:source + step]
        position += step
    return bytes(result)


def longest(opcode):
    """Transfers one message of 2 GiB between pinned memory and memory on demand, and checks every byte."""
    near, far = Repeated(NEAR), Repeated(FAR)
    source, target = (far, near) if opcode == READ else (near, far)
    data = os.urandom(1 << 20)
    source.write(b"".join(bytes([number]) + data[1:] for number in range(source.period >> 20)))
    expected = folded(source.read(), target.period)
    with pair(path_mtu=e.IBV_MTU_4096, timeout=18) as (a, b):
        here = MR(a.pd, near.all.length, FULL_ACCESS, address=near.all.address)
        there = MR(b.pd, far.all.length, FULL_ACCESS | e.IBV_ACCESS_ON_DEMAND, address=far.all.address)
        if opcode == SEND:
            b.receive(pieces=[SGE(far.all.address, LONGEST, there.lkey)])
        a.send(opcode, pieces=[SGE(near.all.address, LONGEST, here.lkey)], remote=(far.all.address, there.rkey))
        done = status(a, OK, "2 GiB", PATIENCE)
        if opcode == SEND:
            done = status(b, OK, "receive of 2 GiB", PATIENCE)
        if opcode != WRITE:
            equal(done.byte_len, LONGEST, "length")
        true(target.read() == expected, "every byte is in its place")
        # One byte more is too long, in one SGE or in two.
        half = SGE(near.all.address, LONGEST // 2, here.lkey)
        more = [SGE(near.all.address, LONGEST // 2 + 1, here.lkey)]
        a.send(WRITE, wr_id=7, pieces=[half] + more, remote=(far.all.address, there.rkey))
        equal(status(a, e.IBV_WC_LOC_LEN_ERR, "2 GiB and a byte").wr_id, 7)
        here.close()
        there.close()
    near.close()
    far.close()


def longest_write():
    """A WRITE transfers 2 GiB; one byte more is an error"""
    longest(WRITE)


def longest_read():
    """A READ transfers 2 GiB"""
    longest(READ)


def longest_send():
    """A SEND transfers 2 GiB"""
    longest(SEND)


def most_pieces():
    """RC and UC gather and scatter as many SGEs of odd lengths as the device reports"""
    most = context().query_device().max_sge
    equal(most, 32, "pieces that the device reports")
    lengths = [1 + 97 * number % 1500 for number in range(most)]
    total = sum(lengths)
    for service in (e.IBV_QPT_RC, e.IBV_QPT_UC):
        ends = {"sge": most, "size": 1 << 17, "service": service}
        with pair(a=ends, b=ends) as (a, b):
            data = pattern(total, 5)
            places, offset = [], 0
            for number, length in enumerate(lengths):
                # Backwards, so that SGEs adjacent in the message are not adjacent in memory.
                places.append((most - number) * 2000 + number)
                fill(a, data[offset:offset + length], places[-1])
                offset += length
            gathered = [a.sge(place, length) for place, length in zip(places, lengths)]
            scattered = [b.sge(place, length) for place, length in zip(places, reversed(lengths))]
            b.receive(pieces=scattered)
            a.send(SEND, pieces=gathered)
            status(a, OK, "send")
            equal(status(b, OK, "receive").byte_len, total)
            equal(b"".join(held(b, length, place) for place, length in zip(places, reversed(lengths))), data)
            if service == e.IBV_QPT_RC:
                fill(b, data)
                a.send(READ, pieces=[a.sge(place, length) for place, length in zip(places, lengths)],
                       remote=b.remote())
                status(a, OK, "read")
                equal(b"".join(held(a, length, place) for place, length in zip(places, lengths)), data)
            try:
                a.send(SEND, pieces=gathered + [a.sge(0, 1)])
            except PyverbsError:
                pass
            else:
                raise AssertionError("one SGE more was accepted")


def nothing():
    """Empty messages complete without SGEs, with SGEs of no bytes, at wrong keys and with immediate data"""
    for service in (e.IBV_QPT_RC, e.IBV_QPT_UC):
        ends = {"service": service, "sge": 4}
        with pair(a=ends, b=ends) as (a, b):
            for pieces in ([], [SGE(0, 0, 0xBAD)] * 4):
                opcodes = [SEND, SEND_IMM, WRITE, WRITE_IMM] + ([READ] if service == e.IBV_QPT_RC else [])
                for opcode in opcodes:
                    receives = opcode not in (WRITE, READ)
                    if receives:
                        b.receive(pieces=pieces)
                    a.send(opcode, pieces=pieces, remote=(0xDEAD0001, 0xBAD), imm=77)
                    equal(status(a, OK, f"opcode {opcode}").byte_len if opcode == READ else 0, 0)
                    if receives:
                        got = status(b, OK, f"receive of opcode {opcode}")
                        equal(got.byte_len, 0, "length")
                        if opcode in (SEND_IMM, WRITE_IMM):
                            equal(got.imm_data, 77, "immediate data")
            b.silent()


def large_or_skip(test):
    """Returns the test, skipped unless LARGE is set. A process in user-mode Linux cannot have that many pages."""
    def run_it():
        if not os.environ.get("LARGE"):
            raise Skip("LARGE=1 is not set: it takes minutes")
        test()
    run_it.__doc__ = test.__doc__
    return run_it


if __name__ == "__main__":
    run([large_or_skip(test) for test in (longest_write, longest_read, longest_send)], [most_pieces, nothing])
