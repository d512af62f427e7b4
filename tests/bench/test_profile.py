# SPDX-License-Identifier: GPL-2.0
"""Samples are counted under the right function and the right process."""

import unittest

from bench import budget, profile

KALLSYMS = """\
0000000060001000 T first
0000000060002000 t second
0000000060002000 D data
0000000064000000 t ours\t[ferroce]
"""
RECORDED = """\
    0/0     PERF_RECORD_FORK(7:7):(1:1)
    0/0     PERF_RECORD_COMM: vmlinuz:7/7
    7/7          60001fff [unknown]
    7/8          60002004 [unknown]
    7/7          64000010 [unknown]
    7/7      7f0000000000 pthread_sigmask
    7/7  ffffffff813a4413 finish_task_switch.isra.0
    7/7     PERF_RECORD_FORK(9:9):(7:7)
    9/9          60001004 [unknown]
    9/9  ffffffff813a4413 do_syscall_64
    5/5          60001004 [unknown]
"""


class Profile(unittest.TestCase):
    def setUp(self):
        self.symbols = profile.Symbols(KALLSYMS)

    def test_symbols(self):
        self.assertEqual(self.symbols.at(0x60001FFF), ("kernel", "first"))
        self.assertEqual(self.symbols.at(0x64000010), ("ferroce", "ours"))
        self.assertIsNone(self.symbols.at(0x1000))
        self.assertIsNone(self.symbols.at(0x7F0000000000))

    def test_samples_by_process(self):
        self.assertEqual(
            profile.count(RECORDED, self.symbols, 7),
            {
                ("kernel", "first"): 1,
                ("kernel", "second"): 1,
                ("ferroce", "ours"): 1,
                ("C library", "pthread_sigmask"): 1,
                ("host kernel", "finish_task_switch.isra.0"): 1,
                ("programs", ""): 1,
                ("host, for programs", "do_syscall_64"): 1,
            },
        )

    def test_shares_add_up(self):
        found = profile.count(RECORDED, self.symbols, 7)
        rows = list(profile.shares(found, 700.0, least=0.2))
        self.assertEqual(len(rows), 1)
        self.assertAlmostEqual(rows[0][0], 700.0)
        self.assertAlmostEqual(sum(row[0] for row in profile.shares(found, 700.0)), 700.0)

    def test_purposes(self):
        for part, function, purpose in (
            ("kernel", "memcpy_orig", "copying"),
            ("ferroce", "<rdma::umem::Memory>::copy_from_skb", "copying"),
            ("kernel", "crc32_lsb_pclmul_sse", "ICRC"),
            ("host kernel", "do_syscall_64", "other work of the host: system calls, timers, faults"),
            ("kernel", "_raw_spin_lock_irqsave", "locks"),
            ("rdma_rxe", "rxe_requester", "the driver's own code"),
            ("kernel", "__udp4_lib_rcv", "network: IP, UDP, TCP, queueing, veth"),
            ("programs", "", "programs, mostly waiting for completions"),
            ("kernel", "xa_load", budget.REST),
        ):
            self.assertEqual(budget.purpose(part, function), purpose, function)


if __name__ == "__main__":
    unittest.main()
