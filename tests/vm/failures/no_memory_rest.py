# SPDX-License-Identifier: GPL-2.0
"""Allocation or copy failures, as in no_memory.py, for the remaining verbs: advice, moderation, detach from groups,
counters of queue pairs, netlink and sysfs, states of every service, and destroy.

Some verbs bypass the library, so its own error handling does not hide the result.
"""

import ctypes
import errno
import mmap
import os

from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

import comp_cntr
import enums as e
import mapping
import nldev
import uverbs
from hostile_hand import device_path
from memory import refused
from no_memory import COPIED, LACKING, MOST, Injection, attempt, close, each_failure
from no_memory_more import each_time
from odp import ON_DEMAND
from odp_advice import PREFETCH_WRITE, advise
from rc import DEVICE, FULL_ACCESS, PAGE, PORT, End, context, eventually, pair
from tap import equal, needs_core, run, true
from transitions import ERR, INIT, NAMES, RESET, RTR, RTS, SERVICES, SQD, SQE, RC, UC, UD, Traveller, mask_of
from ud import UdEnd, gid_bytes
from verbs import resources
from work import WRITE, OK, status

NAME = "another name"
SYSFS = f"/sys/class/infiniband/{DEVICE}"


class Raw:
    """A context without a library; its objects are named by handles."""

    def __init__(self):
        self.descriptor = uverbs.open_context(device_path())
        # Populated in advance, so that page faults do not fail.
        self.answers = mmap.mmap(-1, PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
        self.answer = ctypes.addressof(ctypes.c_char.from_buffer(self.answers))

    def call(self, command, *values):
        """Issues a command with these fields; missing ones are zero. Returns the handle of the new object."""
        fields = [field for field in uverbs.COMMANDS[command][2].split() if field != "Q:answer"]
        rest = [b"" if field.split(":")[0].endswith("s") else 0 for field in fields[len(values):]]
        os.write(self.descriptor, uverbs.command(command, self.answer, *values, *rest))
        return int.from_bytes(self.answers[:4], "little")

    def refused(self, *command):
        """Issues a command; returns 0, or the errno."""
        try:
            self.call(*command)
        except OSError as error:
            return error.errno
        return 0

    def close(self):
        """Closes the context, with all objects left in it."""
        os.close(self.descriptor)


def advised():
    """advise_mr that fails reports an error; otherwise the memory comes at once or soon"""
    end, held = End(), mapping.Memory(16 * PAGE)
    region = MR(end.pd, held.length, FULL_ACCESS | ON_DEMAND, address=held.address)
    for now in (True, False):
        def take(now=now):
            advise(end, [(held.address, held.length, region.lkey)], PREFETCH_WRITE, now)
            return True

        def comes(done, now=now):
            if done and now:
                equal(held.resident(), held.length, "resident bytes")
            elif done:
                eventually(lambda: held.resident() == held.length, "resident bytes", 30)
            held.advise(mapping.DONTNEED)

        # Any failure to fault a page in is reported as a bad address.
        each_time(take, comes, other=(errno.EFAULT,))
    region.close()
    end.close()


def events_of_queues():
    """modify_cq (moderation) and req_notify_cq that fail succeed when repeated, and a requested event arrives"""
    raw = Raw()
    queue = raw.call(uverbs.CREATE_CQ, 0, 64, 0, -1)
    for period in (100, 0):
        each_time(lambda period=period: raw.call(uverbs.EX_MODIFY_CQ, queue, 1, 4, period), least=COPIED)
    raw.close()
    with pair(a={"events": True}) as (a, b):
        def arm():
            a.cq.req_notify()
            return True

        def told(done):
            a.send(WRITE, pieces=[a.sge(0, 8)], remote=b.remote())
            status(a, OK, "write")
            if done:
                true(a.event(), "an event")

        each_time(arm, told, COPIED)


def groups_left():
    """detach_mcast that fails keeps the membership"""
    end, group = UdEnd(), "239.1.1.9"
    end.attach(group)

    def leave():
        end.detach(group)
        return True

    def back(done):
        if done:
            refused(errno.EINVAL, lambda: end.detach(group))
            end.attach(group)

    each_time(leave, back, COPIED)
    end.close()


def counters_of_pairs():
    """Binding, reading and unbinding counters of queue pairs, and counting by type, survive every failure"""
    port = {nldev.DEV_INDEX: nldev.index_of(DEVICE), nldev.PORT_INDEX: PORT, nldev.STAT_RES: nldev.RES_QP}

    def there():
        found = nldev.ask(nldev.STAT_GET, port, dump=True)
        path = nldev.STAT_COUNTER, nldev.STAT_COUNTER_ENTRY, nldev.STAT_COUNTER_ID
        return [nldev.number(one) for answer in found for one in nldev.within(answer, *path)]

    with pair() as (a, b):
        own = {**port, nldev.RES_LQPN: a.qp.qp_num}

        def bind():
            nldev.ask(nldev.STAT_SET, {**own, nldev.STAT_MODE: nldev.MANUAL})
            return True

        def unbind():
            for counter in there():
                nldev.ask(nldev.STAT_DEL, {**own, nldev.STAT_COUNTER_ID: counter})
            return True

        def unbound(done):
            # If only the response failed, the queue pair is bound.
            true(there() or not done, "bound, but there is no counter")
            unbind()
            equal(there(), [], "counters")

        each_time(bind, unbound, other=nldev.LACKING)
        bind()
        counter = there()[0]

        def read():
            answers = nldev.ask(nldev.STAT_GET, {**port, nldev.STAT_COUNTER_ID: counter})
            return nldev.within(answers[0], nldev.STAT_HWCOUNTERS, nldev.HWCOUNTER_ENTRY)

        def counts(done):
            true(done is None or len(done) > 5, "values")
            a.send(WRITE, pieces=[a.sge(0, 8)], remote=b.remote())
            status(a, OK, "write")

        each_time(read, counts, other=nldev.LACKING)

        def release():
            nldev.ask(nldev.STAT_DEL, {**own, nldev.STAT_COUNTER_ID: counter})
            return True

        def bound_again(_done):
            nonlocal counter
            if not there():
                bind()
            counter = there()[0]

        each_time(release, bound_again, other=nldev.LACKING)
        unbind()
    by_type = {**port, nldev.STAT_MODE: nldev.AUTO}
    each_time(lambda: nldev.ask(nldev.STAT_SET, {**by_type, nldev.STAT_AUTO_MODE_MASK: 1}), other=nldev.LACKING)
    # The core continues without a counter if there is no memory for one.
    changed((RC,), ((RESET, INIT),))
    nldev.ask(nldev.STAT_SET, {**by_type, nldev.STAT_AUTO_MODE_MASK: 0})
    equal(there(), [], "counters")


def details():
    """netlink queries of a queue pair, a CQ, a region, an SRQ and the port survive every failure"""
    index, domain = nldev.index_of(DEVICE), PD(context())
    queue = SRQ(domain, SrqInitAttr(SrqAttr(max_wr=64, max_sge=2)))
    end = UdEnd(ctx=context())
    # Only queue pairs are queried by port.
    for command, table, kind, port in ((nldev.RES_QP_GET, nldev.RES_QP, nldev.RES_LQPN, {nldev.PORT_INDEX: PORT}),
                                       (nldev.RES_CQ_GET, nldev.RES_CQ, nldev.RES_CQN, {}),
                                       (nldev.RES_MR_GET, nldev.RES_MR, nldev.RES_MRN, {}),
                                       (nldev.RES_SRQ_GET, nldev.RES_SRQ, nldev.RES_SRQN, {})):
        asked = {**port, nldev.DEV_INDEX: index, nldev.DRIVER_DETAILS: b"\1"}
        entries = [entry for answer in nldev.ask(command, asked, dump=True)
                   for entry in nldev.within(answer, table, table + 1)]
        # The kernel has objects of its own, without a PID.
        ours = [entry for entry in entries if nldev.within(entry, nldev.RES_PID)]
        asked[kind] = nldev.number(nldev.within(ours[-1], kind)[0])

        def ask(command=command, asked=asked):
            return nldev.ask(command, asked)

        def told(done):
            if done is not None:
                true(done and nldev.within(done[0], nldev.DRIVER), "the driver's details")

        each_time(ask, told, other=nldev.LACKING)
    each_time(lambda: nldev.ask(nldev.STAT_GET, {nldev.DEV_INDEX: index, nldev.PORT_INDEX: PORT}),
              lambda done: true(done is None or nldev.within(done[0], nldev.STAT_HWCOUNTERS), "counters of the port"),
              other=nldev.LACKING)
    for part in (end, queue, domain):
        part.close()


def read(name):
    """Returns the text of a sysfs file of the device."""
    file = os.open(f"{SYSFS}/{name}", os.O_RDONLY)
    try:
        return os.read(file, PAGE).decode().strip()
    finally:
        os.close(file)


def files():
    """query_pkey, process_mad, get_hw_stats and modify_device through sysfs survive every failure"""
    def write(text, name="node_desc"):
        with open(f"{SYSFS}/{name}", "w", encoding="ascii") as file:
            file.write(text)
        return True

    def is_count(done):
        true(done is None or int(done) >= 0, f"count {done}")

    def named(done):
        true(read("node_desc") in (before, NAME)[bool(done):], "the name")
        write(before)

    # The only copy is that of the file's text.
    each_time(lambda: read("ports/1/pkeys/0"), lambda done: true(done in (None, "0xffff"), f"P_Key {done}"), 1)
    # A lifespan of 0 disables caching of the values.
    write("0", "ports/1/hw_counters/lifespan")
    for name in ("counters/port_xmit_packets", "hw_counters/sent_pkts"):
        each_time(lambda name=name: read(f"ports/1/{name}"), is_count, 1)
    before = read("node_desc")
    each_time(lambda: write(NAME), named, 1)


def changed(services, steps):
    """Calls modify_qp with a later failure each time; the state must be the old or the requested one."""
    for service in services:
        traveller = Traveller(service)
        for start, to in steps:
            if (service, start) == (RC, SQE):
                continue
            for number in range(1, MOST):
                traveller.travel(start)
                attr, mask = traveller.attr(to), mask_of(traveller.needed(to)) | e.IBV_QP_STATE
                with Injection(number) as injection:
                    done = attempt(lambda attr=attr, mask=mask: traveller.end.qp.modify(attr, mask) or True)
                found, what = traveller.end.state(), f"{SERVICES[service]}, {NAMES[start]} to {NAMES[to]}"
                true(found == to or found == start and not done, f"{what}: {NAMES[found]}, done: {done}")
                if not injection.happened:
                    true(done, f"{what}: nothing failed, but nothing was done")
                    true(number > COPIED, f"{what}: only {number - 1} failed")
                    break
            else:
                raise AssertionError(f"still failing after {MOST} times")
        traveller.end.close()


def states():
    """modify_qp of every service, also through SQD, SQE and ERR, leaves the old or the requested state"""
    before = resources()
    changed((RC, UC, UD), ((RESET, INIT), (INIT, INIT), (INIT, RTR), (RTR, RTS), (RTS, RTS), (RTS, SQD), (SQD, SQD),
                           (SQD, RTS), (SQE, RTS), (RTS, ERR), (ERR, RESET), (RTS, RESET)))
    equal(resources(), before, "objects afterwards")


def users_of_shared_queues():
    """create_qp with a shared queue and alloc_mw of type 2 survive every failure"""
    end = End()
    queue = SRQ(end.pd, SrqInitAttr(SrqAttr(max_wr=64, max_sge=2)))
    for service in (e.IBV_QPT_RC, e.IBV_QPT_UD):
        init = QPInitAttr(qp_type=service, scq=end.cq, rcq=end.cq, srq=queue, cap=QPCap(max_send_wr=8))
        each_failure(lambda init=init: QP(end.pd, init), close)
    each_failure(lambda: MW(end.pd, e.IBV_MW_TYPE_2), close)
    queue.close()
    end.close()


def completion_counters():
    """create_comp_cntr survives every failure, and attaching one, which then can be repeated"""
    needs_core(comp_cntr.CORE, comp_cntr.LACK)
    descriptor = context().cmd_fd

    def make():
        error, handle = uverbs.create_comp_cntr(descriptor)
        if error:
            raise OSError(error, "create_comp_cntr")
        return handle

    def unmake(handle):
        while uverbs.destroy_comp_cntr(descriptor, handle) in LACKING:
            pass
    each_failure(make, unmake)
    counter = comp_cntr.Counter()
    for number in range(1, MOST):
        end = comp_cntr.made(End)
        with Injection(number) as injection:
            error = counter.attach(end, comp_cntr.ALL)
        true(error in (0, *LACKING), f"error {error}")
        equal(counter.attach(end, comp_cntr.ALL), 0 if error else errno.EBUSY, "attach again")
        end.close()
        if not injection.happened:
            equal(error, 0, "nothing failed")
            true(number > 2, f"only {number - 1} failed")
            break
    else:
        raise AssertionError(f"still failing after {MOST} times")
    equal(counter.destroy(), 0, "destroy")


def destroyed():
    """destroy that fails leaves the object as before, and succeeds when repeated"""
    raw = Raw()
    held = mapping.Memory(4 * PAGE)
    held.write(bytes(held.length))
    domain, queue = raw.call(uverbs.ALLOC_PD), raw.call(uverbs.CREATE_CQ, 0, 64, 0, -1)
    route = gid_bytes(os.environ["ADDR"]), 0, int(os.environ["GID4"]), 64
    make = {
        "pd": (uverbs.ALLOC_PD,),
        "ah": (uverbs.CREATE_AH, 0, domain, 0, *route, 0, 0, 0, 0, 0, 0, 1, PORT),
        "mr": (uverbs.REG_MR, held.address, held.length, held.address, domain, FULL_ACCESS),
        "mw": (uverbs.ALLOC_MW, domain, 1),
        "cq": (uverbs.CREATE_CQ, 0, 64, 0, -1),
        "qp": (uverbs.CREATE_QP, 0, domain, queue, queue, 0, 8, 8, 1, 1, 0, 0, e.IBV_QPT_RC, 0, 0),
        "srq": (uverbs.CREATE_SRQ, 0, domain, 64, 1, 0),
        "xrcd": (uverbs.OPEN_XRCD, -1, os.O_CREAT),
    }
    true(set(make) == set(uverbs.DESTROY), "every kind")
    before = resources()
    for kind, command in make.items():
        for number in range(1, MOST):
            handle = raw.call(*command)
            with Injection(number) as injection:
                done = attempt(lambda kind=kind, handle=handle: raw.call(uverbs.DESTROY[kind], handle))
            again = raw.refused(uverbs.DESTROY[kind], handle)
            gone = (errno.EINVAL, errno.ENOENT)
            true(again in gone or again == 0 and done is None, f"{kind}: {done}, then {again}")
            equal(resources(), before, f"objects after a {kind}")
            if not injection.happened:
                true(done is not None, f"{kind}: nothing failed, but the object still exists")
                true(number > COPIED, f"{kind}: only {number - 1} failed")
                break
        else:
            raise AssertionError(f"still failing after {MOST} times")
    raw.close()


if __name__ == "__main__":
    context()
    run([advised, events_of_queues, groups_left, counters_of_pairs, details, files, states, users_of_shared_queues,
         completion_counters, destroyed])
