# SPDX-License-Identifier: GPL-2.0
"""Like hostile.py, for the fields that only some operations have, and for a CQ that is resized.

The numbers in the tests' names are those of fields that rdma_rxe trusts, as in hostile.py.
"""

import contextlib
import ctypes
import os
import struct

from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError

import enums as e
from hostile import WILD, healthy, hostile_pair
from rc import FULL_ACCESS, PAGE, context, eventually, gid_index
from ring import ABI, CONSUMER, PRODUCER, HostileUd, Ring, mappings
from tap import equal, run, true
from ud import UdEnd
from uverbs import (COMMANDS, CREATE_CQ, CREATE_QP, CREATE_SRQ, DESTROY_CQ, DESTROY_QP, DESTROY_SRQ, RESIZE_CQ, issue,
                    request)

BIND, CMP_AND_SWP, FETCH_AND_ADD, FLUSH, ATOMIC_WRITE = 8, 5, 6, 14, 15
ENDS = (1 << 64) - 1, (1 << 64) - 64, (1 << 63), (1 << 63) - 1, 1 << 32


def windows():
    """10, 15: a bind with a wrong length, address, key or access right fails and binds nothing"""
    for field, values in (("mw_length", (4 * PAGE + 1, *ENDS)), ("remote", (0, *ENDS)), ("mr_lkey", WILD),
                          ("mw_rkey", WILD), ("mw_access", (0xFFFFFFFF, 1 << 31, 1 << 10))):
        for value in values:
            with hostile_pair() as (a, b):
                region, window = MR(b.pd, 4 * PAGE, FULL_ACCESS | e.IBV_ACCESS_MW_BIND), MW(b.pd, e.IBV_MW_TYPE_2)
                usual = {"remote": region.buf, "mw_length": PAGE, "mr_lkey": region.lkey, "mw_rkey": window.rkey,
                         "mw_key": window.rkey ^ 1, "mw_access": e.IBV_ACCESS_REMOTE_WRITE}
                b.post(pieces=[], opcode=BIND, **{**usual, field: value})
                equal(b.completion().status, e.IBV_WC_MW_BIND_ERR, f"{field} {value:#x}")
                ctypes.memset(region.buf, 0, region.length)
                a.post(remote=region.buf, rkey=window.rkey ^ 1)
                true(a.completion(20).status != e.IBV_WC_SUCCESS, "the window is bound")
                equal(ctypes.string_at(region.buf, region.length), bytes(region.length))
                window.close()
                region.close()
    healthy()


def remote_operations():
    """Atomics and FLUSHes with wild keys, addresses and types fail"""
    for value in (*WILD, *ENDS):
        for fields in ({"opcode": CMP_AND_SWP, "remote": value}, {"opcode": FETCH_AND_ADD, "atomic_rkey": value},
                       {"opcode": FLUSH, "remote": value}, {"opcode": FLUSH, "flush_rkey": value},
                       {"opcode": FLUSH, "flush_kind": value}, {"opcode": ATOMIC_WRITE, "remote": value},
                       {"opcode": ATOMIC_WRITE, "rkey": value}):
            with hostile_pair() as (a, b):
                usual = {"remote": b.mr.buf}
                usual["flush_rkey" if fields["opcode"] == FLUSH else "atomic_rkey"] = b.mr.rkey
                if fields["opcode"] == ATOMIC_WRITE:
                    usual["rkey"] = b.mr.rkey
                a.post(pieces=[a.piece(8)], **{**usual, **fields})
                true(a.completion(20).status != e.IBV_WC_SUCCESS, f"{fields}")
    healthy()


def handles():
    """11: a datagram uses the AH in the kernel, whatever its element contains"""
    a, b = HostileUd(ctx=context()), UdEnd(ctx=context())
    number, unread = ABI.SEND["ah_num"][0], ABI.UNREAD_BYTES
    with a.handle_for(os.environ["ADDR"], gid_index(4)) as handle:
        b.receive()
        equal(a.send(handle, qpn=b.qp.qp_num), e.IBV_WC_SUCCESS)
        equal(b.completion(lambda wc: wc.wr_id == 0).status, e.IBV_WC_SUCCESS)
        usual = a.last_element()
        # Such as the address vector that a library writes.
        for filling in (b"\xff", b"\0", b"\x41"):
            b.receive()
            a.post_element(usual[:unread.start] + filling * (unread.stop - unread.start) + usual[unread.stop:])
            equal(a.completion(lambda wc: True).status, e.IBV_WC_SUCCESS, "datagram with a wild address vector")
            equal(b.completion(lambda wc: wc.wr_id == 0).status, e.IBV_WC_SUCCESS)
        b.close()
    a.close()
    for value in (0, *WILD):
        a = HostileUd(ctx=context())
        a.post_element(usual[:number] + value.to_bytes(4, "little") + usual[number + 4:])
        true(a.completion(lambda wc: True).status != e.IBV_WC_SUCCESS, f"handle {value:#x}")
        eventually(lambda a=a: a.qp.query(e.IBV_QP_STATE)[0].qp_state in (e.IBV_QPS_SQE, e.IBV_QPS_ERR), "failure")
        a.close()
    healthy()


