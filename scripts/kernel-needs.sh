#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernel-needs.sh KDIR: whether ferroce can be built against this build tree or headers package of a kernel, with the
# tools of this machine. If not, one line says what is missing and what to do, and the exit code is 1.
#
# Needs nothing but scripts/versions: it is part of the package of sources, too.

set -euo pipefail
# shellcheck source=scripts/versions
. "$(dirname "$0")/versions"

die() {
	echo "ferroce: $*" >&2
	exit 1
}

kdir=${1-}
[ -n "$kdir" ] || die "usage: kernel-needs.sh KDIR"
config=$kdir/include/config/auto.conf
release=$(sed -n 's/^#define UTS_RELEASE "\(.*\)"/\1/p' "$kdir/include/generated/utsrelease.h" 2>/dev/null || true)
[ -e "$config" ] && [ -n "$release" ] ||
	die "$kdir is no prepared build tree of a kernel; for the running one: apt install linux-headers-$(uname -r)"

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

# Metadata of one compiler is worthless to another.
number=$(sed -n 's/^CONFIG_RUSTC_VERSION=//p' "$config")
wanted=$((number / 100000)).$((number / 100 % 1000)).$((number % 100))
found=$(rustc --version 2>/dev/null | awk '{ print $2 }') || true
if [ "$found" != "$wanted" ]; then
	package=$(apt-cache madison rustc 2>/dev/null |
		awk -v v="$wanted" 'index($3, v) == 1 { print $3; exit }') || true
	die "kernel $release was built with rustc $wanted, and this machine has ${found:-none};" \
		"$(if [ -n "$package" ]; then
			echo "apt install rustc=$package rust-src=$package libstd-rust-dev=$package"
		else
			echo "install that version, or the package ferroce-modules-$release"
		fi)"
fi
missing=
compilers=gcc:gcc
! grep -qx CONFIG_CC_IS_CLANG=y "$config" || compilers="clang:clang ld.lld:lld llvm-objcopy:llvm"
for pair in bindgen:bindgen make:make $compilers; do
	command -v "${pair%:*}" >/dev/null || missing+=" ${pair#*:}"
done
[ -z "$missing" ] || die "tools are missing; apt install$missing"
