# SPDX-License-Identifier: GPL-2.0
"""A kernel without IPv6: datagrams to an IPv6 group from the link-local GID, and to an unreachable IPv6 address."""

import errno

import enums as e
from tap import equal, run
from ud import UdEnd
from verbs import refused


def to_a_group():
    """A datagram to an IPv6 group from the link-local GID completes"""
    end = UdEnd()
    with end.handle_for("ff02::1", 0) as handle:
        equal(end.send(handle), e.IBV_WC_SUCCESS, "status")
    end.close()


def to_an_address():
    """An address handle for a link-local IPv6 address is refused"""
    end = UdEnd()
    refused(lambda: end.handle_for("fe80::1", 0), errno.EAFNOSUPPORT, errno.EOPNOTSUPP, errno.EINVAL,
            errno.EADDRNOTAVAIL, errno.ENETUNREACH, errno.ENODEV)
    end.close()


TESTS = [to_a_group, to_an_address]

if __name__ == "__main__":
    run(TESTS)
