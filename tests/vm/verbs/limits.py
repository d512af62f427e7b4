# SPDX-License-Identifier: GPL-2.0
"""Compares each value that the device reports with the resources that can be allocated and with other kernel
interfaces.

Limits that other tests reach (queues, completion queues, shared receive queues, groups, messages, ODP) are not tested
again here.
"""

import ctypes
import ipaddress
import os
import re
import subprocess

from pyverbs.addr import AH
from pyverbs.cq import CQ
from pyverbs.mr import MR, MW
from pyverbs.pd import PD

import enums as e
import uverbs
from rc import FULL_ACCESS, PAGE, PORT, End, context, forget_events, pair
from tap import equal, needs_core, not_for_rxe, run, true
from verbs import RXE, make_qp, refused, resources
from work import OK, READ, status

SYSFS = f"/sys/class/infiniband/{os.environ['DEV']}"
# IB_DEVICE_*: a separate test proves each flag, and the device claims no other.
FLAGS = {
    "BAD_PKEY_CNTR": 1 << 1, "BAD_QKEY_CNTR": 1 << 2, "CHANGE_PHY_PORT": 1 << 5, "UD_AV_PORT_ENFORCE": 1 << 6,
    "PORT_ACTIVE_EVENT": 1 << 10, "SYS_IMAGE_GUID": 1 << 11, "RC_RNR_NAK_GEN": 1 << 12, "SRQ_RESIZE": 1 << 13,
    "MEM_WINDOW": 1 << 17, "MEM_MGT_EXTENSIONS": 1 << 21, "MEM_WINDOW_TYPE_2B": 1 << 24, "FLUSH_GLOBAL": 1 << 38,
    "FLUSH_PERSISTENT": 1 << 39, "ATOMIC_WRITE": 1 << 40,
}
# Of devices of the link type ferroce_direct.
XRC = 1 << 20
# Outstanding READs: as many as mlx5 has, and the most that rust/driver/limits.rs allows.
ADAPTER_READS, MOST_READS = 16, 128
ODP_RC = e.IBV_ODP_SUPPORT_SEND | e.IBV_ODP_SUPPORT_RECV | e.IBV_ODP_SUPPORT_WRITE | e.IBV_ODP_SUPPORT_READ \
    | e.IBV_ODP_SUPPORT_ATOMIC | e.IBV_ODP_SUPPORT_SRQ_RECV


def sysfs(name):
    """Returns the text of a sysfs file of the device, stripped."""
    with open(f"{SYSFS}/{name}", encoding="ascii") as file:
        return file.read().strip()


def netdev(name):
    """Returns the text of a sysfs file of the interface below the port, stripped."""
    with open(f"/sys/class/net/{os.environ['NETDEV']}/{name}", encoding="ascii") as file:
        return file.read().strip()


def claims():
    """The device claims only capabilities that a test proves, and atomicity towards every accessor"""
    not_for_rxe("claims path migration")
    attr = context().query_device_ex()
    wanted = sum(FLAGS.values()) | (XRC if os.environ["PROVIDER"] == "direct" else 0)
    equal(attr.device_cap_flags_ex, wanted, f"flags {attr.device_cap_flags_ex ^ wanted:#x} are too many or too few")
    equal(context().query_device().atomic_caps, e.IBV_ATOMIC_GLOB)
    # One region may cover the whole address space: odp.py.
    equal(context().query_device().max_mr_size, 2 ** 64 - 1)
    odp = attr.odp_caps
    equal(odp.general_caps, e.IBV_ODP_SUPPORT | e.IBV_ODP_SUPPORT_IMPLICIT)
    equal(odp.rc_odp_caps & ODP_RC, ODP_RC, "ODP operations of RC")


def what_is_not():
    """The device reports unsupported objects with a limit of 0, and refuses them"""
    not_for_rxe("reports 64 P_Keys, and has one")
    attr = context().query_device()
    for name in ("max_ee", "max_rdd", "max_raw_ipv6_qps", "max_raw_ethy_qp", "max_ee_rd_atom", "max_ee_init_rd_atom",
                 "max_fmr"):
        equal(getattr(attr, name), 0, name)
    equal(attr.max_pkeys, 1, "max_pkeys")
    equal(context().query_port(PORT).pkey_tbl_len, 1, "pkey_tbl_len")
    refused(lambda: context().query_pkey(PORT, 1))


def names():
    """The GUIDs derive from the interface's address, and the description can be set"""
    octets = [int(part, 16) for part in netdev("address").split(":")]
    octets[0] ^= 2
    guid = bytes(octets[:3] + [0xFF, 0xFE] + octets[3:]).hex()
    for name in ("node_guid", "sys_image_guid"):
        equal(sysfs(name).replace(":", ""), guid, name)
    before = sysfs("node_desc")
    for text in ("a host's name", "x" * 64, before):
        with open(f"{SYSFS}/node_desc", "w", encoding="ascii") as file:
            file.write(text)
        equal(sysfs("node_desc"), text)


def rate():
    """Port speed times port width equals the interface's speed; that of a port without a link is 100 Gb/s"""
    text = subprocess.run(["ethtool", os.environ["NETDEV"]], check=True, capture_output=True, text=True).stdout
    speed = int(re.search(r"Speed: (\d+)Mb/s", text).group(1))
    if os.environ["DRIVER"] == "ferroce" and not os.path.exists(f"/sys/class/net/{os.environ['NETDEV']}/device"):
        speed = 100_000
    reported = float(sysfs("ports/1/rate").split()[0])
    true(abs(reported * 1000 - speed) <= speed / 10, f"{reported} Gb/s over {speed} Mb/s")


