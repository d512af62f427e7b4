# SPDX-License-Identifier: GPL-2.0
"""Allocation or copy failures, as in no_memory.py, while requests of every kind are posted. A request that failed to
be sent is sent at the next doorbell; each completes once, in order, with success, and executes once.
"""

from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.wr import RecvWR, SendWR, SGE

import enums as e
from atomics import ADD, EXTENDED, FLUSH, SWAP, atomic, number, put
from no_memory import COPIED, Injection, attempt
from rc import PAGE, context, gid_index, pair
from ring import command
from srq import Shared
from tap import equal, run, true
from ud import GRH, MULTICAST_QPN, UdEnd
from work import OK, SEND, SEND_IMM, WRITE_IMM, status

# Later failures hit code that all requests share.
TRIES = 30
POSTS = range(1, TRIES)
GROUP = "239.1.1.9"
ONE, TWO = e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2
REMOTE = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ


def rung():
    """Rings the doorbell of each queue pair of this process, bypassing the library."""
    true(any([command(handle) for handle in range(64)]), "a doorbell")


def each_post(post, completes, least=2):
    """Posts requests by number, each with a later failure; `completes` checks its completion."""
    failed = 0
    for at in POSTS:
        with Injection(at) as injection:
            posted = attempt(lambda at=at: post(at) or True)
        failed += injection.happened
        if not posted:
            # The WR is in the ring without a doorbell.
            rung()
        completes(at)
    true(failed >= least, f"only {failed} could be made to fail")


def done(end, at, what):
    """Checks that the next completion is that of the request with this number."""
    equal(status(end, OK, what, 20).wr_id, at, what)


def messages():
    """post_send of a message that fails is repeated by a doorbell, with receives of the QP and of an SRQ"""
    for shared in (None, Shared()):
        with pair(b=shared and shared.user) as (a, b):
            for opcode in (SEND, SEND_IMM, WRITE_IMM):
                def post(at, opcode=opcode, a=a, b=b):
                    remote = b.remote() if opcode == WRITE_IMM else None
                    a.send(opcode, wr_id=at, pieces=[a.sge(0, 3000)], remote=remote)

                def completes(at, a=a, b=b):
                    done(a, at, "send")
                    done(b, at, "receive")

                for slot in POSTS:
                    if shared:
                        # Longer than a slot; the bytes are not checked.
                        pieces = [SGE(shared.mr.buf, shared.mr.length, shared.mr.lkey)]
                        shared.srq.post_recv(RecvWR(wr_id=slot, num_sge=1, sg=pieces))
                    else:
                        b.receive(slot)
                each_post(post, completes)
                for end in (a, b):
                    end.silent()
        if shared:
            shared.__exit__()


def each_atomic(a, b, post, adds):
    """Posts one kind of operation on the first bytes of b; `adds` if it adds 1 to them."""
    put(b, 0)
    each_post(post, lambda at: done(a, at, "request"))
    a.silent()
    if adds:
        equal(number(b), len(POSTS), "sum of the additions")


def atomics():
    """post_send of an atomic operation, FLUSH or ATOMIC_WRITE that fails is repeated by a doorbell"""
    with pair(**EXTENDED) as (a, b):
        key, address = b.mr.rkey, b.mr.buf
        for name, *arguments in (("atomic_fetch_add", 1), ("atomic_cmp_swp", 1, 2), ("atomic_write", b"12345678"),
                                 ("flush", 8, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_RANGE)):
            def post(at, name=name, arguments=arguments):
                # Only these two return a value.
                pieces = [a.sge(0, 8)] if name in ("atomic_fetch_add", "atomic_cmp_swp") else None
                a.order(name, key, address, *arguments, wr_id=at, pieces=pieces)

            each_atomic(a, b, post, name == "atomic_fetch_add")
    with pair(a={"access": FLUSH}, b={"access": FLUSH}, rights=FLUSH) as (a, b):
        for opcode in (ADD, SWAP):
            each_atomic(a, b, lambda at, opcode=opcode: atomic(a, opcode, b.remote(), 1, 2, wr_id=at), opcode == ADD)


