# SPDX-License-Identifier: GPL-2.0
"""From single measurements to medians, spread, and ratios within one round.

A ratio is taken between measurements of the same round, which were made within seconds of each other; the median of
these is reported. A failed measurement is ignored.
"""

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Summary:
    """Several measurements of one thing."""

    median: float
    least: float
    most: float
    count: int

    @property
    def spread(self):
        """From the least to the most, as a part of the median."""
        return (self.most - self.least) / self.median if self.median else 0.0


def summary(values):
    """Of those that are there; nothing if none is."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    return Summary(median(there), min(there), max(there), len(there))


def ratios(ours, theirs):
    """Round by round: ours divided by theirs, where both are there."""
    return summary(
        [mine / other for mine, other in zip(ours, theirs) if mine is not None and other] or [None]
    )


#: A measurement this many times off the median of its rounds is a failure of the benchmark, not a figure.
TOO_FAR = 20


def _drop_implausible(values):
    """Replaces measurements that are far off the others by `None`; returns whether there were any."""
    there = [value for value in values if value is not None]
    if len(there) < 3:
        return False
    usual = median(there)
    wrong = [at for at, value in enumerate(values)
             if value is not None and not usual / TOO_FAR <= value <= usual * TOO_FAR]
    for at in wrong:
        values[at] = None
    return bool(wrong)


class Series:
    """All measurements, by run, figure, path, contestant and round."""

    def __init__(self, results, rounds):
        self.rounds = rounds
        self.values = {}
        self.failures = {}
        self.tried = set()
        for result in results:
            self._add(result)
        for (run, _figure, path, who), values in self.values.items():
            if _drop_implausible(values):
                self.failures[run, path, who] = f"a round is {TOO_FAR} times off the others"

    def _add(self, result):
        job = result["job"]
        if job["round"] == 0:
            return
        self.tried.add((job["run"], job["path"], job["who"]))
        if "figures" not in result:
            self.failures[job["run"], job["path"], job["who"]] = result["failed"]
            return
        for figure, value in result["figures"].items():
            of = self.values.setdefault((job["run"], figure, job["path"], job["who"]), [None] * self.rounds)
            of[job["round"] - 1] = value

    def of(self, run, figure, path, who):
        """The measurements, one per round; `None` where it failed."""
        return self.values.get((run, figure, path, who), [None] * self.rounds)

    def why_not(self, run, path, who):
        """Why the last one that failed did; nothing if none was tried or none failed."""
        return self.failures.get((run, path, who))
