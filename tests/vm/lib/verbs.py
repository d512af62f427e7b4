# SPDX-License-Identifier: GPL-2.0
"""Verbs as an application calls them: reported values, and the life of PD, AH, MR, CQ and QP.

Each test creates its objects and destroys them. transport.py tests the status of transfers.
"""

import ctypes
import errno
import mmap
import os
import resource

from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR

import enums as e
import nldev
from rc import End, FULL_ACCESS, PAGE, PORT, context, eventually, gid_index, own_context, pair
from tap import equal, not_for_rxe, run, true

RXE = os.environ["DRIVER"] == "rxe"
GIB = 1 << 30
# IBV_LINK_LAYER_ETHERNET, which some releases of pyverbs lack.
ETHERNET = 2
NO_ACCESS = 0
MAP_FIXED = 0x10


def refused(action, *codes):
    """Checks that the action fails, with one of the error codes if any are given."""
    try:
        made = action()
    except PyverbsRDMAError as error:
        if codes and error.error_code not in codes:
            names = "/".join(errno.errorcode[code] for code in codes)
            raise AssertionError(f"error {error.error_code}, wanted {names}: {error}") from None
        return
    except PyverbsError:
        return
    if hasattr(made, "close"):
        made.close()
    raise AssertionError("was not refused")


def query_device():
    """query_device reports sufficient limits"""
    attr = context().query_device()
    true(attr.max_qp >= 1024, f"max_qp {attr.max_qp}")
    true(attr.max_cq >= 1024, f"max_cq {attr.max_cq}")
    true(attr.max_mr >= 1024, f"max_mr {attr.max_mr}")
    true(attr.max_qp_wr >= 1024, f"max_qp_wr {attr.max_qp_wr}")
    true(attr.max_sge >= 4, f"max_sge {attr.max_sge}")
    true(attr.max_qp_rd_atom >= 1, f"max_qp_rd_atom {attr.max_qp_rd_atom}")
    true(attr.max_mr_size >= GIB, f"max_mr_size {attr.max_mr_size}")
    equal(attr.phys_port_cnt, 1, "phys_port_cnt")


def query_port():
    """query_port reports an active Ethernet port with an MTU that the netdev can carry"""
    attr = context().query_port(PORT)
    equal(attr.state, e.IBV_PORT_ACTIVE, "state")
    equal(attr.link_layer, ETHERNET, "link layer")
    equal(attr.active_mtu, e.IBV_MTU_4096, "active_mtu")
    true(attr.gid_tbl_len >= 8, f"gid_tbl_len {attr.gid_tbl_len}")
    equal(attr.pkey_tbl_len, 1, "pkey_tbl_len")
    refused(lambda: context().query_port(2))


def query_gid():
    """query_gid returns the netdev's addresses, of type RoCE v2"""
    octets = [int(part) for part in os.environ["ADDR"].split(".")]
    wanted = "0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x" % tuple(octets)
    equal(context().query_gid(PORT, gid_index(4)).gid, wanted)
    equal(context().query_gid_type(PORT, gid_index(4)), e.IBV_GID_TYPE_SYSFS_ROCE_V2)
    equal(context().query_gid_type(PORT, gid_index(6)), e.IBV_GID_TYPE_SYSFS_ROCE_V2)


def query_pkey():
    """query_pkey returns the default P_Key, and fails for any other index"""
    equal(context().query_pkey(PORT, 0), 0xFFFF)
    refused(lambda: context().query_pkey(PORT, 1))


def protection_domains():
    """Many PDs are allocated and freed"""
    domains = [PD(context()) for _ in range(200)]
    for domain in domains:
        domain.close()


def address_handles():
    """create_ah succeeds for a GID of the port, and fails for any other index"""
    end = End()
    for family in (4, 6):
        AH(end.pd, attr=end.attr(end, gid=gid_index(family)).ah_attr).close()
    route = GlobalRoute(dgid=context().query_gid(PORT, gid_index(4)), sgid_index=100, hop_limit=64)
    refused(lambda: AH(end.pd, attr=AHAttr(gr=route, is_global=1, port_num=PORT)))
    # A RoCE AH needs a GRH.
    refused(lambda: AH(end.pd, attr=AHAttr(port_num=PORT)))
    end.close()


def memory_region():
    """Each MR has its own keys; many are registered and deregistered"""
    with PD(context()) as domain:
        regions = [MR(domain, PAGE, FULL_ACCESS) for _ in range(200)]
        equal(len({region.rkey for region in regions}), 200, "distinct rkeys")
        equal(len({region.lkey for region in regions}), 200, "distinct lkeys")
        for region in regions:
            region.close()


