# SPDX-License-Identifier: GPL-2.0
"""Memory runs out, or copies fail, as in no_memory.py, while the driver is loaded: it is there, or nothing of it is.

Most of what a module takes is the kernel's, before anything of the driver runs: the failures begin where a wrong
parameter would be refused. The kernel warns if it cannot describe the events of a module, so that is spared. Nobody may
have the driver loaded.
"""

import ctypes
import errno
import os

from no_memory import LACKING, Injection
from no_memory_more import spared
from tap import Skip, equal, run, true

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ferroce.ko")
# System calls of x86-64.
FINIT_MODULE, DELETE_MODULE = 313, 176
# More than loading a module takes.
MANY = 100000
libc = ctypes.CDLL(None, use_errno=True)


def loaded():
    """Whether the driver is there."""
    return os.path.exists("/sys/module/ferroce")


def load(file, parameters=b""):
    """Loads it; 0, or the error's number."""
    return ctypes.get_errno() if libc.syscall(FINIT_MODULE, file.fileno(), parameters, 0) else 0


def unload():
    """Takes it away."""
    equal(libc.syscall(DELETE_MODULE, b"ferroce", 0), 0, "delete_module")


def taken(file, parameters, error):
    """How many allocations it takes to load the driver, or to find that it cannot be loaded."""
    with Injection(MANY) as counted:
        equal(load(file, parameters), error, f"finit_module with '{parameters.decode()}'")
    if not error:
        unload()
    return MANY - counted.left


def modules():
    """insmod: the driver is there, or nothing of it is, and then it can be loaded"""
    refused = 0
    if not os.path.exists("/sys/kernel/debug/failslab/reject-start"):
        raise Skip("this kernel cannot be told who may fail")
    with open(MODULE, "rb") as file, spared("trace_module_notify"):
        # The first time, caches are filled.
        for _ in range(2):
            first, last = taken(file, b"local_path=nonsense", errno.EINVAL), taken(file, b"", 0)
        for number in range(first + 1, last + 1):
            with Injection(number):
                error = load(file)
            true(error in (0, *LACKING), f"failure {number} of {last}: {errno.errorcode.get(error)}")
            equal(loaded(), not error, f"after failure {number}, the driver is there")
            refused += error != 0
            if error:
                equal(load(file), 0, "finit_module, right after")
            unload()
    print(f"# of {last} allocations, from {first + 1} on: {refused} loads were refused", flush=True)
    true(refused > 10, "hardly any could be made to fail")


if __name__ == "__main__":
    run([modules])
