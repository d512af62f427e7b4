# SPDX-License-Identifier: GPL-2.0
"""Extended reliable connections: SRQs of a domain, what a request may name, and domains that processes share."""

import ctypes
import errno
import os
import struct
import subprocess
import tempfile

from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttrEx
from pyverbs.srq import SRQ, SrqInitAttrEx
from pyverbs.wr import RecvWR, SGE
from pyverbs.xrcd import XRCD, XRCDInitAttr

import enums as e
from counters import counter
from rc import DEVICE, FULL_ACCESS, End, async_event, context, eventually, forget_events, own_context
from tap import Skip, equal, run, true
from work import FLUSHED, OK, READ, SEND, SEND_IMM, WRITE, WRITE_IMM, fill, held, pattern, piece, status

SIZE = 1 << 16
FILE_AND_FLAGS = e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS
SRQ_MASK = e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD | e.IBV_SRQ_INIT_ATTR_CQ | e.IBV_SRQ_INIT_ATTR_XRCD
ATOMICS = FULL_ACCESS | e.IBV_ACCESS_REMOTE_ATOMIC
# IB_USER_VERBS_CMD_CLOSE_XRCD.
CLOSE_XRCD = 38
QUICK = {"timeout": 8, "retry_cnt": 1, "rnr_retry": 1, "min_rnr_timer": 1}


def open_domain(file=None):
    """Opens the XRC domain of a file, or one of no file."""
    return XRCD(context(), XRCDInitAttr(FILE_AND_FLAGS, os.O_CREAT, file.fileno() if file else -1))


class Queue:
    """An SRQ of a domain, with PD, CQ and memory of its own."""

    def __init__(self, domain, pd=None):
        self.own_pd = None if pd else PD(context())
        self.pd = pd or self.own_pd
        self.cq = CQ(context(), 256, None, None, 0)
        self.mr = MR(self.pd, SIZE, ATOMICS)
        attr = SrqInitAttrEx(max_wr=64, max_sge=2)
        attr.srq_type, attr.comp_mask = e.IBV_SRQT_XRC, SRQ_MASK
        attr.pd, attr.xrcd, attr.cq = self.pd, domain, self.cq
        self.srq = SRQ(context(), attr)
        self.number = self.srq.get_srq_num()
        self.waiting = []

    completions, completion, silent = End.completions, End.completion, End.silent

    def post(self, wr_id, length=SIZE):
        """Posts a receive at the start of the memory."""
        self.srq.post_recv(RecvWR(wr_id=wr_id, num_sge=1, sg=[SGE(self.mr.buf, length, self.mr.lkey)]))

    def remote(self, offset=0):
        """Returns address and rkey of the memory."""
        return self.mr.buf + offset, self.mr.rkey

    def close(self):
        """Closes the objects."""
        for part in (self.srq, self.mr, self.cq, self.own_pd):
            if part:
                part.close()


class Initiator(End):
    """The end that sends."""

    def extended(self, _ops):
        """Creates the QP."""
        init = QPInitAttrEx(qp_type=e.IBV_QPT_XRC_SEND, scq=self.cq, cap=self.cap, pd=self.pd, sq_sig_all=0,
                            comp_mask=e.IBV_QP_INIT_ATTR_PD)
        return QP(self.ctx, init)

    def __init__(self, **settings):
        super().__init__(ops=1, **settings)

    def order_for(self, queue, *args, **named):
        """Posts a request for an SRQ, or for the one with a number."""
        request = self.request(*args, **named)
        request.set_qp_type_xrc(queue if isinstance(queue, int) else queue.number)
        self.qp.post_send(request)


class Target:
    """The end that receives, for the SRQs of its domain."""

    gid, attr, to_rts, state = End.gid, End.attr, End.to_rts, End.state

    def __init__(self, domain):
        self.ctx = context()
        init = QPInitAttrEx(qp_type=e.IBV_QPT_XRC_RECV, xrcd=domain, comp_mask=e.IBV_QP_INIT_ATTR_XRCD)
        self.qp = QP(self.ctx, init)

    def close(self):
        """Destroys the QP."""
        self.qp.close()


class connected:  # pylint: disable=invalid-name
    """`with connected(domain) as (initiator, target)`: both in RTS."""

    def __init__(self, domain, **settings):
        self.ends = Initiator(), Target(domain)
        settings = {"rights": ATOMICS, **settings}
        for this, other in (self.ends, self.ends[::-1]):
            this.to_rts(other, **settings)

    def __enter__(self):
        forget_events()
        return self.ends

    def __exit__(self, *_):
        for end in self.ends:
            end.close()


