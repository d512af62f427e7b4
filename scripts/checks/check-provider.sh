#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-provider.sh: builds the provider for arm64, and runs its tests of the host there, in QEMU.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

PROVIDER_ARCH=arm64 "$SRC/scripts/release/provider.sh" >/dev/null
TOOLCHAIN=$SUITE-arm64-programs exec "$SRC/scripts/root/in-root.sh" env \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
	cargo test --quiet --manifest-path tools/provider/Cargo.toml --target aarch64-unknown-linux-gnu
