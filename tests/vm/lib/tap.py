# SPDX-License-Identifier: GPL-2.0
"""Test results of a Python script as KTAP lines, in the form of lib.sh."""

import os
import sys
import traceback


class Skip(Exception):
    """A prerequisite of a test is missing; the text names it."""


def not_for_rxe(why):
    """Skips a test in which rdma_rxe is known to differ, unless FAULTS=1 runs it nevertheless."""
    if os.environ["DRIVER"] == "rxe" and not os.environ.get("FAULTS"):
        raise Skip(f"rxe: {why}")


def core_has(function):
    """Returns whether this kernel has a function, such as one of the RDMA core's."""
    with open("/proc/kallsyms", encoding="ascii") as file:
        return any(line.split()[2] == function for line in file)


def needs_core(function, what):
    """Skips a test of what the RDMA core of this kernel does not do: then it lacks that function."""
    if not core_has(function):
        raise Skip(f"the RDMA core of this kernel {what}")


class Tap:
    """Runs functions as tests and counts the results."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def _line(self, word, name, note=""):
        self.count += 1
        print(f"{word} {self.count} {name}{note}", flush=True)

    def run(self, test):
        """Runs a test, which passes if it returns; its name is the first line of its docstring."""
        name = (test.__doc__ or test.__name__).strip().splitlines()[0].rstrip(".")
        try:
            test()
        except Skip as missing:
            self._line("ok", name, f" # SKIP {missing}")
        except Exception:  # pylint: disable=broad-except
            self.failed += 1
            self._line("not ok", name)
            for line in traceback.format_exc(limit=-3).strip().splitlines():
                print(f"# {line}", flush=True)
        else:
            self._line("ok", name)

    def finish(self):
        """Prints the plan and ends the process."""
        print(f"1..{self.count}", flush=True)
        sys.exit(1 if self.failed else 0)


def run(*lists):
    """Runs lists of tests, or those that the command line names, and ends the process."""
    tap = Tap()
    for test in (test for tests in lists for test in tests):
        if len(sys.argv) < 2 or test.__name__ in sys.argv[1:]:
            tap.run(test)
    tap.finish()


def equal(found, wanted, what=""):
    """Raises unless both values are equal."""
    if found != wanted:
        raise AssertionError(f"{what + ': ' if what else ''}found {found!r}, wanted {wanted!r}")


def true(condition, what):
    """Raises unless the condition holds."""
    if not condition:
        raise AssertionError(what)