class domain_of:  # pylint: disable=invalid-name
    """`with domain_of(2) as (domain, first, second)`: a domain with so many SRQs."""

    def __init__(self, queues=1, file=None):
        self.domain = open_domain(file)
        self.queues = [Queue(self.domain) for _ in range(queues)]

    def __enter__(self):
        return self.domain, *self.queues

    def __exit__(self, *_):
        for part in (*self.queues, self.domain):
            part.close()


def refused(action, why):
    """Returns the errno with which an action fails."""
    try:
        action()
    except (PyverbsError, OSError) as error:
        return getattr(error, "error_code", None) or getattr(error, "errno", None)
    raise AssertionError(f"not refused: {why}")


def each_srq():
    """A message goes to the SRQ that it names, and completes there with the number of the target"""
    with domain_of(3) as (domain, *queues), connected(domain) as (sender, target):
        true(len({queue.number for queue in queues}) == 3 and all(queue.number < 1 << 24 for queue in queues),
             "numbers")
        for number in range(9):
            queue = queues[number % 3]
            queue.post(number)
            data = pattern(3000, number)
            fill(sender, data)
            sender.order_for(queue, SEND_IMM, pieces=piece(sender, 3000), imm=number)
            status(sender, OK, "send")
            wc = status(queue, OK, "receive")
            equal((wc.wr_id, wc.qp_num, wc.byte_len), (number, target.qp.qp_num, 3000))
            equal(held(queue, 3000), data)
        for queue in queues:
            queue.silent(0.01)


def several_initiators():
    """Several connections take receives of one SRQ"""
    with domain_of() as (domain, queue), connected(domain) as (a, b), connected(domain) as (c, d):
        for number in range(8):
            queue.post(number)
            sender, target = ((a, b), (c, d))[number % 2]
            sender.order_for(queue, SEND, pieces=piece(sender, 10))
            status(sender, OK, "send")
            wc = status(queue, OK, "receive")
            equal((wc.wr_id, wc.qp_num), (number, target.qp.qp_num))


def remote_memory():
    """READ, WRITE and atomics use memory of the protection domain of the SRQ that they name"""
    with domain_of(2) as (domain, first, second), connected(domain) as (sender, _):
        data = pattern(5000, 3)
        fill(sender, data)
        for queue in (first, second):
            sender.order_for(queue, WRITE, pieces=piece(sender, 5000), remote=queue.remote())
            status(sender, OK, "write")
            equal(held(queue, 5000), data)
        second.post(4)
        sender.order_for(second, WRITE_IMM, pieces=piece(sender, 8), remote=second.remote(8), imm=7)
        status(sender, OK, "write with immediate data")
        equal(status(second, OK, "receive").wr_id, 4)
        fill(first, pattern(9000, 5))
        # Two READs of different protection domains in flight.
        fill(second, pattern(9000, 6))
        sender.order_for(first, READ, pieces=piece(sender, 9000), remote=first.remote(), wr_id=1)
        sender.order_for(second, READ, pieces=piece(sender, 9000, 20000), remote=second.remote(), wr_id=2)
        equal([wc.status for wc in sender.completions(2)], [OK, OK])
        equal(held(sender, 9000), pattern(9000, 5))
        equal(held(sender, 9000, 20000), pattern(9000, 6))
        fill(first, struct.pack("=Q", 40))
        request = sender.request(e.IBV_WR_ATOMIC_FETCH_AND_ADD, pieces=[sender.sge(0, 8)])
        request.set_wr_atomic(first.mr.rkey, first.mr.buf, 2, 0)
        request.set_qp_type_xrc(first.number)
        sender.qp.post_send(request)
        status(sender, OK, "fetch and add")
        equal((held(sender, 8), held(first, 8)), (struct.pack("=Q", 40), struct.pack("=Q", 42)))


def foreign_memory():
    """Memory of another protection domain than that of the SRQ is refused"""
    for opcode in (WRITE, READ):
        with domain_of(2) as (domain, first, second), connected(domain, **QUICK) as (sender, target):
            sender.order_for(first, opcode, pieces=piece(sender, 8), remote=second.remote())
            status(sender, e.IBV_WC_REM_ACCESS_ERR, "access")
            equal(async_event(), e.IBV_EVENT_QP_ACCESS_ERR)
            eventually(lambda target=target: target.state() == e.IBV_QPS_ERR, "the target fails")