def odd_region():
    """An MR may begin and end at any byte"""
    with PD(context()) as domain, mmap_of(8 * PAGE) as memory:
        for start, length in ((1, 1), (PAGE - 1, 2), (17, 4 * PAGE + 3), (0, 8 * PAGE)):
            MR(domain, length, FULL_ACCESS, address=memory.start + start).close()


class mmap_of:  # pylint: disable=invalid-name
    """`with mmap_of(bytes) as memory`: anonymous memory at `memory.start`."""

    def __init__(self, length, prot=mmap.PROT_READ | mmap.PROT_WRITE):
        self.length, self.prot = length, prot

    def __enter__(self):
        self.start = _mmap(0, self.length, self.prot, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
        return self

    def __exit__(self, *_):
        _libc.munmap(ctypes.c_void_p(self.start), ctypes.c_size_t(self.length))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p


def _mmap(address, length, prot, flags, fd):
    found = _libc.mmap(ctypes.c_void_p(address), ctypes.c_size_t(length), prot, flags, fd, ctypes.c_long(0))
    if found == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    return found


def bad_regions():
    """reg_mr fails for memory that is unmapped or not writable"""
    with PD(context()) as domain:
        with mmap_of(2 * PAGE) as gone:
            start = gone.start
        refused(lambda: MR(domain, PAGE, FULL_ACCESS, address=start), errno.EFAULT, errno.ENOMEM)
        with mmap_of(PAGE, mmap.PROT_READ) as constant:
            refused(lambda: MR(domain, PAGE, FULL_ACCESS, address=constant.start), errno.EFAULT)
            MR(domain, PAGE, e.IBV_ACCESS_REMOTE_READ, address=constant.start).close()
        with mmap_of(PAGE) as memory:
            rights = e.IBV_ACCESS_REMOTE_WRITE
            refused(lambda: MR(domain, PAGE, rights, address=memory.start), errno.EINVAL)
            refused(lambda: MR(domain, 2**64 - PAGE, FULL_ACCESS, address=memory.start))
            refused(lambda: MR(domain, 2**63, FULL_ACCESS, address=memory.start))


def huge_region():
    """An MR of more than 1 GiB can be written at its far end"""
    not_for_rxe("refuses it, with a WARNING in the kernel log")
    chunk, count = 64 << 20, 20
    file = os.memfd_create("region")
    os.ftruncate(file, chunk)
    total = chunk * count
    start = _mmap(0, total, NO_ACCESS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
    # The same 64 MiB repeatedly: an MR counts addresses, and the guest has little memory.
    for index in range(count):
        _mmap(start + index * chunk, chunk, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | MAP_FIXED, file)
    with pair() as (a, b):
        region = MR(b.pd, total, FULL_ACCESS, address=start)
        a.mr.write("the far end", 11)
        a.send(e.IBV_WR_RDMA_WRITE, pieces=[a.sge(0, 11)], remote=(start + total - 11, region.rkey))
        equal(a.completion(20).status, e.IBV_WC_SUCCESS, "status")
        equal(ctypes.string_at(start + total - 11, 11), b"the far end")
        a.send(e.IBV_WR_RDMA_WRITE, pieces=[a.sge(0, 11)], remote=(start + total - 10, region.rkey))
        equal(a.completion(20).status, e.IBV_WC_REM_ACCESS_ERR, "status one byte further")
        region.close()
    _libc.munmap(ctypes.c_void_p(start), ctypes.c_size_t(total))
    os.close(file)


def memory_limit():
    """RLIMIT_MEMLOCK limits the memory that a user may register"""
    os.chmod(f"/dev/infiniband/uverbs{device_number()}", 0o666)
    child = os.fork()
    if child:
        equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "exit code of the user's process")
        return
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
        os.setgid(65534)
        os.setuid(65534)
        with PD(own_context()) as domain:
            MR(domain, 1 << 18, FULL_ACCESS).close()
            refused(lambda: MR(domain, 4 << 20, FULL_ACCESS), errno.ENOMEM)
            # A failed registration is not charged.
            MR(domain, 1 << 18, FULL_ACCESS).close()
        os._exit(0)
    except BaseException as error:  # pylint: disable=broad-except
        print(f"# {error!r}", flush=True)
        os._exit(1)


def device_number():
    """Returns the N of uverbsN."""
    base = f"/sys/class/infiniband/{os.environ['DEV']}/device/infiniband_verbs"
    if not os.path.isdir(base):
        for name in os.listdir("/sys/class/infiniband_verbs"):
            path = f"/sys/class/infiniband_verbs/{name}/ibdev"
            if os.path.exists(path) and open(path, encoding="ascii").read().strip() == os.environ["DEV"]:
                return int(name.removeprefix("uverbs"))
    return int(os.listdir(base)[0].removeprefix("uverbs"))


def completion_queues():
    """A CQ has at least the requested entries, up to max_cqe"""
    most = context().query_device().max_cqe
    for entries in (1, 2, 3, 255, 256, 4096, most):
        queue = CQ(context(), entries, None, None, 0)
        true(queue.cqe >= entries, f"{queue.cqe} entries, wanted {entries}")
        queue.close()
    refused(lambda: CQ(context(), 0, None, None, 0), errno.EINVAL)
    refused(lambda: CQ(context(), most + 1, None, None, 0), errno.EINVAL)
    if not RXE:
        true(most >= 65536, f"max_cqe {most}: some libraries want more")


def make_qp(domain, queue, kind=e.IBV_QPT_RC, **caps):
    """Creates a QP with capacities."""
    wanted = {"max_send_wr": 8, "max_recv_wr": 8, "max_send_sge": 1, "max_recv_sge": 1, "max_inline_data": 0}
    cap = QPCap(**{**wanted, **caps})
    return QP(domain, QPInitAttr(qp_type=kind, scq=queue, rcq=queue, cap=cap))


def queue_pairs():
    """A QP has at least the requested queue sizes, up to the limits"""
    limits = context().query_device()
    with PD(context()) as domain, CQ(context(), 64, None, None, 0) as queue:
        make_qp(domain, queue, max_send_wr=1, max_recv_wr=1).close()
        make_qp(domain, queue, max_send_wr=1024, max_recv_wr=1024, max_send_sge=limits.max_sge,
                max_recv_sge=limits.max_sge).close()
        make_qp(domain, queue, max_send_wr=limits.max_qp_wr, max_recv_wr=1).close()
        with make_qp(domain, queue, max_recv_wr=100) as one:
            one.to_init(QPAttr(port_num=PORT))
            room = one.query(e.IBV_QP_CAP)[0].cap.max_recv_wr
            for _ in range(room):
                one.post_recv(RecvWR(num_sge=1, sg=[SGE(0, 0, 0)]))
            refused(lambda: one.post_recv(RecvWR(num_sge=1, sg=[SGE(0, 0, 0)])), errno.ENOMEM)
        for name, most in (("max_send_wr", limits.max_qp_wr), ("max_recv_wr", limits.max_qp_wr),
                           ("max_send_sge", limits.max_sge), ("max_recv_sge", limits.max_sge)):
            refused(lambda name=name, most=most: make_qp(domain, queue, **{name: most + 1}))
        numbers = set()
        pairs = [make_qp(domain, queue) for _ in range(100)]
        numbers = {one.qp_num for one in pairs}
        equal(len(numbers), 100, "distinct QP numbers")
        true(min(numbers) > 1, "numbers 0 and 1 belong to the core")
        for one in pairs:
            one.close()


def inline_capacity():
    """A QP supports at least the requested inline data"""
    end = End(inline=64)
    cap = end.qp.query(e.IBV_QP_CAP)[1].cap
    true(cap.max_inline_data >= 64, f"max_inline_data {cap.max_inline_data}")
    end.close()


def state_machine():
    """A QP moves through RESET, INIT, RTR, RTS, SQD, RTS, ERR, RESET"""
    end = End()
    attr = end.attr(end)
    equal(end.state(), e.IBV_QPS_RESET)
    end.qp.to_init(attr)
    equal(end.state(), e.IBV_QPS_INIT)
    end.qp.to_rtr(attr)
    equal(end.state(), e.IBV_QPS_RTR)
    end.qp.modify(rts_attr(attr), RTS_MASK)
    equal(end.state(), e.IBV_QPS_RTS)
    for state in (e.IBV_QPS_SQD, e.IBV_QPS_RTS, e.IBV_QPS_ERR, e.IBV_QPS_RESET):
        end.qp.modify(QPAttr(qp_state=state), e.IBV_QP_STATE)
        equal(end.state(), state)
        eventually(lambda: not end.qp.query(e.IBV_QP_STATE)[0].sq_draining, "the send queue has drained")
    # A QP can be used again after RESET.
    end.to_rts(end)
    equal(end.state(), e.IBV_QPS_RTS)
    end.close()


RTS_MASK = (e.IBV_QP_STATE | e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY | e.IBV_QP_SQ_PSN
            | e.IBV_QP_MAX_QP_RD_ATOMIC)


def rts_attr(attr):
    """Returns the attributes, with RTS as the new state."""
    attr.qp_state = e.IBV_QPS_RTS
    return attr


def wrong_transitions():
    """An invalid transition is refused and changes nothing"""
    end = End()
    attr = end.attr(end)
    for state in (e.IBV_QPS_RTR, e.IBV_QPS_RTS, e.IBV_QPS_SQD):
        refused(lambda state=state: end.qp.modify(QPAttr(qp_state=state), e.IBV_QP_STATE), errno.EINVAL)
        equal(end.state(), e.IBV_QPS_RESET)
    end.qp.to_init(attr)
    refused(lambda: end.qp.modify(rts_attr(attr), RTS_MASK), errno.EINVAL)
    equal(end.state(), e.IBV_QPS_INIT)
    # INIT to RTR requires the path, the peer and more.
    refused(lambda: end.qp.modify(QPAttr(qp_state=e.IBV_QPS_RTR), e.IBV_QP_STATE), errno.EINVAL)
    equal(end.state(), e.IBV_QPS_INIT)
    end.close()


def wrong_attributes():
    """Attributes out of range are refused"""
    not_for_rxe("accepts any path MTU and any number of responder resources")
    for name, value in (("path_mtu", 6), ("max_dest_rd_atomic", 129)):
        end = End()
        attr = end.attr(end, **{name: value})
        end.qp.to_init(attr)
        refused(lambda end=end, attr=attr: end.qp.to_rtr(attr), errno.EINVAL)
        equal(end.state(), e.IBV_QPS_INIT, name)
        end.close()
    end = End()
    attr = end.attr(end)
    attr.port_num = 2
    refused(lambda: end.qp.to_init(attr))
    end.close()


def query_attributes():
    """query_qp returns the values that modify_qp set"""
    wanted = {"path_mtu": e.IBV_MTU_2048, "sq_psn": 0xABCDEF, "rq_psn": 0x123456, "timeout": 13, "retry_cnt": 5,
              "rnr_retry": 3, "min_rnr_timer": 17, "max_rd_atomic": 4, "max_dest_rd_atomic": 2}
    end = End()
    end.to_rts(end, **wanted)
    attr, init = end.qp.query(0x1FFFFF)
    for name, value in wanted.items():
        equal(getattr(attr, name), value, name)
    equal(attr.dest_qp_num, end.qp.qp_num, "dest_qp_num")
    equal(attr.qp_state, e.IBV_QPS_RTS, "state")
    equal(attr.qp_access_flags, FULL_ACCESS, "access flags")
    true(init.cap.max_send_wr >= 64, "cap")
    end.close()


def limits_of_the_peer():
    """READ limits are kept exactly: 3 responder resources stay 3"""
    not_for_rxe("rounds up to a power of two")
    end = End()
    end.to_rts(end, max_rd_atomic=3, max_dest_rd_atomic=3)
    attr = end.qp.query(0x1FFFFF)[0]
    equal((attr.max_rd_atomic, attr.max_dest_rd_atomic), (3, 3))
    end.close()


def many_objects():
    """A process that ends without cleaning up leaves no objects behind"""
    before = resources()
    child = os.fork()
    if not child:
        try:
            own_context()
            ends = [End(size=PAGE) for _ in range(20)]
            for end in ends:
                end.to_rts(ends[0])
                end.receive(pieces=[end.sge(0, 8)])
                end.send(e.IBV_WR_SEND, pieces=[end.sge(0, 8)])
            os._exit(0)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# {error!r}", flush=True)
            os._exit(1)
    equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "exit code of the child")
    equal(resources(), before)


def resources():
    """Returns the number of objects of each kind on the device, as the core tracks them."""
    # Not by `rdma`: many tests ask often, and a process is dear.
    return nldev.counted(os.environ["DEV"])


TESTS = [
    query_device, query_port, query_gid, query_pkey, protection_domains, address_handles,
    memory_region, odd_region, bad_regions, huge_region, memory_limit, completion_queues, queue_pairs,
    inline_capacity, state_machine, wrong_transitions, wrong_attributes, query_attributes,
    limits_of_the_peer, many_objects,
]

if __name__ == "__main__":
    run(TESTS)
