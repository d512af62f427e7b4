#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernel-needs.sh KDIR: whether ferroce can be built against this build tree or headers package of a kernel, with the
# tools of this machine. If not, one line says what is missing and what to do, and the exit code is 1.
#
# Needs only scripts/versions and scripts/kernel/rust-mode.sh: all are part of the package of sources, too.

set -euo pipefail
# shellcheck source=scripts/versions
. "$(dirname "$0")/../versions"

die() {
	echo "ferroce: $*" >&2
	exit 1
}

kdir=${1-}
[ -n "$kdir" ] || die "usage: kernel-needs.sh KDIR"
config=$kdir/include/config/auto.conf
case $kdir$PWD in
*[[:space:]]*) die "Kbuild takes no spaces in names of folders; move the tree" ;;
esac
release=$(sed -n 's/^#define UTS_RELEASE "\(.*\)"/\1/p' "$kdir/include/generated/utsrelease.h" 2>/dev/null || true)
[ -e "$config" ] && [ -n "$release" ] ||
	die "$kdir is no prepared build tree of a kernel; for the running one: apt install linux-headers-$(uname -r)"

[ -s "$kdir/Module.symvers" ] ||
	die "$kdir has no Module.symvers, without which no module loads; install the headers of kernel $release again"
grep -qE '^CONFIG_(X86_64|ARM64|UML)=y' "$config" ||
	die "kernel $release is for a processor that ferroce is not built for"
lowest=$(printf '%s\n' "$KVER_MIN" "${release%%[-+]*}" | sort -V | head -n 1)
[ "$lowest" = "$KVER_MIN" ] || die "kernel $release is older than $KVER_MIN, the oldest that ferroce is built for"
for option in $KERNEL_OPTIONS; do
	case $option in
	!*)
		! grep -q "^${option#!}=[ym]" "$config" ||
			die "kernel $release has ${option#!}, with which ferroce does not work"
		;;
	*)
		grep -q "^$option=[ym]" "$config" || die "kernel $release was built without $option;" \
			"install one that has it, such as Debian's from $KVER_MIN on"
		;;
	esac
done

missing=
compilers=gcc:gcc
! grep -qx CONFIG_CC_IS_CLANG=y "$config" || compilers="clang:clang ld.lld:lld llvm-objcopy:llvm"
# Bindings are edited by lines, which they have after rustfmt.
for pair in rustc:rustc bindgen:bindgen rustfmt:rustfmt make:make $compilers; do
	command -v "${pair%:*}" >/dev/null || missing+=" ${pair#*:}"
done
[ -z "$missing" ] || die "tools are missing; apt install$missing"
mode=$("$(dirname "$0")/rust-mode.sh" "$kdir") || exit 1
[ -n "$mode" ] || exit 0

# The kernel's Rust support is built into the module.
for option in $BUNDLED_REFUSED; do
	! grep -q "^$option=[ym]" "$config" || die "kernel $release has $option, for which Rust code must be built by" \
		"the rustc and with the metadata of the kernel itself; use a kernel without it"
done
! grep -qx CONFIG_KASAN=y "$config" || grep -qx CONFIG_CC_IS_CLANG=y "$config" ||
	die "kernel $release has CONFIG_KASAN and was built by gcc, whose checks Rust code has not; use another"
found=$(rustc --version | awk '{ print $2 }')
[ "$(printf '%s\n' "$RUSTC_MIN" "${found%%-*}" | sort -V | head -n 1)" = "$RUSTC_MIN" ] ||
	die "rustc $found is older than $RUSTC_MIN; install a newer one, or the package ferroce-modules-$release"
[ -e "$(rustc --print sysroot)/lib/rustlib/src/rust/library/core/src/lib.rs" ] ||
	die "the source of Rust's library is missing; apt install rust-src, or: rustup component add rust-src"
header=$(mktemp --suffix .h)
trap 'rm -f "$header"' EXIT
bindgen "$header" --rust-target 1.85 >/dev/null 2>&1 ||
	die "bindgen does not work: it is older than 0.71, or libclang is missing; apt install libclang-dev"
