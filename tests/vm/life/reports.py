# SPDX-License-Identifier: GPL-2.0
"""Public reports about RDMA in software, as an application sees them: path MTUs that differ between the ends or exceed
the port's, and pieces of different lengths.

	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b; `a` of DEV requests, `b` of PEER_DEV responds
"""

import errno

import enums as e
from rc import End, across, forget_events, pair
from tap import equal, not_for_rxe, run
from verbs import refused
from work import OK, READ, SEND, WRITE, fill, held, pattern, status

SMALL, LARGE = e.IBV_MTU_1024, e.IBV_MTU_4096
OPS = e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_RDMA_WRITE
# More than one packet at either MTU.
LENGTH = 10_000


class Unequal(across):
    """Two ends with path MTUs of their own."""

    def __init__(self, *mtus):
        self.mtus = mtus
        super().__init__(timeout=14, retry_cnt=3)

    def connect(self):
        for this, other in ((0, 1), (1, 0)):
            peer, gid = self.ends[other], self.gids[this]
            self.ends[this].to_rts(peer.qp.qp_num, gid=gid, dgid=peer.gid(self.gids[other]),
                                   path_mtu=self.mtus[this], **self.settings)


def unequal_mtus():
    """Unequal path MTUs end a request of several packets with a status that tells whose fault it is"""
    not_for_rxe("a READ never completes, or succeeds with a wrong length")
    invalid, bad = e.IBV_WC_REM_INV_REQ_ERR, e.IBV_WC_BAD_RESP_ERR
    for mtus in ((SMALL, LARGE), (LARGE, SMALL)):
        for opcode, wanted in ((SEND, invalid), (WRITE, invalid), (READ, bad)):
            with Unequal(*mtus) as (a, b):
                b.receive()
                before = held(b, LENGTH)
                a.send(opcode, pieces=[a.sge(0, LENGTH)], remote=b.remote())
                status(a, wanted, f"opcode {opcode}, path MTUs {mtus}", 20)
                if opcode == WRITE and mtus[0] > mtus[1]:
                    equal(held(b, LENGTH), before, "memory of the peer")
    # A message of one packet does not show the difference.
    with Unequal(SMALL, LARGE) as (a, b):
        data = pattern(1000, 5)
        fill(a, data)
        a.send(WRITE, pieces=[a.sge(0, 1000)], remote=b.remote())
        status(a, OK, "one packet")
        equal(held(b, 1000), data, "bytes")
    forget_events()


def pieces():
    """ibv_wr_set_sge_list with pieces of different lengths transfers all bytes, each in its place"""
    not_for_rxe("librxe writes the length of the first piece n times; the message is lost")
    cuts = ((0, 1), (64, 700), (1000, 3), (2000, 4000), (9000, 17))
    data = b"".join(pattern(length, at) for at, length in cuts)
    with pair(a={"ops": OPS, "sge": 8}) as (a, b):
        for at, length in cuts:
            fill(a, pattern(length, at), at)
        for name in ("send", "rdma_write"):
            fill(b, bytes(len(data)))
            b.receive()
            a.qp.wr_start()
            a.qp.wr_id, a.qp.wr_flags = 2, e.IBV_SEND_SIGNALED
            if name == "send":
                a.qp.wr_send()
            else:
                a.qp.wr_rdma_write(b.mr.rkey, b.mr.buf)
            a.qp.wr_set_sge_list(len(cuts), [a.sge(at, length) for at, length in cuts])
            a.qp.wr_complete()
            status(a, OK, name)
            if name == "send":
                equal(status(b, OK, "receive").byte_len, len(data), "length")
            equal(held(b, len(data)), data, name)


def path_mtu():
    """A path MTU above that of the port is refused with EINVAL; the QP can then take a smaller one"""
    not_for_rxe("accepts it, and loses the packets")
    for service in (e.IBV_QPT_RC, e.IBV_QPT_UC):
        for mtu in (e.IBV_MTU_2048, e.IBV_MTU_4096):
            end = End(service=service)
            attr = end.attr(end, path_mtu=mtu)
            end.qp.to_init(attr)
            refused(lambda end=end, attr=attr: end.qp.to_rtr(attr), errno.EINVAL)
            equal(end.state(), e.IBV_QPS_INIT, "state")
            attr.path_mtu = e.IBV_MTU_1024
            end.qp.to_rtr(attr)
            equal(end.qp.query(e.IBV_QP_PATH_MTU)[0].path_mtu, e.IBV_MTU_1024, "path MTU")
            end.close()


TESTS = [unequal_mtus, pieces, path_mtu]

if __name__ == "__main__":
    run(TESTS)
