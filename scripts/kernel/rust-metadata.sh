#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rust-metadata.sh SOURCE HEADERS: prepares the kernel's source in SOURCE for modules in Rust, for the kernel whose
# headers package is unpacked in HEADERS. That package has .config and Module.symvers, and lacks the metadata of the
# kernel's Rust crates.
#
# But rustc is deterministic: the same compiler on the same source and .config gives crates whose symbols are those of
# the stock image. This is checked, name by name.
#
# Called by scripts/kernel/kernel.sh.

set -euo pipefail

die() {
	echo "ferroce: $*" >&2
	exit 1
}

# variable NAME: of the architecture and the compiler that Debian's headers name. Their text is of make.
variable() { printf 'show:\n\t@echo $(%s)\ninclude %s/.kernelvariables\n' "$1" "$headers" | make -s -f - show; }

# check_symbols: our crates must export what the stock image exports. Otherwise modules would fail to load, or worse.
check_symbols() {
	local missing
	missing=$(comm -13 \
		<(sed -n 's/^EXPORT_SYMBOL_RUST_GPL(\(.*\));$/\1/p' "$source"/rust/exports_*_generated.h | sort -u) \
		<(awk '$3 ~ /^rust\// || ($3 == "vmlinux" && $2 ~ /^_R/) { print $2 }' "$headers/Module.symvers" |
			sort -u))
	[ -z "$missing" ] || die "the rebuilt Rust crates lack symbols of kernel $release:" \
		"$(head -n 3 <<<"$missing" | tr '\n' ' ')... (wrong rustc? this one is $(rustc --version))"
}

# check_options: a tool that is missing here, such as pahole, changes options, and with them structures. Those that only
# say what the tools can do may differ, and the vDSO for 32-bit programs, which needs a compiler of its own.
check_options() {
	local changed
	changed=$(diff "$headers/include/config/auto.conf" "$source/include/config/auto.conf" |
		sed -n -E -e '/VERSION|_HAS_|_HAVE_|SUPPORTS|CAN_LINK|COMPAT_VDSO/d' -e 's/^[<>] //p') || true
	[ -z "$changed" ] || die "this machine's tools change the configuration of kernel $release:" \
		"$(head -n 3 <<<"$changed" | tr '\n' ' ')"
}

[ $# -eq 2 ] || die "usage: rust-metadata.sh SOURCE HEADERS"
source=$1 headers=$2
for file in .config .kernelvariables Module.symvers include/config/auto.conf; do
	[ -e "$headers/$file" ] || die "no $file in the kernel's headers in $headers"
done
release=$(variable KERNELRELEASE)
cp "$headers/.config" "$source/.config"
# Modules name sources of the crates in panics; where this tree happens to lie is of no interest.
make -C "$source" ARCH="$(variable ARCH)" CROSS_COMPILE="$(variable CROSS_COMPILE)" CC="$(variable CC)" \
	KERNELRELEASE="$release" KRUSTFLAGS="--remap-path-prefix=$(realpath "$source")/=" \
	-j"$(nproc)" olddefconfig prepare modules_prepare </dev/null ||
	die "the Rust crates of kernel $release cannot be built; the reason is above"
check_options
check_symbols
cp "$headers/Module.symvers" "$source/Module.symvers"
echo "$release" >"$source/include/config/kernel.release"
