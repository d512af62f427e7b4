# SPDX-License-Identifier: GPL-2.0
"""Sockets of another network namespace."""

import contextlib
import os


@contextlib.contextmanager
def within_namespace(name):
    """`with within_namespace("b")`: sockets that this thread opens belong to that namespace."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{name}", os.O_RDONLY)
    os.setns(other, os.CLONE_NEWNET)
    try:
        yield
    finally:
        os.setns(own, os.CLONE_NEWNET)
        os.close(own)
        os.close(other)