def effective_rate():
    """The effective bandwidth is that of sysfs, in units of 100 Mb/s"""
    not_for_rxe("has no query_port_speed")
    needs_core("ib_port_attr_to_speed_info", "has no query_port_speed")
    speed = ctypes.c_uint64()
    given = [(0, 8, PORT), (1, 8, ctypes.addressof(speed))]
    error = uverbs.ioctl(context().cmd_fd, uverbs.DEVICE, uverbs.QUERY_PORT_SPEED, uverbs.required(given))
    equal(error, 0, "error")
    equal(speed.value, round(10 * float(sysfs("ports/1/rate").split()[0])), "bandwidth")


def addresses():
    """Each address of the interface is a GID, and each GID is such an address or derives from the MAC"""
    text = subprocess.run(["ip", "-o", "addr", "show", "dev", os.environ["NETDEV"]], check=True, capture_output=True,
                          text=True).stdout
    found = re.findall(r"inet6? ([0-9a-f.:]+)/", text)
    gids = set()
    for index in range(8):
        gid = context().query_gid(PORT, index).gid
        if int(gid.replace(":", ""), 16):
            gids.add(gid)
    wanted = {as_gid(address) for address in found}
    equal(wanted - gids, set(), "addresses that are no GIDs")
    equal({gid for gid in gids - wanted if not gid.startswith("fe80:")}, set(), "GIDs that are no addresses")
    true(context().query_port(PORT).gid_tbl_len >= len(gids), "room for them")


def as_gid(address):
    """Returns the GID of an address."""
    packed = ipaddress.ip_address(address).packed
    text = (packed if len(packed) == 16 else bytes(10) + b"\xff\xff" + packed).hex()
    return ":".join(text[at:at + 4] for at in range(0, 32, 4))


def many_of_each():
    """The device creates hundreds of each object, and the core counts each of them"""
    before = resources()
    counts = {"pd": 300, "cq": 300, "qp": 300, "mr": 3000}
    with PD(context()) as domain, CQ(context(), 16, None, None, 0) as queue:
        made = [PD(context()) for _ in range(counts["pd"] - 1)]
        made += [CQ(context(), 16, None, None, 0) for _ in range(counts["cq"] - 1)]
        made += [make_qp(domain, queue, max_send_wr=1, max_recv_wr=1) for _ in range(counts["qp"])]
        made += [MR(domain, PAGE, FULL_ACCESS) for _ in range(counts["mr"])]
        made += [MW(domain, e.IBV_MW_TYPE_1) for _ in range(300)]
        end = End()
        made += [AH(end.pd, attr=end.attr(end).ah_attr) for _ in range(1000)]
        now = resources()
        own = {"pd": 1, "cq": 1, "qp": 1, "mr": 1}
        for name, count in counts.items():
            equal(now[name] - before[name], count + own[name], name)
        for one in reversed(made):
            one.close()
        end.close()
    equal(resources(), before, "afterwards")


def reads_in_flight():
    """As many READs as an adapter has can be in flight both ways, and up to 128 if both ends want them; not more"""
    limits = context().query_device()
    reported = limits.max_qp_rd_atom
    equal(limits.max_qp_init_rd_atom, reported, "as requester")
    if not RXE:
        equal(reported, ADAPTER_READS, "reported")
    for depth in (reported, MOST_READS):
        with pair(a={"wr": 256}, b={"wr": 256}, max_rd_atomic=depth, max_dest_rd_atomic=depth) as (a, b):
            for number in range(200):
                a.send(READ, wr_id=number, pieces=[a.sge(number * 8, 8)], remote=b.remote(number * 8))
            for number in range(200):
                equal(status(a, OK, "read").wr_id, number)
    if not RXE:
        end = End()
        refused(lambda: end.to_rts(end, max_rd_atomic=MOST_READS + 1))
        end.close()


def as_adapters():
    """Queues are at least as long as those of adapters: 2^15 requests, 2^22 completions"""
    not_for_rxe("has 2^20 requests and 2^15 completions")
    limits = context().query_device()
    true(limits.max_qp_wr >= 1 << 15, f"max_qp_wr {limits.max_qp_wr}")
    true(limits.max_srq_wr >= 1 << 15, f"max_srq_wr {limits.max_srq_wr}")
    true(limits.max_cqe >= (1 << 22) - 1, f"max_cqe {limits.max_cqe}")
    # One send queue of that length is filled, and every request completes.
    with pair(a={"wr": limits.max_qp_wr, "sge": 1, "cqe": limits.max_qp_wr + 1}) as (a, b):
        for number in range(limits.max_qp_wr):
            flags = e.IBV_SEND_SIGNALED if (number + 1) % 1024 == 0 else 0
            a.send(e.IBV_WR_RDMA_WRITE, wr_id=number, pieces=[a.sge(0, 8)], remote=b.remote(), flags=flags)
        for number in range(1023, limits.max_qp_wr, 1024):
            equal(status(a, OK, "write").wr_id, number)


TESTS = [
    claims, what_is_not, names, rate, effective_rate, addresses, many_of_each, reads_in_flight, as_adapters,
]

if __name__ == "__main__":
    forget_events()
    run(TESTS)
