# SPDX-License-Identifier: GPL-2.0
"""Medians, ratios and spreads; missing results stay missing, in the table too."""

import unittest

from bench import cputime, emulated, figures, host, plan, stats, table, work

RUN = figures.RUNS[0].name


def result(number, who, value, run=RUN, path=figures.DEVICE, figure="mb"):
    job = {"run": run, "path": path, "who": who, "round": number}
    if value is None:
        return {"job": job, "failed": "no table"}
    return {"job": job, "figures": {figure: value}}


class Statistics(unittest.TestCase):
    def test_summary(self):
        found = stats.summary([3.0, None, 1.0, 2.0])
        self.assertEqual((found.median, found.least, found.most, found.count), (2.0, 1.0, 3.0, 3))
        self.assertEqual(found.spread, 1.0)

    def test_nothing_measured_is_not_zero(self):
        self.assertIsNone(stats.summary([None, None]))
        self.assertIsNone(stats.ratios([None], [1.0]))
        self.assertIsNone(stats.ratios([1.0], [None]))

    def test_ratios_are_within_a_round(self):
        # A machine that is slow in round 2 is slow for both drivers.
        found = stats.ratios([10.0, 1.0, 12.0], [5.0, 0.5, 4.0])
        self.assertEqual((found.median, found.least, found.most), (2.0, 2.0, 3.0))

    def test_a_hole_takes_its_round_out_of_the_ratio(self):
        found = stats.ratios([10.0, None, 12.0], [5.0, 1.0, None])
        self.assertEqual((found.median, found.count), (2.0, 1))

    def test_a_round_far_off_the_others_is_a_failure(self):
        values = [5.0, 4.0, 0.2, 6.0]
        series = stats.Series([result(at + 1, "rxe", value) for at, value in enumerate(values)], 4)
        self.assertEqual(series.of(RUN, "mb", figures.DEVICE, "rxe"), [5.0, 4.0, None, 6.0])
        self.assertIn("20 times off", series.why_not(RUN, figures.DEVICE, "rxe"))

    def test_series(self):
        series = stats.Series(
            [result(0, "rxe", 99.0), result(1, "rxe", 5.0), result(2, "rxe", None), result(1, "ferroce", 50.0)], 2
        )
        self.assertEqual(series.of(RUN, "mb", figures.DEVICE, "rxe"), [5.0, None])
        self.assertEqual(series.of(RUN, "mb", figures.DEVICE, "siw"), [None, None])
        self.assertEqual(series.why_not(RUN, figures.DEVICE, "rxe"), "no table")


class Table(unittest.TestCase):
    def test_a_failure_is_named(self):
        shown = table.text(stats.Series([result(1, "ferroce", 50.0), result(1, "rxe", None)], 1))
        self.assertIn("FAILED", shown)
        self.assertIn("no table", shown)

    def test_a_hole_shows_beside_the_median(self):
        shown = table.text(stats.Series([result(1, "rxe", 50.0), result(2, "rxe", None)], 2))
        self.assertIn("50 ±0% (1 of 2)", shown)

    def test_targets(self):
        def verdict(ours, theirs):
            results = [
                result(1, who, value, run="write_bw_64b_list", figure="rate")
                for who, value in (("ferroce", ours), ("rxe", theirs))
            ]
            series = stats.Series(results, 1)
            return next(reached for what, _, _, reached in table.verdicts(series) if what.endswith("against rxe"))

        self.assertTrue(verdict(100.0, 10.0))
        self.assertFalse(verdict(99.0, 10.0))
        self.assertIsNone(verdict(100.0, None))

    def test_every_target_names_a_figure(self):
        results = [
            result(1, who, None, run=run.name, path=path)
            for who in (*figures.DRIVERS, figures.TCP)
            for run in work.ALL_RUNS.values()
            for path in (*run.paths, *(emulated.TOPOLOGIES if run in emulated.runs() else ()))
        ]
        found = list(table.verdicts(stats.Series(results, 1)))
        self.assertEqual(len(found), sum(len(target.limits) for target in work.ALL_TARGETS))
        self.assertEqual({reached for *_, reached in found}, {None})

    def test_a_target_needs_its_rival(self):
        results = [result(1, "ferroce_direct", 9.0, run="write_bw_64b", figure="rate")]
        self.assertEqual(list(table.verdicts(stats.Series(results, 1))), [])
        results.append(result(1, "siw", 10.0, run="write_bw_64b", figure="rate"))
        found = [(what, reached) for what, _, _, reached in table.verdicts(stats.Series(results, 1))]
        self.assertEqual(found, [("device: ferroce_direct, write 64 B against siw", False)])

    def test_less_is_better_for_latency(self):
        series = stats.Series(
            [
                result(1, "ferroce", 2.0, run="write_lat", figure="median"),
                result(1, "rxe", 10.0, run="write_lat", figure="median"),
            ],
            1,
        )
        reached = [verdict[3] for verdict in table.verdicts(series) if verdict[2]]
        self.assertEqual(reached, [True])

    def test_numbers(self):
        shown = [table.number(value) for value in (0.1234, 12.34, 1234.5, 12345.0, 1234567.0)]
        self.assertEqual(shown, ["0.123", "12.3", "1234", "12.3k", "1235k"])


class Plan(unittest.TestCase):
    def test_rivals_take_turns(self):
        jobs = list(plan.jobs(plan.chosen(True), 2, True))
        here = [job["who"] for job in jobs if job["run"] == RUN and job["path"] == "device" and job["round"] == 1]
        at = next(i for i, job in enumerate(jobs) if job["run"] == RUN and job["round"] == 1)
        self.assertEqual([job["who"] for job in jobs[at : at + len(here)]], here)
        self.assertEqual({job["round"] for job in jobs}, {0, 1, 2})

    def test_names_are_unique(self):
        names = [run.name for run in (*figures.RUNS, *work.RUNS)]
        self.assertEqual(len(names), len(set(names)))


class ProcessorTime(unittest.TestCase):
    STAT = "7 (a) b) S 3 7 7 0 -1 0 1 2 3 4 150 50 25 25 20 0 1 0 9 9"

    def test_stat(self):
        parent, seconds = cputime.parse_stat(self.STAT)
        self.assertEqual(parent, 3)
        self.assertEqual(seconds, 250 / cputime.TICKS)

    def test_descendants(self):
        # PIDs do not show the age of processes, because they wrap.
        table_ = {9: (0, 1.0), 5: (9, 1.0), 2: (5, 1.0), 6: (9, 1.0), 4: (0, 1.0)}
        self.assertEqual(cputime.descendants(table_, 9), [9, 5, 6, 2])

    def test_the_start_is_taken_off(self):
        run = next(run for run in figures.RUNS if run.cpu)
        # The short run costs 1 s, the long one 3 s and moves 2 GiB more.
        found = host.cpu_figures(run, [10.0, 11.0, 14.0], 2 << 30)
        self.assertEqual(found["per_gib"], 1.0)

    def test_nonsense_is_refused(self):
        run = next(run for run in figures.RUNS if run.cpu)
        for marks, moved in (([1.0, 2.0], 1), ([1.0, 2.0, 2.5], 1), ([1.0, 2.0, 4.0], -5)):
            with self.assertRaises(ValueError):
                host.cpu_figures(run, marks, moved)


if __name__ == "__main__":
    unittest.main()
