#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# dkms-build.sh HEADERS [MAKE-ARGUMENT...]: what DKMS calls, in a copy of /usr/src/ferroce-VERSION, to build ferroce.ko
# for the installed kernel whose build tree or headers package is HEADERS. The kernel's Rust support is part of the
# package, so nothing of the kernel's source is needed.

set -euo pipefail

# DKMS names a compiler, and so does the tree.
unset CC KERNEL_CC
make KDIR="$@"