def windows():
    """post_send of BIND_MW or LOCAL_INV that fails, without any packet, is repeated by a doorbell"""
    with pair() as (a, _):
        region = MR(a.pd, 4 * PAGE, e.IBV_ACCESS_LOCAL_WRITE | REMOTE | e.IBV_ACCESS_MW_BIND)
        info = MWBindInfo(region, region.buf, 64, REMOTE)
        window = {}

        def another(kind):
            if window:
                window["is"].close()
            window["is"] = MW(a.pd, kind)

        def bind(at):
            request = SendWR(wr_id=at, opcode=e.IBV_WR_BIND_MW)
            request.set_bind_wr(window["is"], info)
            window["key"] = request.rkey
            a.qp.post_send(request)

        def bind_first(at):
            a.qp.bind_mw(window["is"], MWBind(info, e.IBV_SEND_SIGNALED, at))

        def bound(at, kind):
            # The library has no key for the window if the doorbell failed.
            done(a, at, "bind")
            another(kind)

        def invalidate(at):
            request = SendWR(wr_id=at, opcode=e.IBV_WR_LOCAL_INV)
            request.imm_data = window["key"]
            a.qp.post_send(request)

        def invalid(at):
            done(a, at, "invalidation")
            another(TWO)
            bind(TRIES)
            done(a, TRIES, "bind")

        another(ONE)
        each_post(bind_first, lambda at: bound(at, ONE), COPIED)
        another(TWO)
        each_post(bind, lambda at: bound(at, TWO), COPIED)
        bind(TRIES)
        done(a, TRIES, "bind")
        each_post(invalidate, invalid, COPIED)
        a.silent()
        for part in (window["is"], region):
            part.close()


def some_arrived(found):
    """Checks numbers that arrived, up to that of the last message: each once, and in order."""
    *found, last = found
    print(f"# {len(found)} of {len(POSTS)} arrived", flush=True)
    equal(last, TRIES, "the last message")
    equal(found, sorted(set(found)), "arrived in order")
    true(set(found) <= set(POSTS) and found, f"{found} arrived")


def unreliable():
    """post_send of UC that fails loses that message, and later ones arrive"""
    with pair(a={"service": e.IBV_QPT_UC}, b={"service": e.IBV_QPT_UC}) as (a, b):
        # A partly sent message may have consumed a receive.
        for slot in range(2 * TRIES):
            b.receive(slot)

        def post(at):
            a.send(SEND_IMM, wr_id=at, pieces=[a.sge(0, 3000)], imm=at)

        each_post(post, lambda at: done(a, at, "send"))
        post(TRIES)
        done(a, TRIES, "send")
        found = []
        while TRIES not in found:
            found.append(status(b, OK, "receive", 20).imm_data)
        some_arrived(found)
        for end in (a, b):
            end.silent()


def datagrams():
    """post_send of UD to a group that fails loses that datagram, and later ones arrive"""
    # In a separate context: attach attaches all queue pairs of a context.
    end, peer = UdEnd(ctx=context()), UdEnd()
    handle = end.handle_for(GROUP, gid_index())
    peer.attach(GROUP)
    peer.receive(TRIES)

    def post(at):
        end.post(handle, MULTICAST_QPN, at, bytes([at]))

    def completes(at):
        found = end.completion(seconds=20)
        equal((found.status, found.wr_id), (OK, at), "send")

    each_post(post, completes)
    post(TRIES)
    completes(TRIES)
    found = []
    while TRIES not in found:
        received = peer.completion(seconds=20)
        equal((received.status, received.byte_len), (OK, GRH + 1), "receive")
        found.append(peer.received(received.wr_id, GRH + 1)[GRH])
    some_arrived(found)
    handle.close()
    for each in (end, peer):
        each.silent()
        each.close()


if __name__ == "__main__":
    context()
    run([messages, atomics, windows, unreliable, datagrams])
