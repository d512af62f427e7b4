# SPDX-License-Identifier: GPL-2.0
"""A connection between two devices that is not attacked, while others are: every message must arrive."""

import mmap
import os
import signal
import struct
import sys
import time

import enums as e
from rc import across
from tap import equal, true
from work import fill, held, pattern

SEND, READ = e.IBV_WR_SEND, e.IBV_WR_RDMA_READ


def closed(pipe):
    """Returns whether all writers of an empty pipe have closed it."""
    try:
        return os.read(pipe, 1) == b""
    except BlockingIOError:
        return False


class Bystander:
    """A connection that is not attacked, in its own process, with so many seconds between two rounds."""

    def __init__(self, pause=0):
        self.pause = pause
        back, self.out = os.pipe()
        stop, self.stop = os.pipe()
        # Number of completed rounds. Not a pipe, since most users of a bystander never read it.
        self.done = mmap.mmap(-1, mmap.PAGESIZE)
        self.child = os.fork()
        if not self.child:
            os.close(self.stop)
            try:
                self.deliver(stop)
                os._exit(0)
            except BaseException as error:  # pylint: disable=broad-except
                print(f"# bystander: {error!r}", flush=True)
                os._exit(1)
        os.close(stop)
        os.close(self.out)
        self.spared = [int(word) for word in os.read(back, 64).split()]

    def deliver(self, stop):
        """Sends messages of every kind until `stop` is closed; each must arrive as it was sent."""
        os.set_blocking(stop, False)
        with across(timeout=17) as (a, b):
            os.write(self.out, f"{a.qp.qp_num} {b.qp.qp_num}".encode())
            rounds = 0
            while True:
                if rounds > 3 and closed(stop):
                    break
                for one, other in ((a, b), (b, a)):
                    data = pattern(1 + rounds * 37 % 5000, rounds)
                    fill(one, data)
                    other.receive(wr_id=rounds, pieces=[other.sge(8192, 8192)])
                    one.send(SEND, pieces=[one.sge(0, len(data))])
                    one.send(READ, pieces=[one.sge(32768, len(data))], remote=other.remote(8192))
                    equal([wc.status for wc in one.completions(2, 60)], [0, 0], f"sends of round {rounds}")
                    received = other.completion(60)
                    equal((received.status, received.wr_id, received.byte_len), (0, rounds, len(data)), "receive")
                    equal(held(other, len(data), 8192), data, f"bytes received in round {rounds}")
                    equal(held(one, len(data), 32768), data, f"bytes read in round {rounds}")
                rounds += 1
                struct.pack_into("=Q", self.done, 0, rounds)
                if self.pause:
                    time.sleep(self.pause)
            print(f"# bystander: {4 * rounds} messages", flush=True)

    def rounds(self):
        """Number of completed rounds. A round consists of two messages and two READs, one of each in each direction."""
        return struct.unpack_from("=Q", self.done)[0]

    def end(self):
        """Ends the bystander, which must have delivered everything."""
        os.close(self.stop)
        equal(os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1]), 0, "the bystander's exit code")


def main():
    """Runs a bystander until SIGTERM: bystander.py [PAUSE]."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    bystander = Bystander(*map(float, sys.argv[1:]))
    signal.sigwait({signal.SIGTERM})
    bystander.end()


if __name__ == "__main__":
    main()
