# SPDX-License-Identifier: GPL-2.0
"""Things of a Python on the other machine of a pair, used as if they were here.

	machine a: call(End, size=4096).mr.rkey  ------  machine b: serve()

Plain values travel; everything else stays there and is named here by a `Far`, whose attributes and methods are asked
for there. Both machines run the same script, so functions and classes go by name. Knows no device and no test.
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
    """A thing of the other machine."""

    def __init__(self, place):
        self._place = place

    def __reduce__(self):
        return _thing, (self._place,)

    def __getattr__(self, name):
        return call(getattr, self, name)

    def __call__(self, *args, **named):
        return call(self, *args, **named)


def _thing(place):
    """On the machine that has it: the thing at a place."""
    return _things[place]


@functools.cache
def _wire():
    """The connection to the other machine, whose script may begin later than ours."""
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
    """Tells the other machine that we are done, and waits until it knows: when we are gone, nobody would repeat what
    a bad wire has lost of the end of our connection."""
    with contextlib.suppress(EOFError, OSError):
        wire.send(None)
        if wire.poll(_PATIENCE):
            wire.recv()


def call(function, *args, **named):
    """Calls a function there. What it raises, is raised here, as an AssertionError with the same text."""
    _wire().send((function, args, named))
    good, result = _wire().recv()
    if not good:
        raise AssertionError(f"there: {result}")
    return _near(result)


def at(end, function, *args, **named):
    """Calls function(end, ...) on the machine that has the end."""
    return call(function, end, *args, **named) if isinstance(end, Far) else function(end, *args, **named)


def _near(result):
    """A result as it came: places become things."""
    kind, value = result
    if kind == "list":
        return tuple(_near(part) for part in value)
    return Far(value) if kind == "thing" else value


def _told(result):
    """A result as it travels."""
    if isinstance(result, _PLAIN):
        return "plain", result
    if isinstance(result, (list, tuple)):
        return "list", [_told(part) for part in result]
    _things.append(result)
    return "thing", len(_things) - 1


def serve():
    """Does what the other machine asks for, until it is done."""
    # Who calls next is for the next to serve, also while we still wait for the end.
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
                # Our answer may be lost as well, so we stay until the other machine has left.
                wire.poll(_PARTING)
                return
            function, args, named = order
            try:
                answer = True, _told(function(*args, **named))
            except Exception as error:  # pylint: disable=broad-except
                answer = False, f"{type(error).__name__}: {error}"
            wire.send(answer)