def no_such_srq():
    """An SRQ that there is not, or of another domain, is an invalid request, and fails the target"""
    with domain_of() as (domain, own), domain_of() as (_, foreign):
        unused = next(number for number in range(1, 9) if number not in (own.number, foreign.number))
        foreign.post(1)
        own.post(2)
        for number in (0, unused, foreign.number):
            for opcode in (SEND, WRITE, READ):
                with connected(domain, **QUICK) as (sender, target):
                    sender.order_for(number, opcode, pieces=piece(sender, 8), remote=own.remote())
                    status(sender, e.IBV_WC_REM_INV_REQ_ERR, "request")
                    equal(async_event(), e.IBV_EVENT_QP_ACCESS_ERR)
                    eventually(lambda target=target: target.state() == e.IBV_QPS_ERR, "the target fails")
        for queue in (own, foreign):
            queue.silent(0.01)


def empty():
    """A sender waits while the SRQ that it names is empty"""
    with domain_of(2) as (domain, first, second), connected(domain, min_rnr_timer=12) as (sender, _):
        second.post(1)
        sender.order_for(first, SEND, pieces=piece(sender, 8))
        sender.silent(0.2)
        first.post(2)
        status(sender, OK, "send")
        equal(status(first, OK, "receive").wr_id, 2)
        second.silent(0.01)


def too_long():
    """A message that is too long for its receive completes in the CQ of the SRQ"""
    with domain_of() as (domain, queue), connected(domain, **QUICK) as (sender, target):
        queue.post(5, 100)
        sender.order_for(queue, SEND, pieces=piece(sender, 5000))
        status(sender, e.IBV_WC_REM_INV_REQ_ERR, "send")
        equal(status(queue, e.IBV_WC_LOC_LEN_ERR, "receive").wr_id, 5)
        eventually(lambda: target.state() == e.IBV_QPS_ERR, "the target fails")


def no_queues():
    """An initiator takes no receives, a target posts nothing, and neither has what it does not need"""
    with domain_of() as (domain, queue), connected(domain) as (sender, target):
        equal(refused(lambda: sender.receive(), "a receive of an initiator"), errno.EINVAL)
        request = sender.request(SEND, pieces=piece(sender, 8))
        equal(refused(lambda: target.qp.post_send(request), "a send of a target"), errno.EINVAL)
        receive = RecvWR(wr_id=1, num_sge=1, sg=[sender.sge()])
        equal(refused(lambda: target.qp.post_recv(receive), "a receive of a target"), errno.EINVAL)
        cap = sender.qp.query(e.IBV_QP_CAP)[1].cap
        equal((cap.max_recv_wr, cap.max_recv_sge), (0, 0))
        sender.order_for(queue, WRITE, pieces=piece(sender, 8), remote=queue.remote())
        status(sender, OK, "both work still")


def listed():
    """rdma resource lists initiators, targets and SRQs"""
    with domain_of() as (domain, queue), connected(domain) as (sender, target):
        found = subprocess.run(["rdma", "-dd", "resource", "show", "qp"], capture_output=True, text=True, check=True)
        true(f"lqpn {sender.qp.qp_num} " in found.stdout, "the initiator")
        true(f"lqpn {target.qp.qp_num} " in found.stdout, "the target")
        subprocess.run(["rdma", "-dd", "resource", "show", "srq"], stdout=subprocess.DEVNULL, check=True)
        sender.order_for(queue, WRITE, pieces=piece(sender, 8), remote=queue.remote())
        status(sender, OK, "both work still")


def drained():
    """A target that enters SQD reports that it has nothing to send"""
    with domain_of() as (domain, _), connected(domain) as (_, target):
        forget_events()
        attr = QPAttr(qp_state=e.IBV_QPS_SQD)
        attr.en_sqd_async_notify = 1
        target.qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_EN_SQD_ASYNC_NOTIFY)
        equal(async_event(), e.IBV_EVENT_SQ_DRAINED)


def flush():
    """Requests of an initiator in ERR are flushed, and its receives are those of others"""
    with domain_of() as (domain, queue), connected(domain) as (sender, target):
        queue.post(1)
        for end in (sender, target):
            end.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
        sender.order_for(queue, SEND, pieces=piece(sender, 8))
        status(sender, FLUSHED, "send")
        queue.silent()
        with connected(domain) as (other, _):
            other.order_for(queue, SEND, pieces=piece(other, 8))
            equal(status(queue, OK, "receive").wr_id, 1)


