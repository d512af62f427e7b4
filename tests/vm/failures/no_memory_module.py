# SPDX-License-Identifier: GPL-2.0
"""Allocation or copy failures, as in no_memory.py, while the driver is loaded: the load succeeds completely or leaves
nothing.

Most allocations of a module load are the kernel's, before any code of the driver runs: the failures begin where a
wrong parameter is refused. The kernel warns if it cannot describe the events of a module, so that allocation never
fails. The driver must not be loaded when this starts.
"""

import ctypes
import errno
import os

from no_memory import LACKING, Injection
from no_memory_more import spared
from syscalls import DELETE_MODULE, FINIT_MODULE
from tap import Skip, equal, run, true

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ferroce.ko")
# With the link type of rdma_rxe, a load allocates most.
PARAMETERS = b"as_rxe=1"
# More than the allocations of a module load.
MANY = 100000
libc = ctypes.CDLL(None, use_errno=True)


def loaded():
    """Returns whether the driver is loaded."""
    return os.path.exists("/sys/module/ferroce")


def load(file, parameters=b""):
    """Loads the driver; returns 0, or the errno."""
    return ctypes.get_errno() if libc.syscall(FINIT_MODULE, file.fileno(), parameters, 0) else 0


def unload():
    """Unloads the driver."""
    equal(libc.syscall(DELETE_MODULE, b"ferroce", 0), 0, "delete_module")


def taken(file, parameters, error):
    """Returns the number of allocations of a load of the driver, or of one that fails."""
    with Injection(MANY) as counted:
        equal(load(file, parameters), error, f"finit_module with '{parameters.decode()}'")
    if not error:
        unload()
    return MANY - counted.left


def modules():
    """insmod with a failed allocation loads the driver or leaves nothing of it, and the next insmod succeeds"""
    refused = 0
    if not os.path.exists("/sys/kernel/debug/failslab/reject-start"):
        raise Skip("this kernel cannot select which allocations fail")
    with open(MODULE, "rb") as file, spared("trace_module_notify"):
        # The first pass fills caches.
        for _ in range(2):
            first, last = taken(file, b"local_path=nonsense", errno.EINVAL), taken(file, PARAMETERS, 0)
        for number in range(first + 1, last + 1):
            with Injection(number):
                error = load(file, PARAMETERS)
            true(error in (0, *LACKING), f"failure {number} of {last}: {errno.errorcode.get(error)}")
            equal(loaded(), not error, f"after failure {number}, the driver is there")
            refused += error != 0
            if error:
                equal(load(file, PARAMETERS), 0, "finit_module, right after")
            unload()
    print(f"# of {last} allocations, from {first + 1} on: {refused} loads were refused", flush=True)
    true(refused > 10, "hardly any could be made to fail")


if __name__ == "__main__":
    run([modules])
