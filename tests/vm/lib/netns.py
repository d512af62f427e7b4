# SPDX-License-Identifier: GPL-2.0
"""Sockets of another network namespace."""

import contextlib
import os


@contextlib.contextmanager
def within_namespace(name):
    """`with within_namespace("b")`: sockets that this thread opens belong to that namespace."""
    with contextlib.ExitStack() as stack:
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        stack.callback(os.close, own)
        other = os.open(f"/run/netns/{name}", os.O_RDONLY)
        stack.callback(os.close, other)
        os.setns(other, os.CLONE_NEWNET)
        stack.callback(os.setns, own, os.CLONE_NEWNET)
        yield
