# SPDX-License-Identifier: GPL-2.0
"""What two machines print through one pipe becomes results of the client's programs."""

import unittest

from bench import figures, pair, parse

TABLE = (
    " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]",
    " 65536      300            90                  80                    0.0013",
)


def printed(name, code, *lines):
    return ["[a] ok 1 x", f"[b] bench: begin {name}", *(f"[b] {line}" for line in lines), f"[b] bench: end {code}"]


class Pair(unittest.TestCase):
    def setUp(self):
        self.run_ = next(run for run in pair.runs() if run.rdma[0] == "ib_write_bw")

    def test_sections(self):
        found = pair.sections(printed("one", 0, "x", "y") + ["[a] bench: begin two"] + printed("three", 5))
        self.assertEqual(found, {"one": (0, "x\ny"), "three": (5, "")})

    def test_an_unfinished_section_is_none(self):
        self.assertEqual(pair.sections(printed("one", 0, "x")[:-1]), {})

    def test_results(self):
        found = pair.sections(printed(self.run_.name, 0, *TABLE))
        first, tcp = pair.results([self.run_], figures.FERROCE, 2, found)
        self.assertAlmostEqual(first["figures"]["mb"], 80 * 1.048576)
        self.assertEqual(first["job"], {"run": self.run_.name, "path": "pair", "who": "ferroce", "round": 2})
        self.assertEqual((tcp["job"]["who"], "failed" in tcp), ("tcp", True))

    def test_a_failed_program_is_a_hole(self):
        found = pair.result(self.run_, figures.RXE, 1, (1, "\n".join(TABLE)), parse.perftest_bandwidth)
        self.assertNotIn("figures", found)

    def test_every_run_has_a_program(self):
        self.assertTrue(all(pair.command(run).startswith("ib_") for run in pair.runs()))


if __name__ == "__main__":
    unittest.main()
