# SPDX-License-Identifier: GPL-2.0
"""GID $FOREIGN of DEV is the address of an interface on top of DEV's netdev. QPs may use it only while that interface
is in the namespace of the device. In another namespace it is no GID of the device, and its index is empty.
"""

import errno
import os

from pyverbs.qp import QPAttr
from pyverbs.pyverbs_error import PyverbsError

import enums as e
from counters import counter
from rc import DEVICE, End, gid_index, pair
from tap import equal, run
from ud import UdEnd
from unreliable import modify
from verbs import refused
from work import OK, SEND, WRITE, status

INDEX = int(os.environ["FOREIGN"])
ADDRESS = os.environ["FOREIGN_ADDR"]
SERVICES = {"RC": e.IBV_QPT_RC, "UC": e.IBV_QPT_UC}


def usable():
    """Connections and datagrams can use the address"""
    for name, service in SERVICES.items():
        with pair(a={"service": service}, b={"service": service}, gid=INDEX) as (a, b):
            a.send(WRITE, pieces=[a.sge(0, 64)], remote=b.remote())
            status(a, OK, name)
    end = UdEnd(DEVICE)
    end.receive()
    with end.handle_for(ADDRESS, INDEX) as handle:
        equal(end.send(handle, qpn=end.qp.qp_num), OK, "datagram")
        equal(end.completion().status, OK, "receive")
    end.close()


def connections():
    """A connection from an address of another namespace is refused: its index is empty"""
    for name, service in SERVICES.items():
        end = End(service=service)
        attr = end.attr(end, gid=INDEX)
        end.qp.to_init(attr)
        refused(lambda end=end, attr=attr: end.qp.to_rtr(attr), errno.ENODATA)
        equal(end.state(), e.IBV_QPS_INIT, name)
        # The address is the only reason for the refusal.
        end.to_rts(end)
        end.close()


def redirected():
    """An established connection refuses an address of another namespace, and continues"""
    with pair() as (a, b):
        modify(a.qp, e.IBV_QPS_SQD)
        attr = QPAttr(qp_state=e.IBV_QPS_SQD)
        attr.ah_attr = a.attr(b, gid=INDEX).ah_attr
        refused(lambda: a.qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_AV), errno.ENODATA)
        equal(a.qp.query(e.IBV_QP_AV)[0].ah_attr.sgid_index, gid_index(), "its GID index")
        modify(a.qp, e.IBV_QPS_RTS)
        b.receive()
        a.send(SEND, pieces=[a.sge(0, 64)])
        status(a, OK, "send")


def datagrams():
    """A datagram from an address of another namespace is not sent"""
    end = UdEnd(DEVICE)
    before = counter("sent_pkts", DEVICE), counter("send_err", DEVICE)
    try:
        handle = end.handle_for(ADDRESS, INDEX)
    except PyverbsError:
        handle = None
    if handle:
        equal(end.send(handle, qpn=end.qp.qp_num), e.IBV_WC_LOC_QP_OP_ERR, "datagram")
        handle.close()
    equal((counter("sent_pkts", DEVICE), counter("send_err", DEVICE)), before, "packets sent, and send errors")
    end.close()


TESTS = [usable, connections, redirected, datagrams]

if __name__ == "__main__":
    run(TESTS)