def foreign_handle():
    """11: the number of an AH of another PD is invalid"""
    a, b = HostileUd(ctx=context()), UdEnd(ctx=context())
    b.receive()
    with b.handle_for(os.environ["ADDR"], gid_index(4)) as handle:
        equal(a.send(handle, qpn=b.qp.qp_num), e.IBV_WC_LOC_QP_OP_ERR, "an AH of another PD")
        equal(a.qp.query(e.IBV_QP_STATE)[0].qp_state, e.IBV_QPS_SQE)
        b.silent()
        equal(b.send(handle, qpn=b.qp.qp_num), e.IBV_WC_SUCCESS, "an AH of its own PD")
        equal(b.completion(lambda wc: wc.wr_id == 0).status, e.IBV_WC_SUCCESS)
    a.close()
    b.close()


def resized():
    """13: the header of a CQ has no effect on a resize, before or after"""
    for index in (*WILD, 0xFFFFFFFE):
        with hostile_pair(a={"cqe": 16}) as (a, b):
            others, place = set(mappings()) - {a.cq_ring.start}, 0

            def resize(size, a=a, others=others):
                a.cq.resize(size)
                # The new mapping may have the address of the old one.
                (a.cq_ring,) = [Ring(start, *rest) for start, rest in mappings().items() if start not in others]

            for size, larger in ((64, True), (32, False), (200, True), (4, False)):
                # The kernel must copy the elements that it wrote, not the current contents.
                a.cq_ring.put(PRODUCER, index)
                resize(size)
                if larger:
                    place = 0
                    equal(ABI.next_completion(a.cq_ring), 0, "the index of the next completion")
                a.cq_ring.put(PRODUCER, index)
                a.post(remote=b.mr.buf, rkey=b.mr.rkey, wr_id=size)
                place += 1
                eventually(lambda a=a, place=place: ABI.next_completion(a.cq_ring) == place,
                           "a completion at its index")
                equal([(wc.status, wc.wr_id) for wc in a.completions(1)], [(0, size)], f"{index:#x}")
            for size in (1000, 4, 4000):
                # With such a consumer index the CQ may appear full.
                a.cq_ring.put(CONSUMER, index)
                a.post(remote=b.mr.buf, rkey=b.mr.rkey)
                with contextlib.suppress(PyverbsError):
                    resize(size)
    healthy()


def answer(command, body):
    """The kernel's response in memory filled with ones."""
    size = COMMANDS[command][0]
    room = ctypes.create_string_buffer(b"\xff" * size, size)
    where = ctypes.addressof(room)
    equal(issue(context().cmd_fd, request(command, struct.pack("=Q", where) + body, where)), 0, f"command {command}")
    return room.raw


def answers():
    """Each byte of the kernel's responses is initialized"""
    domain = PD(context())
    queue = answer(CREATE_CQ, struct.pack("=QIIiI", 0, 16, 0, -1, 0))
    handle, entries, _, size, _ = struct.unpack("=IIQII", queue)
    true(entries >= 16 and size > 16 * 48, f"{entries} entries, {size} bytes")
    resized_to = answer(RESIZE_CQ, struct.pack("=II", handle, 64))
    shared = answer(CREATE_SRQ, struct.pack("=QIIII", 0, domain.handle, 16, 1, 0))
    pair = answer(CREATE_QP, struct.pack("=Q9I4B", 0, domain.handle, handle, handle, 0, 4, 4, 1, 1, 0,
                                         0, e.IBV_QPT_RC, 0, 0))
    for what, found, places in (("completion queue", queue, (20,)), ("resized", resized_to, (4, 20)),
                                ("shared queue", shared, (28, 36)), ("queue pair", pair, (28, 44, 60))):
        for place in places:
            equal(found[place:place + 4], bytes(4), f"{what}, padding at {place}")
    for command, made in ((DESTROY_QP, pair), (DESTROY_SRQ, shared), (DESTROY_CQ, queue)):
        answer(command, made[:4] + bytes(4))
    domain.close()


if __name__ == "__main__":
    run([windows, remote_operations, handles, foreign_handle, resized, answers])
