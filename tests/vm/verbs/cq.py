# SPDX-License-Identifier: GPL-2.0
"""Completion queues: resize, also under traffic, events across a resize, overflow, vectors."""

import errno
import os
import struct
import time

from pyverbs.cq import CQ
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QPAttr

import enums as e
import ud
from peer import Peer
from rc import SLOWNESS, End, async_event, context, forget_events, gid_index, pair
from tap import equal, not_for_rxe, run, true
from verbs import refused
from work import FLUSHED, OK, RXE, SEND, WRITE, status


# The command IB_USER_VERBS_EX_CMD_MODIFY_CQ.
MODIFY_CQ = 57


def writes(a, b, *numbers):
    """Posts one-byte RDMA WRITEs with these wr_ids."""
    for number in numbers:
        a.send(WRITE, wr_id=number, pieces=[a.sge(0, 1)], remote=b.remote())


def arrived(end, count, seconds=5):
    """The wr_ids of that many completions, all successful."""
    found = end.completions(count, seconds)
    equal({wc.status for wc in found}, {OK}, "statuses")
    return [wc.wr_id for wc in found]


def resize_keeps():
    """A resize keeps waiting and later completions in order"""
    with pair(a={"cqe": 30}) as (a, b):
        done = 0
        for size in (100, 40, 4000, 30, 200):
            writes(a, b, *range(done, done + 20))
            # Let the library see the last completion before the resize unmaps the old ring.
            time.sleep(0.05)
            a.cq.resize(size)
            true(a.cq.cqe >= size, f"{a.cq.cqe} entries")
            writes(a, b, *range(done + 20, done + 28))
            equal(arrived(a, 28), list(range(done, done + 28)), f"around {size} entries")
            done += 28


def resize_wraps():
    """A resize copies a full queue that has wrapped"""
    with pair(a={"cqe": 31, "wr": 128}) as (a, b):
        for turn in range(6):
            writes(a, b, *range(17))
            arrived(a, 17)
            entries = a.cq.cqe
            count = min(entries, 100)
            writes(a, b, *range(count))
            time.sleep(0.1)
            a.cq.resize(entries + 1 if turn % 2 else entries)
            equal(arrived(a, count), list(range(count)), f"{count} of {entries} entries")


def shrink():
    """A shrink below the waiting or outstanding completions is refused or loses none"""
    not_for_rxe("loses later completions after a shrink")
    sender, receiver = ud.UdEnd(ctx=context()), ud.UdEnd(ctx=context())
    way = sender.handle_for(*address())
    for size in (64, 1):
        sender.cq.resize(size)
    receiver.receive(16)
    for number in range(6):
        sender.post(way, receiver.qp.qp_num, number)
    try:
        sender.cq.resize(1)
    except PyverbsError as error:
        equal(error.error_code, errno.EINVAL)
    equal(sorted(sender.completion().wr_id for _ in range(6)), list(range(6)))
    way.close()
    for end in (sender, receiver):
        end.close()
    with pair(a={"cqe": 63}) as (a, b):
        # SENDs that complete only when the peer posts its receives.
        for number in range(40):
            a.send(SEND, wr_id=number, pieces=[a.sge(0, 8)])
        a.cq.resize(1)
        for number in range(40):
            b.receive(number)
        equal(arrived(a, 40), list(range(40)))
        forget_events()


def shrink_below():
    """A shrink below the number of waiting completions is refused, and one to that number is not"""
    with pair(a={"cqe": 30}) as (a, b):
        writes(a, b, *range(8))
        time.sleep(0.2 * SLOWNESS)
        refused(lambda: a.cq.resize(7), errno.EINVAL)
        a.cq.resize(8)
        equal(arrived(a, 8), list(range(8)))


def address():
    """The local address, and the index of its GID."""
    return os.environ["ADDR"], gid_index()


def resize_under_traffic():
    """Resizes under traffic neither lose nor duplicate completions"""
    forget_events()
    with Peer(5) as peer:
        end = End(wr=64, cqe=64)
        peer.connect(end, min_rnr_timer=1)
        for number in range(48):
            end.receive(number, [end.sge(0, 64)])
        peer.start()
        posted, taken, sizes, wanted = 48, 0, 0, None
        while wanted is None or taken < wanted:
            true(time.monotonic() < peer.stop + 60, f"{taken} of {wanted} received, {sizes} sizes")
            for wc in end.cq.poll(7)[1]:
                equal((wc.wr_id, wc.status), (taken, OK), "the next completion")
                taken += 1
            for number in range(posted, taken + 48):
                end.receive(number, [end.sge(0, 64)])
            posted = taken + 48
            if peer.running():
                end.cq.resize(64 + sizes % 1000 * 67)
                sizes += 1
            elif wanted is None:
                wanted = peer.count()
        print(f"# {taken} messages, {sizes} sizes")
        equal(async_event(0), None, "an event")
        end.close()


def armed():
    """An armed queue stays armed across a resize and sends its event"""
    with pair(a={"events": True, "cqe": 10}) as (a, b):
        for size in (100, 5, 1000):
            a.cq.req_notify()
            a.cq.resize(size)
            writes(a, b, 1)
            true(a.event(), f"no event at {size} entries")
            arrived(a, 1)


def bad_sizes():
    """A resize to zero or beyond max_cqe is refused"""
    with pair() as (a, b):
        for size in (0, context().query_device().max_cqe + 1, 0x7FFFFFFF):
            try:
                a.cq.resize(size)
            except PyverbsError as error:
                equal(error.error_code, errno.EINVAL, f"{size} entries")
            else:
                raise AssertionError(f"{size} entries were granted")
        writes(a, b, 7)
        equal(arrived(a, 1), [7])


