#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Captures every kind of packet that the kernel's own RoCE driver, rdma_rxe, sends.

Uses two devices on a veth pair, the second in a separate namespace, because packets would not leave the driver
otherwise. Writes rxe-ipv4.pcap and rxe-ipv6.pcap into the given directory. See README.md.
"""

import multiprocessing
import os
import subprocess
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBindInfo
from pyverbs.pd import PD
from pyverbs.qp import QPAttr, QPCap, QPEx, QPInitAttrEx
from pyverbs.wr import RecvWR, SGE

QKEY = 0x11111111
SIZE = 4096
ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ |
          e.IBV_ACCESS_REMOTE_ATOMIC | e.IBV_ACCESS_MW_BIND | e.IBV_ACCESS_FLUSH_GLOBAL)
OPERATIONS = {
    e.IBV_QPT_RC: (e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM | e.IBV_QP_EX_WITH_SEND_WITH_INV |
                   e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | e.IBV_QP_EX_WITH_RDMA_READ |
                   e.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                   e.IBV_QP_EX_WITH_ATOMIC_WRITE | e.IBV_QP_EX_WITH_FLUSH | e.IBV_QP_EX_WITH_BIND_MW),
    e.IBV_QPT_UC: (e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM | e.IBV_QP_EX_WITH_RDMA_WRITE |
                   e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM),
    e.IBV_QPT_UD: e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM,
}


class End:
    """One device, one registered buffer, and one QP at a time."""

    def __init__(self, device, address):
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 64)
        self.mr = MR(self.pd, SIZE, ACCESS)
        self.mr.write(bytes(i * 7 % 251 for i in range(SIZE)), SIZE)
        self.gid_index = next(i for i in range(16) if str(self.context.query_gid(1, i)) == address)

    def create(self, kind):
        """Creates a QP and returns its number."""
        cap = QPCap(max_send_wr=16, max_recv_wr=16)
        init = QPInitAttrEx(qp_type=kind, scq=self.cq, rcq=self.cq, pd=self.pd, cap=cap,
                            send_ops_flags=OPERATIONS[kind],
                            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
        self.kind = kind
        attr = QPAttr(port_num=1)
        if kind == e.IBV_QPT_UD:
            attr.qkey = QKEY
        else:
            attr.qp_access_flags = ACCESS & ~e.IBV_ACCESS_MW_BIND
        self.qp = QPEx(self.context, init, attr)
        return self.qp.qp_num

    def connect(self, number, gid, send_psn, receive_psn):
        """Moves the QP to RTS, at the smallest path MTU."""
        route = GlobalRoute(dgid=GID(gid), sgid_index=self.gid_index)
        address = AHAttr(port_num=1, is_global=1, gr=route)
        self.peer = number
        if self.kind == e.IBV_QPT_UD:
            self.ah = AH(self.pd, attr=address)
            return
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ACCESS & ~e.IBV_ACCESS_MW_BIND
        attr.path_mtu = e.IBV_MTU_256
        attr.ah_attr = address
        attr.dest_qp_num = number
        attr.sq_psn, attr.rq_psn = send_psn, receive_psn
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 18, 1, 7, 20
        self.qp.to_rts(attr)

    def receive(self, length):
        self.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(self.mr.buf, length, self.mr.lkey)]))

    def bind(self):
        """Binds a memory window and returns its key."""
        self.window = MW(self.pd, mw_type=e.IBV_MW_TYPE_2)
        key = self.window.rkey & ~0xff | (self.window.rkey + 1) & 0xff
        info = MWBindInfo(self.mr, self.mr.buf, SIZE, e.IBV_ACCESS_REMOTE_WRITE)
        self.post('wr_bind_mw', self.window, key, info, length=None)
        self.done()
        return key

    def post(self, call, *args, length, solicited=False):
        """Posts one request; `length` is None for requests without a scatter/gather list."""
        self.qp.wr_start()
        self.qp.wr_id = 1
        self.qp.wr_flags = e.IBV_SEND_SIGNALED | (e.IBV_SEND_SOLICITED if solicited else 0)
        getattr(self.qp, call)(*args)
        if self.kind == e.IBV_QPT_UD:
            self.qp.wr_set_ud_addr(self.ah, self.peer, QKEY)
        if length is not None:
            self.qp.wr_set_sge(SGE(self.mr.buf, length, self.mr.lkey))
        self.qp.wr_complete()

    def done(self, status=e.IBV_WC_SUCCESS):
        """Waits for one completion."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            count, completions = self.cq.poll(1)
            if count:
                got = completions[0].status
                if got != status:
                    raise RuntimeError(f'status {got} where {status} was due')
                return
        raise RuntimeError('no completion')

    def memory(self):
        return self.mr.buf, self.mr.rkey


def serve(pipe, namespace, device, address):
    """Runs the methods of the other end that the pipe names."""
    with open(f'/run/netns/{namespace}') as ns:
        os.setns(ns.fileno())
    end = End(device, address)
    while True:
        method, args = pipe.recv()
        if method == 'end':
            os._exit(0)
        pipe.send(getattr(end, method)(*args))


class Remote:
    """A proxy of the other end."""

    def __init__(self, *args):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=serve, args=(theirs, *args))
        self.process.start()

    def __getattr__(self, method):
        def call(*args):
            self.pipe.send((method, args))
            return self.pipe.recv()
        return call