def other_service():
    """Packets of RC to a target, and of XRC to an RC queue pair, are dropped and counted"""
    with domain_of() as (domain, queue):
        for xrc_sends in (True, False):
            sender = Initiator() if xrc_sends else End()
            receiver = End() if xrc_sends else Target(domain)
            before = counter("rx_wrong_service", DEVICE)
            sender.to_rts(receiver, **QUICK)
            receiver.to_rts(sender, **QUICK)
            if xrc_sends:
                receiver.receive()
                sender.order_for(queue, SEND, pieces=piece(sender, 8))
            else:
                queue.post(1)
                sender.send(SEND, pieces=piece(sender, 8))
            status(sender, e.IBV_WC_RETRY_EXC_ERR, "send")
            true(counter("rx_wrong_service", DEVICE) > before, "counted")
            receiver.close()
            sender.close()
        queue.silent(0.01)


def srq_goes():
    """An SRQ can be destroyed while a target has served it; it is unknown then"""
    with domain_of(2) as (domain, first, second), connected(domain, **QUICK) as (sender, _):
        for queue in (first, second):
            queue.post(1)
            sender.order_for(queue, SEND, pieces=piece(sender, 8))
            status(sender, OK, "send")
        first.srq.close()
        second.post(2)
        sender.order_for(second, SEND, pieces=piece(sender, 8))
        status(sender, OK, "to the other one")
        sender.order_for(first, SEND, pieces=piece(sender, 8))
        status(sender, e.IBV_WC_REM_INV_REQ_ERR, "to the one that is gone")


def numbers():
    """The number of an SRQ that has gone is not given to the next one"""
    given = []
    domain = open_domain()
    for _ in range(8):
        queue = Queue(domain)
        given.append(queue.number)
        queue.close()
    domain.close()
    # They are given in order, so a number comes again only after all others.
    equal(given, sorted(set(given)), "numbers")


def srq_goes_within():
    """An SRQ is destroyed within a message: the sender learns it, and the SRQ's CQ gets nothing"""
    with domain_of() as (domain, queue), connected(domain, **QUICK) as (sender, _):
        # There is no receive yet, so the first one is not complete when the SRQ goes.
        for _ in range(30):
            sender.order_for(queue, SEND, pieces=piece(sender, SIZE), flags=0)
        queue.post(1)
        queue.srq.close()
        wc = sender.completion()
        true(wc.status in (e.IBV_WC_REM_INV_REQ_ERR, e.IBV_WC_RNR_RETRY_EXC_ERR), f"status {wc.status}")


def busy_domain():
    """A domain with an SRQ or a queue pair cannot be closed"""

    def close_all():
        """Tries to close any domain, by the raw command: pyverbs would close the users first."""
        found = set()
        for handle in range(300):
            try:
                os.write(context().cmd_fd, struct.pack("=IHHI", CLOSE_XRCD, 3, 0, handle))
            except OSError as error:
                found.add(error.errno)
            else:
                raise AssertionError("a domain in use was closed")
        return found

    with domain_of() as (domain, _):
        true(errno.EBUSY in close_all(), "an SRQ")
    domain = open_domain()
    target = Target(domain)
    true(errno.EBUSY in close_all(), "a queue pair")
    target.close()
    domain.close()


def files():
    """A file names a domain, which all that open it share"""
    with tempfile.NamedTemporaryFile() as file:
        init = XRCDInitAttr(FILE_AND_FLAGS, 0, file.fileno())
        equal(refused(lambda: XRCD(context(), init), "no domain yet"), errno.EAGAIN)
        with domain_of(file=file) as (_, queue):
            init = XRCDInitAttr(FILE_AND_FLAGS, os.O_CREAT | os.O_EXCL, file.fileno())
            equal(refused(lambda: XRCD(context(), init), "a second one"), errno.EINVAL)
            again = open_domain(file)
            with connected(again) as (sender, _):
                queue.post(1)
                sender.order_for(queue, SEND, pieces=piece(sender, 8))
                status(queue, OK, "receive")
            again.close()


class OpenAttr(ctypes.Structure):
    """struct ibv_qp_open_attr."""
    _fields_ = [("comp_mask", ctypes.c_uint32), ("qp_num", ctypes.c_uint32), ("xrcd", ctypes.c_void_p),
                ("qp_context", ctypes.c_void_p), ("qp_type", ctypes.c_int)]


