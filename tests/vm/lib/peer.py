# SPDX-License-Identifier: GPL-2.0
"""A sender in a child process, so that messages arrive while the test does something else."""

import os
import time

from rc import End, own_context, readable
from tap import equal, true
from work import OK, SEND, fill, pattern


class Peer:
    """`with Peer(seconds) as peer`: connect() to it, start() it; count() is the number of messages that it sent."""

    def __init__(self, seconds, length=64):
        self.stop = time.monotonic() + seconds
        to_child, to_parent = os.pipe(), os.pipe()
        self.child = os.fork()
        if self.child:
            os.close(to_child[0])
            os.close(to_parent[1])
            self.out, self.back = to_child[1], to_parent[0]
            return
        try:
            self.out, self.back = to_parent[1], to_child[0]
            self._stream(length)
            os._exit(0)
        except BaseException as error:  # pylint: disable=broad-except
            print(f"# sender: {error!r}", flush=True)
            os._exit(1)

    def _stream(self, length):
        own_context()
        end = End()
        self.tell(end.qp.qp_num)
        end.to_rts(self.told())
        self.told()
        number = 0
        while time.monotonic() < self.stop:
            fill(end, pattern(length, number))
            end.send(SEND, wr_id=number, pieces=[end.sge(0, length)])
            number += 1
            if number % 16 == 0:
                for wc in end.completions(16, 20):
                    equal(wc.status, OK)
        self.tell(number)
        end.completions(number % 16, 20)
        end.close()

    def tell(self, number):
        """Sends a number to the other process."""
        os.write(self.out, f"{number}\n".encode())

    def told(self):
        """Returns the next number from the other process."""
        text = b""
        while not text.endswith(b"\n"):
            byte = os.read(self.back, 1)
            true(byte, "the other process has gone")
            text += byte
        return int(text)

    def connect(self, end, **settings):
        """Connects an end to the sender."""
        end.to_rts(self.told(), **settings)
        self.tell(end.qp.qp_num)

    def start(self):
        """Starts the sender, after receives are posted."""
        self.tell(0)

    def running(self):
        """Returns whether it still sends."""
        return time.monotonic() < self.stop

    def count(self):
        """Returns the number of messages sent, once it has stopped and they have completed; for that, they may need
        more receives. None before.
        """
        return self.told() if readable(self.back, 0) else None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            os.kill(self.child, 9)
        code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        os.close(self.out)
        os.close(self.back)
        if not kind:
            equal(code, 0, "the sender's exit code")
