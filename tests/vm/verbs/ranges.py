# SPDX-License-Identifier: GPL-2.0
"""Attributes beyond the width of their fields, and what is refused.

Programs set min_rnr_timer 32 or ten retries, because adapters take the low bits and rdma_rxe takes the value. A QP here
works with each of them, and query_qp returns the low bits. Documentation/ferroce.4 lists what is refused.
"""

import errno
import os

from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.qp import QPAttr

import enums as e
from rc import PORT, End, gid_index, opened
from tap import equal, not_for_rxe, run, true
from ud import QKEY, UdEnd
from verbs import refused
from work import OK, RXE, SEND, fill, held, pattern, status

LENGTH = 5000
# (attribute, value, value of the field)
WIDE = [
    *(("min_rnr_timer", value, value & 31) for value in (31, 32, 100, 255)),
    *((name, value, value & 7) for name in ("retry_cnt", "rnr_retry") for value in (7, 8, 10, 255)),
    *((name, value, None) for name in ("rq_psn", "sq_psn") for value in (0xFFFFFF, 0x1000000, 0xFEDCBA98, 0xFFFFFFFF)),
    *(("timeout", value, value) for value in (0, 31)),
    *((name, value, value) for name in ("max_rd_atomic", "max_dest_rd_atomic") for value in (16, 128)),
]
# Of the address vector: (field of the route or of the AH, value, value of the field). Ethernet has no LIDs, and no rate
# of a path is known.
ADDRESS = [
    *(("flow_label", value, value & 0xFFFFF) for value in (0xFFFFF, 0x100000, 0xFFFFFFFF)),
    *(("hop_limit", value, None) for value in (0, 1, 255)),
    ("traffic_class", 255, 255),
    *(("sl", value, value & 15) for value in (7, 15, 16, 255)),
    ("static_rate", 255, None), ("dlid", 0xFFFF, None), ("src_path_bits", 127, None),
]
ROUTE = "flow_label", "hop_limit", "traffic_class"


def vector(end, index, dgid, **settings):
    """Returns an address vector over a GID of the end's device."""
    route = {name: settings.pop(name) for name in ROUTE if name in settings}
    route = GlobalRoute(dgid=GID(dgid), sgid_index=index, **{"hop_limit": 64, **route})
    return AHAttr(gr=route, is_global=1, port_num=PORT, **settings)


def pair_with(settings, address=None):
    """Returns two ends, of DEV and PEER_DEV, in RTS with these attributes."""
    both = [opened("DEV"), opened("PEER_DEV")]
    ends = [End(ctx=ctx) for ctx, _ in both]
    for me, peer in ((0, 1), (1, 0)):
        index, dgid = both[me][1], ends[peer].gid(both[peer][1])
        # Each end's next PSN is what the other expects.
        attr = ends[me].attr(ends[peer], gid=index, dgid=dgid, **settings)
        attr.ah_attr = vector(ends[me], index, dgid, **(address or {}))
        ends[me].qp.to_rts(attr)
    return ends


def works(a, b):
    """Sends one message of several packets."""
    data = pattern(LENGTH, 9)
    fill(a, data)
    b.receive()
    a.send(SEND, pieces=[a.sge(0, LENGTH)])
    status(a, OK, "send", 20)
    status(b, OK, "receive", 20)
    true(held(b, LENGTH) == data, "the message")


def case(name, settings, address=None, wanted=None):
    """Returns the test of one value, which query_qp returns as `wanted`."""
    def test():
        a, b = pair_with(settings, address)
        try:
            works(a, b)
            if wanted is not None and not RXE:
                found = a.qp.query(e.IBV_QP_STATE | e.IBV_QP_AV)[0]
                (field,) = address or settings
                place = found if settings else found.ah_attr
                equal(getattr(place, field), wanted, f"{field} of query_qp")
        finally:
            a.close()
            b.close()
    test.__name__, test.__doc__ = name.split()[0], f"A connection works with {name}"
    return test


