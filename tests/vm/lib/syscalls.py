# SPDX-License-Identifier: GPL-2.0
"""Numbers of the system calls that the C library has no function for."""

import os

_X86 = os.uname().machine == "x86_64"

BPF = 321 if _X86 else 280
DELETE_MODULE = 176 if _X86 else 106
FINIT_MODULE = 313 if _X86 else 273
MEMFD_SECRET = 447
USERFAULTFD = 323 if _X86 else 282
