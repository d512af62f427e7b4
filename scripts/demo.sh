#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# make demo: one of Debian's kernels, the driver, unmodified rdma-core, and what they do together.
# First over one device, then between two network namespaces. The exit code is the truth.
# DRIVER=rxe shows the same of the in-tree driver.
#
# The first time takes minutes, so what does not need each other is made at the same time.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

# at_once COMMAND...: in the background; all_made waits for those. What fails has told why, and the rest is stopped.
at_once() {
	"$@" >/dev/null &
	makers+=($!)
}
all_made() {
	local maker
	for maker in "${makers[@]}"; do wait "$maker" || die "the demo failed"; done
	makers=()
}

started=$SECONDS makers=()
stop_with_children
# The kernel that is ready soonest: Debian's own, for which no metadata is built, unless the other is there. What only
# tests need is not built.
soonest=
if [ -z "${KVER-}${FLAVOUR-}" ] && [ ! -e "$CACHE/kernel-$KVER_DEFAULT/release" ]; then
	export KVER=$SUITE
	soonest=1
fi
export FERROCE_TESTS=n GUEST_TESTS=n
# What is missing on this machine is told before anything is made.
need python3 python3-minimal
[ "$(architecture_of "${KVER-}-$(flavour)")" != amd64 ] || need qemu-system-x86_64 qemu-system-x86

at_once "$SRC/scripts/root/toolchain.sh"
all_made
# Without the kernel, whose archive is of another speed than processors.
at_once "$SRC/scripts/root/image.sh" --programs
# That kernel was built without Rust.
if [ -n "$soonest" ] && [ "${DRIVER-}" != rxe ]; then at_once "$SRC/scripts/kernel/rust-source.sh"; fi
at_once "$SRC/scripts/kernel/kernel.sh"
all_made
at_once "$SRC/scripts/vm.sh" --prepare
if [ "${DRIVER-}" != rxe ]; then
	at_once "$SRC/scripts/build.sh"
	# Where it puts the module, but for this variant.
	[ -n "${FERROCE_BUNDLED-}" ] || export FERROCE_KO=$SRC/ferroce.ko
fi
all_made
for topology in single netns; do
	TOPOLOGY=$topology "$SRC/scripts/vm.sh" "$SRC/scripts/machine/demo-guest.sh" || die "the demo failed"
done
echo "Shown in $((SECONDS - started)) s: RC messages, checked data and RDMA writes over ${DRIVER:-ferroce}, by" \
	"IPv4 and IPv6, on one device and between two namespaces."