def psn_case(name, value):
    """Returns the test of one PSN of 32 bits, which both directions use."""
    return case(f"{name} {value:#x}", {"rq_psn": value & 0xFFFFFF, "sq_psn": value & 0xFFFFFF, name: value})


def datagrams():
    """A datagram goes by an address handle with each of these values"""
    a, b = UdEnd(), UdEnd(os.environ["PEER_DEV"])
    index, dgid = gid_index(), str(b.ctx.query_gid(PORT, int(os.environ["PEER_GID4"])))
    for field, value, _ in ADDRESS:
        handle = AH(a.pd, attr=vector(a, index, dgid, **{field: value}))
        b.receive(1)
        equal(a.send(handle, bytes(100), b.qp.qp_num), OK, f"{field} {value}")
        equal(b.completion().status, OK, f"received with {field} {value}")
        handle.close()
    a.close()
    b.close()


def beyond():
    """Values that have no field, or whose low bits would mean another thing, are refused"""
    def tried(name, value):
        a, b = pair_with({name: value})
        a.close()
        b.close()
    cases = [("timeout", 32), ("timeout", 255), ("max_rd_atomic", 129), ("max_rd_atomic", 255)]
    if not RXE:  # It takes them, and sends packets of no size or counts on.
        cases += [("max_dest_rd_atomic", 129), ("max_dest_rd_atomic", 255), ("path_mtu", 0), ("path_mtu", 6)]
    for name, value in cases:
        refused(lambda name=name, value=value: tried(name, value), errno.EINVAL)


def absent():
    """What the device does not have is refused: alternate paths, path migration, other P_Keys"""
    not_for_rxe("takes them and does nothing")
    end = End()
    attr = end.attr(end)
    attr.pkey_index = 1
    refused(lambda: end.qp.to_init(attr), errno.EINVAL)
    attr.pkey_index = 0
    end.qp.to_rts(attr)
    for field, value, bit in (("path_mig_state", 1, "PATH_MIG_STATE"), ("path_mig_state", 2, "PATH_MIG_STATE"),
                              ("alt_port_num", PORT, "ALT_PATH")):
        new = QPAttr()
        new.alt_ah_attr = attr.ah_attr
        setattr(new, field, value)
        refused(lambda new=new, bit=bit: end.qp.modify(new, getattr(e, f"IBV_QP_{bit}")), errno.EINVAL,
                errno.EOPNOTSUPP)
    end.close()


def narrow():
    """A path MTU beyond that of the GID's own interface is refused, in RTR and in SQD"""
    not_for_rxe("looks at the port only")
    index = int(os.environ["NARROW_GID"])
    a, b = End(), End()
    for path_mtu, fits in ((e.IBV_MTU_4096, False), (e.IBV_MTU_2048, False), (e.IBV_MTU_1024, True)):
        attr = a.attr(b, gid=index, path_mtu=path_mtu)
        a.qp.to_init(attr)
        if fits:
            a.qp.to_rtr(attr)
        else:
            refused(lambda attr=attr: a.qp.to_rtr(attr), errno.EINVAL)
        a.qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
    b.to_rts(a, path_mtu=e.IBV_MTU_4096)
    b.qp.modify(QPAttr(qp_state=e.IBV_QPS_SQD), e.IBV_QP_STATE)
    moved = QPAttr(port_num=PORT)
    moved.ah_attr = vector(b, index, b.gid(index))
    refused(lambda: b.qp.modify(moved, e.IBV_QP_AV), errno.EINVAL)
    a.close()
    b.close()


TESTS = [
    *(case(f"{name} {value}", {name: value}, wanted=field) for name, value, field in WIDE if not name.endswith("psn")),
    *(psn_case(name, value) for name, value, _ in WIDE if name.endswith("psn")),
    *(case(f"{name} {value:#x}", {}, {name: value}, field) for name, value, field in ADDRESS),
    datagrams, beyond, absent, narrow,
]

if __name__ == "__main__":
    run(TESTS)
