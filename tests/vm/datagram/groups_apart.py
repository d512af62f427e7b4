# SPDX-License-Identifier: GPL-2.0
"""Multicast groups in two namespaces, one of which has an interface on top of an interface of the other: DEV is over
the lower interface, ABOVE over the upper one, which is in another namespace.
"""

import os

from rc import DEVICE
from tap import equal, run
from ud import UdEnd
from work import OK

GROUP = "239.1.1.7"


def groups():
    """A group datagram reaches only members in the namespace of its interface"""
    above, below = UdEnd(os.environ["ABOVE"]), UdEnd(DEVICE)
    try:
        for end in (above, below):
            end.attach(GROUP)
            end.receive()
        # IP returns a copy to the sender.
        with above.handle_for(GROUP, int(os.environ["ABOVE_GID"])) as handle:
            equal(above.send(handle), OK, "datagram")
        equal(above.completion().status, OK, "the member in the namespace")
        below.silent()
    finally:
        for end in (above, below):
            end.close()


if __name__ == "__main__":
    run([groups])