def pair(here, there, kind, addresses, gap=0):
    """Connects new QPs; with `gap` the two ends disagree about the first PSN."""
    mine, theirs = here.create(kind), there.create(kind)
    here.connect(theirs, addresses[1], 0xfffffe, 0x123456)
    there.connect(mine, addresses[0], 0x123456, (0xfffffe - gap) & 0xffffff)


def reliable(here, there, addresses):
    """Sends every RC packet, and provokes each NAK."""
    pair(here, there, e.IBV_QPT_RC, addresses)
    address, key = there.memory()

    def send(call, *args, length, receive=False, solicited=False):
        if receive:
            there.receive(SIZE)
        here.post(call, *args, length=length, solicited=solicited)
        here.done()
        if receive:
            there.done()

    send('wr_send', length=3, receive=True)
    send('wr_send', length=600, receive=True)
    send('wr_send_imm', 0x01020304, length=600, receive=True, solicited=True)
    send('wr_send_imm', 0x05060708, length=0, receive=True)
    send('wr_rdma_write', key, address, length=5)
    send('wr_rdma_write', key, address, length=600)
    send('wr_rdma_write_imm', key, address, 0x0a0b0c0d, length=3, receive=True)
    send('wr_rdma_write_imm', key, address, 0x0a0b0c0e, length=600, receive=True)
    send('wr_rdma_read', key, address, length=3)
    send('wr_rdma_read', key, address, length=600)
    send('wr_atomic_cmp_swp', key, address, 1, 2, length=8)
    send('wr_atomic_fetch_add', key, address, 3, length=8)
    send('wr_atomic_write', key, address, b'atomical', length=None)
    send('wr_flush', key, address, 64, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_RANGE, length=None)
    for length in (3, 600):
        send('wr_send_inv', there.bind(), length=length, receive=True)

    here.post('wr_send', length=3, solicited=False)  # receiver not ready
    time.sleep(0.015)
    there.receive(SIZE)
    here.done()
    there.done()

    here.post('wr_rdma_write', key + 1, address, length=4)
    here.done(e.IBV_WC_REM_ACCESS_ERR)
    pair(here, there, e.IBV_QPT_RC, addresses)
    here.post('wr_atomic_fetch_add', key, address + 1, 1, length=8)
    here.done(e.IBV_WC_REM_INV_REQ_ERR)
    pair(here, there, e.IBV_QPT_RC, addresses, gap=1)  # as if one packet had been lost
    here.post('wr_rdma_write', key, address, length=4)
    here.done(e.IBV_WC_RETRY_EXC_ERR)


def unreliable(here, there, addresses):
    """Sends every UC and UD packet."""
    pair(here, there, e.IBV_QPT_UC, addresses)
    address, key = there.memory()
    for call, args, lengths, receive in [
            ('wr_send', (), (3, 600), True),
            ('wr_send_imm', (0x01020304,), (3, 600), True),
            ('wr_rdma_write', (key, address), (3, 600), False),
            ('wr_rdma_write_imm', (key, address, 0x05060708), (3, 600), True)]:
        for length in lengths:
            if receive:
                there.receive(SIZE)
            here.post(call, *args, length=length)
            here.done()
            if receive:
                there.done()
    pair(here, there, e.IBV_QPT_UD, addresses)
    for call, args in [('wr_send', ()), ('wr_send_imm', (0x01020304,))]:
        there.receive(SIZE)
        here.post(call, *args, length=10)
        here.done()
        there.done()


def sh(command):
    subprocess.run(command, shell=True, check=True)


def set_up():
    for command in ['modprobe -a veth rdma_rxe', 'ip netns add far', 'ip link add near0 type veth peer name far0',
                    'ip link set far0 netns far', 'sysctl -qw net.ipv6.conf.near0.accept_dad=0',
                    'ip netns exec far sysctl -qw net.ipv6.conf.far0.accept_dad=0']:
        sh(command)
    for netns, device, last, name in [('', 'near0', 1, 'near'), ('ip netns exec far ', 'far0', 2, 'far')]:
        sh(f'{netns}ip link set {device} mtu 4200 up')
        sh(f'{netns}ip addr add 10.0.0.{last}/24 dev {device}')
        sh(f'{netns}ip addr add fd00::{last}/64 dev {device} nodad')
        sh(f'{netns}rdma link add {name} type rxe netdev {device}')
    time.sleep(2)


def gid(version, last):
    if version == 4:
        return f'0000:0000:0000:0000:0000:ffff:0a00:000{last}'
    return f'fd00:0000:0000:0000:0000:0000:0000:000{last}'


def capture(directory, version):
    addresses = gid(version, 1), gid(version, 2)
    file = os.path.join(directory, f'rxe-ipv{version}.pcap')
    there = Remote('far', 'far', addresses[1])
    here = End('near', addresses[0])
    tcpdump = subprocess.Popen(['tcpdump', '-q', '-U', '-i', 'near0', '-w', file, 'udp port 4791'])
    time.sleep(3)
    reliable(here, there, addresses)
    unreliable(here, there, addresses)
    time.sleep(1)
    tcpdump.terminate()
    tcpdump.wait()
    there.pipe.send(('end', ()))
    there.process.join()
    print(f'{file}: {os.path.getsize(file)} bytes')


def main():
    set_up()
    for version in (4, 6):
        # Each version runs in its own process: registered memory must not be forked.
        process = multiprocessing.get_context('spawn').Process(target=capture, args=(sys.argv[1], version))
        process.start()
        process.join()
        if process.exitcode != 0:
            sys.exit(f'IPv{version}: exit code {process.exitcode}')


if __name__ == '__main__':
    main()
