#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# make demo: one of Debian's kernels, the driver, unmodified rdma-core, and what they do together.
# First over one device, then between two network namespaces. The exit code is the truth.
# DRIVER=rxe shows the same of the in-tree driver.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

started=$SECONDS
# The kernel that is ready soonest: Debian's own, for which no metadata is built, unless the other is there. What only
# tests need is not built.
[ -n "${KVER-}${FLAVOUR-}" ] || [ -e "$CACHE/kernel-$KVER_DEFAULT/release" ] || export KVER=$SUITE
export FERROCE_TESTS=n GUEST_TESTS=n
for topology in single netns; do
	TOPOLOGY=$topology "$SRC/scripts/vm.sh" "$SRC/scripts/machine/demo-guest.sh" || die "the demo failed"
done
echo "Shown in $((SECONDS - started)) s: RC messages, checked data and RDMA writes over ${DRIVER:-ferroce}, by" \
	"IPv4 and IPv6, on one device and between two namespaces."
