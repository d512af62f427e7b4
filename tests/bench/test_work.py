# SPDX-License-Identifier: GPL-2.0
"""Output of fio, ucx_perftest and the program of MPI turns into figures; each boot does the runs of its path."""

import json
import os
import unittest

from bench import emulated, figures, parse, plan, stats, table, work

TICK = 1e6 / os.sysconf("SC_CLK_TCK")
NOTHING = {"total_ios": 0, "iops": 0.0, "bw_bytes": 0, "lat_ns": {}}
READS = {
    "total_ios": 100,
    "iops": 50.0,
    "bw_bytes": 204800,
    "lat_ns": {"percentile": {"50.000000": 20000, "99.000000": 90000}},
}
STATS = "cpu  10 0 20 500 7 1 2 9 0 0\ncpu  15 0 40 900 9 2 6 99 0 0\n"
UCX = """\
+--------------+--------------+------------------------------+---------------------+-----------------------+
|              |              |       {what} (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
|     Test     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
                        2000     74.500   155.769   156.000       24.37   53.43        6420        6420
"""


def fio(reads=READS, stats_=STATS):
    job = {"jobs": [{"read": reads, "write": NOTHING}]}
    return f"io : Saving output of prerun in io.prerun.txt\n{json.dumps(job, indent=2)}\n{stats_}"


class Programs(unittest.TestCase):
    def test_fio(self):
        found = parse.fio(fio())
        # 5 of user, 20 of system, 1 of interrupts and 4 of softirqs: neither idle nor stolen time counts.
        self.assertAlmostEqual(found.pop("cpu"), 30 * TICK / 100)
        self.assertEqual(found, {"mb": 0.2048, "rate": 50.0, "median": 20.0, "p99": 90.0})

    def test_fio_without_a_figure(self):
        few = fio({**READS, "total_ios": parse.FEWEST_SAMPLES - 1})
        for text in ("", "fio: failed", fio(NOTHING), few, fio(stats_=""), fio(stats_=STATS.splitlines()[0])):
            with self.assertRaises(parse.Unreadable):
                parse.fio(text)

    def test_ucx(self):
        self.assertEqual(parse.ucx(UCX.format(what="latency")), {"median": 74.5, "mean": 156.0})
        others = UCX.format(what="latency").replace("50.0%ile", "99.0%ile")
        self.assertEqual(parse.ucx(others), {"p99": 74.5, "mean": 156.0})
        found = parse.ucx(UCX.format(what="overhead"))
        self.assertEqual(list(found), ["mb"])
        self.assertAlmostEqual(found["mb"], 53.43 * 1.048576)

    def test_ucx_without_a_table(self):
        for text in ("", UCX.rpartition("\n  ")[0]):
            with self.assertRaises(parse.Unreadable):
                parse.ucx(text)


class Work(unittest.TestCase):
    def test_lines_are_grouped_by_program(self):
        for path in work.TOPOLOGIES:
            programs = [line.split()[0] for line in work.lines(work.RUNS, path)]
            self.assertTrue(programs)
            self.assertEqual(programs, sorted(programs, key=programs.index))

    def test_tcp_is_measured_with_ferroce(self):
        for path in work.TOPOLOGIES:
            with_tcp = [job["who"] for _, job in work.jobs(work.RUNS, path, figures.FERROCE, 1)]
            self.assertEqual(set(with_tcp), {"ferroce", "tcp"})
            self.assertEqual({job["who"] for _, job in work.jobs(work.RUNS, path, figures.RXE, 1)}, {"rxe"})

    def test_every_run_can_be_read(self):
        self.assertEqual({run.program for run in work.RUNS}, set(work.READERS))

    def test_what_is_chosen(self):
        self.assertEqual(work.chosen(True), [])
        self.assertEqual(work.chosen(False), list(work.RUNS))
        self.assertEqual([run.name for run in work.chosen(False, ("mpi", "write_lat"))], ["mpi"])
        self.assertEqual([run.name for run in plan.chosen(False, ("mpi", "write_lat"))], ["write_lat"])

    def test_boots(self):
        only = work.chosen(False, ("nfs_read",))
        self.assertEqual([turn[2:] for turn in emulated.turns([], only)], [("netns", "ferroce"), ("netns", "rxe")])
        self.assertEqual(len(list(emulated.turns(emulated.runs(), []))), 4)

    def test_fewer_rounds_are_no_holes(self):
        run = work.RUNS[0]
        job = {"run": run.name, "path": figures.STOCK, "who": "ferroce"}
        results = [{"job": job | {"round": number}, "figures": {"rate": 5.0}} for number in (1, 2, 3)]
        series = stats.Series(results, 5)
        self.assertEqual(table.cell(series, run, run.figures[0], figures.STOCK, "ferroce"), "5 ±0%")


if __name__ == "__main__":
    unittest.main()