def had_room(end, entries):
    """Takes the completions of `entries` requests that had room. That of the next one is lost."""
    found = [(wc.wr_id, wc.status) for wc in end.cq.poll(64)[1]]
    equal(found[:entries], [(number, OK) for number in range(entries)], "completions that had room")
    # Later requests are flushed. Those for which that happens while this polls have room.
    for number, state in found[entries:]:
        true(number > entries and (RXE or state == FLUSHED), f"completion {number} of status {state}")


def overflow():
    """A queue that overflows sends one event, and its QP fails"""
    forget_events()
    with pair(a={"cqe": 3, "wr": 64}, timeout=8, retry_cnt=1) as (a, b):
        entries = a.cq.cqe
        writes(a, b, *range(entries + 5))
        kinds = {async_event(), async_event()}
        true(e.IBV_EVENT_CQ_ERR in kinds, f"events {kinds}")
        true(RXE or e.IBV_EVENT_QP_FATAL in kinds, f"events {kinds}")
        true(async_event(0.2) != e.IBV_EVENT_CQ_ERR, "a second CQ_ERR event")
        had_room(a, entries)
        true(RXE or a.state() == e.IBV_QPS_ERR, "the QP is not in error")


def overflow_again():
    """A queue that has overflowed and was resized tells of the next overflow"""
    not_for_rxe("does not tell")
    forget_events()
    with pair(a={"cqe": 3, "wr": 64}, timeout=8, retry_cnt=1) as (a, b):
        for turn in range(2):
            entries = a.cq.cqe
            writes(a, b, *range(entries + 5))
            kinds = {async_event(), async_event()}
            equal(kinds, {e.IBV_EVENT_CQ_ERR, e.IBV_EVENT_QP_FATAL}, f"events of overflow {turn}")
            had_room(a, entries)
            a.cq.resize(2 * entries + 1)
            for end in (a, b):
                end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
            # What was flushed after had_room.
            a.cq.poll(64)
            a.to_rts(b, timeout=8, retry_cnt=1)
            b.to_rts(a)


def moderate(count, period):
    """Sets the event moderation of all CQs of this process. It bypasses the library, which has no such verb."""
    done = 0
    for handle in range(200):
        # struct ib_uverbs_cmd_hdr, ib_uverbs_ex_cmd_hdr, ib_uverbs_ex_modify_cq.
        words = struct.pack("=IHHQHHIIIHHI", 1 << 31 | MODIFY_CQ, 2, 0, 0, 0, 0, 0, handle, 1, count, period, 0)
        try:
            os.write(context().cmd_fd, words)
        except OSError as error:
            true(error.errno in (errno.EINVAL, errno.ENOENT), f"{error} for a handle without a CQ")
        else:
            done += 1
    return done


def told_at_once(end, since):
    """Returns whether an event arrives before a moderated event could, which is after 65 ms."""
    return end.event(max(0, since + 0.06 - time.monotonic()) / SLOWNESS)


def moderation():
    """A moderated event covers several completions, or fires at the end of the period"""
    not_for_rxe("has none")
    with pair(a={"events": True}) as (a, b):
        equal(moderate(4, 0xFFFF), 2, "queues")
        # On a slow machine three requests may take longer than the moderation period.
        for _ in range(1000):
            a.cq.req_notify()
            started = time.monotonic()
            writes(a, b, *range(3))
            early = a.event(0)
            writes(a, b, 3)
            told = early or a.event(0)
            in_time = time.monotonic() - started < 0.06
            true(told or a.event(), "no event at all")
            arrived(a, 4)
            if in_time:
                break
        true(in_time, "the machine is too slow")
        equal((early, told), (False, True), "events after three and after four")
        # Armed, no event without a completion; then one completion, and an event after the period.
        a.cq.req_notify()
        true(not a.event(0.2), "an event without a completion")
        started = time.monotonic()
        writes(a, b, 4)
        true(a.event(), "no event after the period")
        true(time.monotonic() - started > 0.05, "an event before the end of the period")
        arrived(a, 1)
        # Not armed: no event for any completion.
        writes(a, b, *range(10))
        true(not a.event(0.2), "an event without a request")
        arrived(a, 10)
        # Moderation is disabled while an event is held back.
        a.cq.req_notify()
        started = time.monotonic()
        writes(a, b, 5)
        moderate(0, 0)
        true(told_at_once(a, started), "the held-back event did not arrive")
        a.cq.req_notify()
        started = time.monotonic()
        writes(a, b, 6)
        true(told_at_once(a, started), "no event without moderation")
        arrived(a, 2)
        # Destroy a queue while its event is due.
        moderate(100, 60000)
        a.cq.req_notify()
        writes(a, b, 7)


def vectors():
    """A CQ can be created on each completion vector and on no other"""
    count = context().num_comp_vectors
    true(count >= 1, f"{count} vectors")
    for vector in range(count):
        CQ(context(), 8, None, None, vector).close()
    for vector in (count, -1, 1 << 20):
        try:
            CQ(context(), 8, None, None, vector).close()
        except (PyverbsError, OverflowError):
            continue
        raise AssertionError(f"vector {vector} of {count}")


TESTS = [resize_keeps, resize_wraps, shrink, shrink_below, resize_under_traffic, armed, bad_sizes, overflow,
         overflow_again, moderation, vectors]

if __name__ == "__main__":
    run(TESTS)
