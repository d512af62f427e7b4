# SPDX-License-Identifier: GPL-2.0
"""The constants of the verbs as numbers, under their names in C.

pyverbs has them in a module until rdma-core 56, and since then in enumerations of another one.
"""

import enum

try:
    from pyverbs.enums import *  # pylint: disable=unused-wildcard-import, wildcard-import
except ImportError:
    from pyverbs import libibverbs_enums

    for kind in vars(libibverbs_enums).values():
        if isinstance(kind, enum.EnumMeta):
            globals().update((name, int(member)) for name, member in kind.__members__.items())
