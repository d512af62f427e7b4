# SPDX-License-Identifier: GPL-2.0
"""scripts/times.py: which steps have grown."""

import unittest

import times


class Grown(unittest.TestCase):
    RECORDED = {name: (20, 20) for name in ("one", "two", "three")}

    def test_a_slower_machine_is_no_fault(self):
        found, median = times.grown({name: (90, 60) for name in self.RECORDED}, self.RECORDED)
        self.assertEqual((found, median), ([], 3))

    def test_a_step_that_grows_by_more_than_half(self):
        measured = {"one": (20, 20), "two": (20, 20), "three": (20, 31)}
        self.assertEqual(times.grown(measured, self.RECORDED)[0], [("three", 31 / 20)])

    def test_short_and_new_steps_are_not_judged(self):
        measured = {"one": (20, 20), "two": (20, 20), "three": (9, 9), "four": (99, 99)}
        recorded = {**self.RECORDED, "three": (1, 1)}
        self.assertEqual(times.grown(measured, recorded)[0], [])


if __name__ == "__main__":
    unittest.main()
