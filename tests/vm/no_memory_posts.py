# SPDX-License-Identifier: GPL-2.0
"""Memory runs out, or copies fail, as in no_memory.py: requests of every kind are posted. What could not be sent goes
when the doorbell is rung again; each completes once, with success.
"""

import pyverbs.enums as e
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.wr import RecvWR, SendWR, SGE

from atomics import ADD, EXTENDED, FLUSH, SWAP, atomic
from no_memory import COPIED, Injection, attempt
from rc import PAGE, context, gid_index, pair
from ring import command
from srq import Shared
from tap import equal, run, true
from ud import MULTICAST_QPN, UdEnd
from work import OK, SEND, SEND_IMM, WRITE_IMM, status

# Later ones fail in what every request does.
TRIES = 30
ONE, TWO = e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2
REMOTE = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ


def rung():
    """Rings the doorbell of each queue pair of this process, past the library."""
    true(any([command(handle) for handle in range(64)]), "a doorbell")


def each_post(post, completes, least=2):
    """Posts a request with a later failure each time; `completes` looks whether it does."""
    failed = 0
    for number in range(1, TRIES):
        with Injection(number) as injection:
            posted = attempt(lambda: post() or True)
        failed += injection.happened
        if not posted:
            # It is in the ring, but nobody was told.
            rung()
        completes()
    true(failed >= least, f"only {failed} could be made to fail")


def messages():
    """post_send of messages, from a queue of the peer's and from a shared one"""
    for shared in (None, Shared()):
        with pair(b=shared and shared.user, timeout=10) as (a, b):
            for opcode in (SEND, SEND_IMM, WRITE_IMM):
                def post(opcode=opcode, a=a, b=b):
                    a.send(opcode, pieces=[a.sge(0, 3000)], remote=b.remote() if opcode == WRITE_IMM else None)

                def completes(a=a, b=b):
                    status(a, OK, "send", 20)
                    status(b, OK, "receive", 20)

                for slot in range(TRIES):
                    if shared:
                        # Larger than a slot; nobody looks at the bytes.
                        pieces = [SGE(shared.mr.buf, shared.mr.length, shared.mr.lkey)]
                        shared.srq.post_recv(RecvWR(wr_id=slot, num_sge=1, sg=pieces))
                    else:
                        b.receive(slot)
                each_post(post, completes)
        if shared:
            shared.__exit__()


def atomics():
    """post_send of atomic operations, FLUSH and ATOMIC_WRITE"""
    with pair(**EXTENDED, timeout=10) as (a, b):
        key, address = b.mr.rkey, b.mr.buf
        for post in (lambda: a.order("atomic_fetch_add", key, address, 1, pieces=[a.sge(0, 8)]),
                     lambda: a.order("atomic_cmp_swp", key, address, 1, 2, pieces=[a.sge(0, 8)]),
                     lambda: a.order("atomic_write", key, address, b"12345678"),
                     lambda: a.order("flush", key, address, 8, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_RANGE)):
            each_post(post, lambda: status(a, OK, "request", 20))
    with pair(a={"access": FLUSH}, b={"access": FLUSH}, rights=FLUSH, timeout=10) as (a, b):
        for opcode in (ADD, SWAP):
            each_post(lambda opcode=opcode: atomic(a, opcode, b.remote(), 1, 2), lambda: status(a, OK, "request", 20))


def windows():
    """post_send of BIND_MW and LOCAL_INV, which no packet goes for"""
    with pair(timeout=10) as (a, _):
        region = MR(a.pd, 4 * PAGE, e.IBV_ACCESS_LOCAL_WRITE | REMOTE | e.IBV_ACCESS_MW_BIND)
        info = MWBindInfo(region, region.buf, 64, REMOTE)
        window = {}

        def another(kind):
            if window:
                window["is"].close()
            window["is"] = MW(a.pd, kind)

        def bind():
            request = SendWR(wr_id=5, opcode=e.IBV_WR_BIND_MW)
            request.set_bind_wr(window["is"], info)
            window["key"] = request.rkey
            a.qp.post_send(request)

        def bound(kind):
            # The library does not know what it is called if it was told of a failure.
            status(a, OK, "bind")
            another(kind)

        def invalidate():
            request = SendWR(wr_id=6, opcode=e.IBV_WR_LOCAL_INV)
            request.imm_data = window["key"]
            a.qp.post_send(request)

        def invalid():
            status(a, OK, "invalidation")
            another(TWO)
            bind()
            status(a, OK, "bind")

        another(ONE)
        each_post(lambda: a.qp.bind_mw(window["is"], MWBind(info, e.IBV_SEND_SIGNALED)), lambda: bound(ONE), COPIED)
        another(TWO)
        each_post(bind, lambda: bound(TWO), COPIED)
        bind()
        status(a, OK, "bind")
        each_post(invalidate, invalid, COPIED)
        for part in (window["is"], region):
            part.close()


def unreliable():
    """post_send of UC and UD: what is lost is lost, and what comes later arrives"""
    with pair(a={"service": e.IBV_QPT_UC}, b={"service": e.IBV_QPT_UC}) as (a, b):
        for slot in range(TRIES):
            b.receive(slot)
        each_post(lambda: a.send(SEND, pieces=[a.sge(0, 3000)]), lambda: status(a, OK, "send"))
        arrived = len(b.cq.poll(64)[1])
        a.send(SEND, pieces=[a.sge(0, 3000)])
        status(a, OK, "send")
        status(b, OK, "receive")
        true(0 < arrived < TRIES, f"{arrived} arrived")
    end, peer = UdEnd(ctx=context()), UdEnd(ctx=context())
    handle = end.handle_for("239.1.1.9", gid_index())
    peer.receive(8)
    each_post(lambda: end.post(handle, MULTICAST_QPN, 7), lambda: equal(end.completion().status, OK, "send"))
    handle.close()
    for each in (end, peer):
        each.close()


if __name__ == "__main__":
    context()
    run([messages, atomics, windows, unreliable])