class DomainAttr(ctypes.Structure):
    """struct ibv_xrcd_init_attr."""
    _fields_ = [("comp_mask", ctypes.c_uint32), ("fd", ctypes.c_int), ("oflags", ctypes.c_int)]


def extension(raw, words, *types):
    """Returns a function of struct verbs_context, which stands so many words before the context."""
    address = ctypes.c_void_p.from_address(raw - 8 * words).value
    return ctypes.CFUNCTYPE(ctypes.c_void_p, *types)(address)


def open_target(file, number):
    """Opens the target with a number by libibverbs, which pyverbs has no function for. Returns function to close it."""
    verbs = ctypes.CDLL("libibverbs.so.1")
    for name in ("ibv_get_device_list", "ibv_open_device", "ibv_get_device_name"):
        getattr(verbs, name).restype = ctypes.c_void_p
    devices = ctypes.cast(verbs.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))
    verbs.ibv_get_device_name.restype = ctypes.c_char_p
    at = 0
    while verbs.ibv_get_device_name(ctypes.c_void_p(devices[at])).decode() != DEVICE:
        at += 1
    raw = verbs.ibv_open_device(ctypes.c_void_p(devices[at]))
    opened = DomainAttr(3, file.fileno(), os.O_CREAT)
    xrcd = extension(raw, 4, ctypes.c_void_p, ctypes.c_void_p)(raw, ctypes.addressof(opened))
    true(xrcd, "the domain")
    attr = OpenAttr(0b1011, number, xrcd, None, e.IBV_QPT_XRC_RECV)
    qp = extension(raw, 8, ctypes.c_void_p, ctypes.c_void_p)(raw, ctypes.addressof(attr))
    attr.qp_num = 3
    true(not extension(raw, 8, ctypes.c_void_p, ctypes.c_void_p)(raw, ctypes.addressof(attr)), "an unknown target")

    def close():
        """Closes it."""
        equal(verbs.ibv_destroy_qp(ctypes.c_void_p(qp)), 0)
        equal(extension(raw, 3, ctypes.c_void_p)(xrcd) or 0, 0)
        equal(verbs.ibv_close_device(ctypes.c_void_p(raw)), 0)

    true(qp, "the target")
    return close


def second_process():
    """A target that another process has opened lives until that closes it, too"""
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) < (7, 2):
        raise Skip("before 7.2 the driver lets no process open a target: the core would crash")
    with tempfile.NamedTemporaryFile() as file, domain_of(file=file) as (domain, queue):
        sender, target = Initiator(), Target(domain)
        sender.to_rts(target, rights=ATOMICS)
        target.to_rts(sender, rights=ATOMICS)
        to_child, to_parent = os.pipe(), os.pipe()
        child = os.fork()
        if not child:
            try:
                close = open_target(file, target.qp.qp_num)
                os.write(to_parent[1], b"1")
                os.read(to_child[0], 1)
                close()
                os._exit(0)
            except BaseException as error:  # pylint: disable=broad-except
                print(f"# {error!r}", flush=True)
                os._exit(1)
        equal(os.read(to_parent[0], 1), b"1", "it is opened")
        target.close()
        queue.post(1)
        sender.order_for(queue, SEND, pieces=piece(sender, 8))
        status(queue, OK, "a receive of the target that the other process has")
        status(sender, OK, "send")
        os.write(to_child[1], b"1")
        equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        sender.close()
        for fd in (*to_child, *to_parent):
            os.close(fd)


def dead_process():
    """A process that dies leaves nothing: what it shared stays for the others"""
    with tempfile.NamedTemporaryFile() as file, domain_of(file=file) as (domain, queue):
        child = os.fork()
        if not child:
            try:
                own_context()
                own = open_domain(file)
                mine = Queue(own), connected(own)
                mine[0].post(1)
                os._exit(0)
            except BaseException as error:  # pylint: disable=broad-except
                print(f"# {error!r}", flush=True)
                os._exit(1)
        equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        with connected(domain) as (sender, _):
            queue.post(1)
            sender.order_for(queue, SEND, pieces=piece(sender, 8))
            status(queue, OK, "receive")


if __name__ == "__main__":
    run([each_srq, several_initiators, remote_memory, foreign_memory, no_such_srq, empty, too_long, no_queues, listed,
         drained, flush, other_service, srq_goes, numbers, srq_goes_within, busy_domain, files, second_process,
         dead_process])
