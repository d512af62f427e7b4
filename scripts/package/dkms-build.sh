#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# dkms-build.sh RELEASE HEADERS [MAKE-ARGUMENT...]: what DKMS calls, in a copy of /usr/src/ferroce-VERSION, to build
# ferroce.ko for the installed kernel RELEASE, whose build tree or headers package is HEADERS.
#
# A build tree that has the metadata of the kernel's Rust crates is used as it is. Debian's headers lack it. Then a
# tree that has it is made from the kernel's source package, once for each kernel, and kept in /var/lib/ferroce/RELEASE:
# it outlives the source package of that very version, which is replaced when the next one is installed.

set -euo pipefail

TREES=/var/lib/ferroce
SCRIPTS=$(cd "$(dirname "$0")/.." && pwd -P)

die() {
	echo "ferroce: $*" >&2
	exit 1
}

# What making a tree takes beside the compilers, as COMMAND-OR-FILE:PACKAGE. Our own bindings are made from those of
# the kernel by lines, which they have only after rustfmt.
TREE_NEEDS="/usr/include/gelf.h:libelf-dev /usr/include/openssl/ssl.h:libssl-dev bc:bc bison:bison flex:flex xz:xz-utils
pahole:pahole python3:python3 rustfmt:rustfmt"

# Parts of the source that no module in Rust needs; Kconfig and Makefiles stay.
LEFT_OUT=(drivers/'*.c' drivers/{gpu,net}/'*.h' {fs,mm,net,sound,samples}/'*.c' Documentation/'*/*.[rsyt]*'
	tools/{testing,perf} arch/'*.dts' arch/'*.dtsi')

is_current() { # TREE: whether it was made for these very headers
	[ -e "$1/.config" ] && cmp -s "$1/.config" "$headers/.config" &&
		cmp -s "$1/Module.symvers" "$headers/Module.symvers"
}

# source_archive: prints the file that the installed source package of just this kernel has.
source_archive() {
	local series package version found
	series=$(sed -E 's/^([0-9]+\.[0-9]+).*/\1/' <<<"$release")
	package=linux-source-$series
	version=$(dpkg-query -W -f '${Version}' "linux-headers-$release" 2>/dev/null) ||
		die "$headers lacks the metadata of the kernel's Rust crates, and is no package of Debian's"
	found=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null) || true
	[ "$found" = "$version" ] && [ -e "/usr/src/$package.tar.xz" ] ||
		die "the source of kernel $release is not installed; apt install $package=$version"
	echo "/usr/src/$package.tar.xz"
}

check_tools() {
	local pair missing=
	for pair in $TREE_NEEDS; do
		[ -e "${pair%:*}" ] || command -v "${pair%:*}" >/dev/null || missing+=" ${pair#*:}"
	done
	[ -e "$(rustc --print sysroot)/lib/rustlib/src/rust/library/core/src/lib.rs" ] || missing+=" rust-src"
	[ -z "$missing" ] || die "tools are missing; apt install$missing"
}

# trim SOURCE TREE: copies what modules need, 250 MB of 1 GB. The kernel's own script does not know of Rust.
trim() {
	local arch
	arch=$(sed -n 's/^override ARCH = //p' "$headers/.kernelvariables")
	(
		cd "$1"
		srctree=. SRCARCH=$arch CC=gcc HOSTCC=gcc sh scripts/package/install-extmod-build "$2"
		find rust \( -name '*.rmeta' -o -name 'lib*.so' -o -name 'generated_arch_*.rs' \) -print0 |
			tar -c --null -T - | tar -x -C "$2"
	)
	find "$2/rust" -name '*.so' -exec strip -g {} +
	cp "$headers/.config" "$headers/.kernelvariables" "$2/"
}

# make_tree: under another name until it is whole; whatever is left of others goes.
make_tree() {
	local archive work=$TREES/new.$$ kernel
	archive=$(source_archive)
	check_tools
	mkdir -p "$TREES"
	for kernel in "$TREES"/*; do
		[ -e "/lib/modules/${kernel##*/}" ] || rm -rf "$kernel"
	done
	# shellcheck disable=SC2064
	trap "rm -rf '$work'; rmdir '$TREES' 2>/dev/null || true" EXIT
	mkdir -p "$work/source" "$work/tree"
	echo "Building the metadata of the Rust crates of kernel $release, once"
	tar -x -f "$archive" -C "$work/source" --strip-components=1 --anchored \
		"${LEFT_OUT[@]/#/--exclude=$(basename "$archive" .tar.xz)/}" ||
		die "cannot unpack $archive to $TREES, which takes 1 GB"
	"$SCRIPTS/rust-metadata.sh" "$work/source" "$headers"
	trim "$work/source" "$work/tree"
	rm -rf "${TREES:?}/$release"
	mv "$work/tree" "$TREES/$release"
}

[ $# -ge 2 ] || die "usage: dkms-build.sh RELEASE HEADERS [MAKE-ARGUMENT...]"
release=$1 headers=$2
shift 2
# DKMS names a compiler; the trees know it as well.
unset CC KERNEL_CC
"$SCRIPTS/kernel-needs.sh" "$headers"
tree=$headers
if [ ! -e "$headers/rust/libkernel.rmeta" ]; then
	tree=$TREES/$release
	is_current "$tree" || make_tree
fi
make KDIR="$tree" "$@"
