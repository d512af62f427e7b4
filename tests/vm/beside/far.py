# SPDX-License-Identifier: GPL-2.0
"""Python objects on the other machine of a pair, used as if they were local.

	machine a: call(End, size=4096).mr.rkey  ------  machine b: serve()

Plain values are copied. Every other object stays on its machine and is represented by a `Far`, which forwards
attributes and calls. Both machines run the same script, so functions and classes are passed by name. Independent of
devices and tests.
"""

import atexit
import contextlib
import functools
import os
import time
from multiprocessing.connection import Client, Listener

_PORT = 5999
_PATIENCE = 60
_PARTING = 5
_PLAIN = (int, float, str, bytes, type(None))
_things = []


class Far:
    """An object of the other machine."""

    def __init__(self, place):
        self._place = place

    def __reduce__(self):
        return _thing, (self._place,)

    def __getattr__(self, name):
        return call(getattr, self, name)

    def __call__(self, *args, **named):
        return call(self, *args, **named)


def _thing(place):
    """On the machine that owns it: the object with this index."""
    return _things[place]


@functools.cache
def _wire():
    """The connection to the other machine, whose script may start later."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            wire = Client((os.environ["PEER_ADDR"], _PORT))
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
    atexit.register(_part, wire)
    return wire


def _part(wire):
    """Notifies the other machine that we are done, and waits for its answer: after our exit no process would retransmit
    the end of the connection if a bad wire dropped it."""
    with contextlib.suppress(EOFError, OSError):
        wire.send(None)
        if wire.poll(_PATIENCE):
            wire.recv()


def call(function, *args, **named):
    """Calls a function on the other machine. An exception there is raised here as an AssertionError with the same
    text."""
    _wire().send((function, args, named))
    good, result = _wire().recv()
    if not good:
        raise AssertionError(f"there: {result}")
    return _near(result)


def at(end, function, *args, **named):
    """Calls function(end, ...) on the machine that owns the end."""
    return call(function, end, *args, **named) if isinstance(end, Far) else function(end, *args, **named)


def _near(result):
    """Converts a received result: indices become `Far` objects."""
    kind, value = result
    if kind == "list":
        return tuple(_near(part) for part in value)
    return Far(value) if kind == "thing" else value


def _told(result):
    """Converts a result for transfer."""
    if isinstance(result, _PLAIN):
        return "plain", result
    if isinstance(result, (list, tuple)):
        return "list", [_told(part) for part in result]
    _things.append(result)
    return "thing", len(_things) - 1


def serve():
    """Executes the calls of the other machine until it is done."""
    # Stop listening first: a later connection is for the next serve(), even while this one still waits for the end.
    with Listener((os.environ["ADDR"], _PORT)) as listener:
        wire = listener.accept()
    with wire:
        while True:
            try:
                order = wire.recv()
            except EOFError:
                return
            if order is None:
                wire.send(None)
                # Our answer may be lost as well, so stay until the other machine has left.
                wire.poll(_PARTING)
                return
            function, args, named = order
            try:
                answer = True, _told(function(*args, **named))
            except Exception as error:  # pylint: disable=broad-except
                answer = False, f"{type(error).__name__}: {error}"
            wire.send(answer)
