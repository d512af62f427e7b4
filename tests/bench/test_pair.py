# SPDX-License-Identifier: GPL-2.0
"""Two machines: what they print is understood, what is missing is named, and what was added is removed."""

import unittest

from bench import figures, pair, remote, report, stats, table

ETHTOOL = """\
Features for eth0:
rx-checksumming: on [fixed]
tx-checksumming: on
	tx-checksum-ipv4: off [fixed]
tcp-segmentation-offload: off
tx-udp-segmentation: on [requested off]
"""
GIDS = """\
0 fe80:0000:0000:0000:5054:00ff:fe00:000a RoCE v2
1 0000:0000:0000:0000:0000:ffff:0a00:0001 IB/RoCE v1
2 0000:0000:0000:0000:0000:ffff:0a00:0001 RoCE v2
"""


class Fake(remote.Machine):
    """A machine on which every command succeeds, apart from some."""

    def __init__(self, answers=None):
        self.host, self.name, self.sudo = "", "far", []
        self.answers = answers or {}
        self.done = []

    def run(self, *command, why=""):
        line = " ".join(command)
        self.done.append(line)
        for begin, answer in self.answers.items():
            if line.startswith(begin):
                if answer is None:
                    raise remote.Refused(line)
                return answer
        return ""


class Machines(unittest.TestCase):
    def test_features_that_are_on(self):
        self.assertEqual(remote.features(ETHTOOL), ["rx-checksumming", "tx-checksumming", "tx-udp-segmentation"])

    def test_gids(self):
        self.assertEqual(remote.gid_index(GIDS, "10.0.0.1"), "2")
        self.assertIsNone(remote.gid_index(GIDS, "10.0.0.2"))
        self.assertEqual(remote.gid_of("fd00::1"), "fd00:0000:0000:0000:0000:0000:0000:0001")

    def test_what_is_missing_is_named(self):
        machine = Fake({"sh": "qperf\n", "ls": None, "modinfo -n rdma_rxe": "/x", "modinfo": None})
        found = list(machine.missing())
        self.assertEqual(len(found), 2)
        self.assertIn("far has no qperf: install the package qperf", found)
        self.assertTrue(found[1].startswith("far has no module ferroce"))

    def test_a_link_goes_with_its_module(self):
        machine = Fake({"ls": None, "cat": "ferroce\n"})
        with machine.link("ferroce", "eth0"):
            pass
        self.assertEqual(
            [line for line in machine.done if line.startswith(("modprobe", "rdma"))],
            [
                "modprobe ferroce",
                "rdma link add bench_ferroce type ferroce netdev eth0",
                "rdma link del bench_ferroce",
                "modprobe -r ferroce",
            ],
        )

    def test_a_module_that_was_there_stays(self):
        machine = Fake({"ls": "/sys/module/rdma_rxe\n"})
        with machine.link("rxe", "eth0"):
            pass
        self.assertFalse([line for line in machine.done if line.startswith("modprobe")])

    def test_the_module_goes_when_the_link_fails(self):
        machine = Fake({"ls": None, "rdma link add": None})
        with self.assertRaises(remote.Refused):
            with machine.link("rxe", "eth0"):
                pass
        self.assertEqual(machine.done[-1], "modprobe -r rdma_rxe")

    def test_ferroce_in_the_place_of_rdma_rxe_is_no_rival(self):
        machine = Fake({"ls": "x", "cat": "ferroce\n"})
        with self.assertRaises(remote.Refused):
            with machine.link("rxe", "eth0"):
                pass

    def test_a_command_travels_as_one_word(self):
        machine = Fake()
        machine.host, machine.ssh, machine.sudo = "far", ["ssh"], ["sudo", "-n"]
        found = machine.argv("sh", "-c", "echo $$; a b")
        self.assertEqual(found[:3], ["ssh", "far", "--"])
        self.assertEqual(found[3:], [f"sudo -n env {remote.PATH} sh -c 'echo $$; a b'"])


class Pair(unittest.TestCase):
    def test_every_name_is_a_run(self):
        self.assertEqual(set(pair.RUNS), set(pair.NAMES))

    def test_contestants_take_turns(self):
        found = list(pair.jobs(("write_lat", "write_bw_64b_list"), 1))
        self.assertEqual([who for who, _ in found], ["ferroce", "rxe", "tcp"] * 2)
        # There is no stream of TCP that does the same as small messages.
        self.assertEqual([job["run"] for job in found[2][1]], ["write_lat"])

    def test_table_and_heading(self):
        job = {"run": "write_bw_64kib", "path": figures.WIRE, "round": 1}
        results = [{"job": job | {"who": who}, "figures": {"mb": 5.0}} for who in ("ferroce", "tcp")]
        self.assertIn("1.00 (1.00-1.00)", table.text(stats.Series(results, 1)))
        machine = {
            **{"kernel": "7", "processor": "P", "processors": 2, "virtual": "", "load": "0.1", "netdev": "eth0"},
            **{"nic": {"driver": "d"}, "speed": "", "mtu": 1500, "ferroce": "1", "offloads": ["tx-gso-list"]},
        }
        shown = report.heading({"date": "now", "seconds": 1, "machines": {"client": machine}})
        self.assertIn("eth0: d, speed unknown, MTU 1500, ferroce 1", shown)
        self.assertIn("offloads: tx-gso-list", shown)


if __name__ == "__main__":
    unittest.main()
