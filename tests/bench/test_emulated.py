# SPDX-License-Identifier: GPL-2.0
"""Output of machines under QEMU turns into results of the client's programs."""

import unittest

from bench import emulated, figures, parse

TABLE = (
    " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]",
    " 65536      300            90                  80                    0.0013",
)


def printed(name, code, *lines):
    return [f"bench: begin {name}", *lines, f"bench: end {code}"]


def by(node, lines):
    return [f"[{node}] {line}" for line in lines]


class Emulated(unittest.TestCase):
    def setUp(self):
        self.run_ = next(run for run in emulated.runs() if run.rdma[0] == "ib_write_bw")

    def test_sections_of_two_machines_are_the_clients(self):
        lines = by("a", ["ok 1 x", *printed("two", 0)])
        found = emulated.sections(by("b", printed("one", 0, "x", "y")) + lines + by("b", printed("three", 5)))
        self.assertEqual(found, {"one": (0, "x\ny"), "three": (5, "")})

    def test_sections_of_one_machine(self):
        found = emulated.sections(["ok 1 x", *printed("one", 0, "x", "y")])
        self.assertEqual(found, {"one": (0, "x\ny")})

    def test_an_unfinished_section_is_none(self):
        self.assertEqual(emulated.sections(printed("one", 0, "x")[:-1]), {})

    def test_results(self):
        for path in (figures.STOCK, figures.PAIR):
            found = emulated.sections(printed(self.run_.name, 0, *TABLE))
            first, tcp = emulated.results([self.run_], path, figures.FERROCE, 2, found)
            self.assertAlmostEqual(first["figures"]["mb"], 80 * 1.048576)
            self.assertEqual(first["job"], {"run": self.run_.name, "path": path, "who": "ferroce", "round": 2})
            self.assertEqual((tcp["job"]["who"], "failed" in tcp), ("tcp", True))

    def test_a_failed_program_is_a_hole(self):
        found = emulated.result({}, (1, "\n".join(TABLE)), parse.perftest_bandwidth)
        self.assertNotIn("figures", found)

    def test_every_run_has_a_program_and_whole_lists(self):
        for run in emulated.runs():
            for path in emulated.TOPOLOGIES:
                self.assertTrue(emulated.command(run, path).startswith("ib_"))
                if emulated.kind(run) == "bw":
                    self.assertEqual(emulated.COUNTS[path]["bw"] % run.batch, 0)


if __name__ == "__main__":
    unittest.main()
