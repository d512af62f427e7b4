# SPDX-License-Identifier: GPL-2.0
"""Multicast groups of two namespaces, one of which has an interface on top of the other's: DEV is over the lower one,
ABOVE over the upper one, which is in another namespace.
"""

import os

from rc import DEVICE
from tap import equal, run
from ud import UdEnd
from work import OK

GROUP = "239.1.1.7"


def groups():
    """What comes to a group by an interface is for members in the interface's own namespace alone"""
    above, below = UdEnd(os.environ["ABOVE"]), UdEnd(DEVICE)
    try:
        for end in (above, below):
            end.attach(GROUP)
            end.receive()
        # IP gives a copy back to who sends.
        with above.handle_for(GROUP, int(os.environ["ABOVE_GID"])) as handle:
            equal(above.send(handle), OK, "datagram")
        equal(above.completion().status, OK, "the member there")
        below.silent()
    finally:
        for end in (above, below):
            end.close()


if __name__ == "__main__":
    run([groups])
