#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-kdir.sh: builds the module with `make KDIR=` against trees as distributions lay them out:
#
#	with metadata  of the kernel's crates the metadata and the macros, but no source: the kernel's own are used
#	without Rust   Debian's own kernel, in one folder as in /usr/src/kernels of Fedora, with the Rust support out of
#	               an archive as kernel.org has it; two builds at once; one that is interrupted
#
# Each is a line of KTAP.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

work=$SRC/build/kdir
LOG=$work/log
. "$SRC/scripts/checks/tap.sh"

in_root() { FERROCE_BIND=$work "$SRC/scripts/root/in-root.sh" "$@" </dev/null; }
build() { in_root make -C "$work/ferroce" KDIR="$work/kernel" "$@"; }
version_is() { [ "$(in_root modinfo -F version "$work/ferroce/ferroce.ko")" = "$VERSION" ]; }
imports_rust() { in_root nm -u "$work/ferroce/ferroce.ko" | grep ' U _R'; }
no_rust() { ! imports_rust; }

# sources: a copy of the tree, as it is before the first build.
sources() {
	rm -rf "$work/ferroce"
	mkdir -p "$work/ferroce"
	cp -r "$SRC"/{Kbuild,Makefile,include,rust,scripts} "$work/ferroce/"
	rm -rf "$work/ferroce/rust/linux"
}

with_metadata() {
	local kernel
	kernel=$("$SRC/scripts/kernel/kernel.sh")/build
	mkdir -p "$work/kernel/rust"
	ln -s "$kernel"/{.config,Makefile,Module.symvers,arch,include,scripts,tools} "$work/kernel/"
	ln -s "$kernel"/rust/*.{rmeta,so} "$work/kernel/rust/"
	sources
	check "with metadata: it builds" logged build
	check "with metadata: it is of this version" logged version_is
	check "with metadata: it uses the kernel's crates" logged imports_rust
}

# one_folder: the two halves of Debian's headers, and the programs, in one.
one_folder() {
	local usr=$1/headers/usr part
	rm -rf "$work/kernel"
	mkdir "$work/kernel"
	for part in linux-headers-*-common linux-headers-*-"$(sed 's/.*-//' "$1/release")"; do
		cp -rL "$usr"/src/$part/. "$work/kernel/" 2>/dev/null || true
	done
	cp "$usr"/src/linux-headers-*-common/Makefile "$work/kernel/"
	cat "$usr/src/linux-headers-$(<"$1/release")/.kernelvariables" >"$work/kernel/.kernelvariables"
}

# archive: what is needed of the source of Linux, under the name that it has in an archive.
archive() {
	mkdir -p "$work/linux-$KERNEL_SERIES"
	tar -x -f "$("$SRC/scripts/kernel/rust-source.sh")" -C "$work/linux-$KERNEL_SERIES" --strip-components=2
	tar -c -J -C "$work" -f "$work/linux-$KERNEL_SERIES.tar.xz" "linux-$KERNEL_SERIES"
}

# at_once: a second build, in the middle of the first one, says so and does no harm.
at_once() {
	local first rc=0
	build >"$work/first" 2>&1 &
	first=$!
	until grep -q 'RUSTC' "$work/first"; do
		kill -0 "$first" || return
		sleep 0.2
	done
	build >"$work/second" 2>&1 && return 1
	cat "$work/second"
	grep -q 'ferroce: another build runs in this tree' "$work/second" || return
	# Interrupted, as by Ctrl-C, which all its processes get; one that has just started may miss it.
	while pkill -INT -f "make -C $work/ferroce KDIR"; do
		pkill -INT -f "$work/ferroce" || true
		sleep 0.5
	done
	wait "$first" || rc=$?
	[ "$rc" != 0 ]
}

without_rust() {
	local kernel
	kernel=$(KVER=${KVER:-$SUITE} "$SRC/scripts/kernel/kernel.sh")
	one_folder "$kernel"
	archive
	sources
	export RUST_TREE=$work/linux-$KERNEL_SERIES.tar.xz
	check "without Rust: two builds at once are told, one is interrupted" logged at_once
	check "without Rust: then it builds" logged build
	check "without Rust: it is of this version" logged version_is
	check "without Rust: no symbol of Rust is imported" logged no_rust
	check "without Rust: it is as the configuration asks" logged \
		in_root "$SRC/scripts/checks/check-module.sh" "$work/ferroce/ferroce.ko" "$work/kernel"
}

need pkill procps
rm -rf "$work"
mkdir -p "$work"
with_metadata
without_rust
finish
