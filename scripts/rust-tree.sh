#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rust-tree.sh SOURCE DIRECTORY: makes DIRECTORY the kernel's Rust support that is built into the module (see
# rust/bundled.mk), unless it was made from just this. SOURCE is the source of Linux: its tree, or an archive of it as
# distributions and kernel.org have it. rust-tree.sh --parts prints the parts of an archive that are needed, as
# patterns.
#
# Needs nothing but rust/bundled of this tree.

set -euo pipefail

die() {
	echo "ferroce: $*" >&2
	exit 1
}

# The crates that rust/bundled.mk builds, the program that makes the target of x86, and the licences.
PARTS="COPYING LICENSES scripts/generate_rust_target.rs rust/bindgen_parameters rust/bindings/lib.rs rust/build_error.rs
rust/compiler_builtins.rs rust/ffi.rs rust/helpers rust/kernel rust/macros rust/pin-init rust/proc-macro2 rust/quote
rust/syn rust/zerocopy/src rust/zerocopy-derive"

# unpack SOURCE DIRECTORY: the top directory of an archive has any name, and the names in it may begin with a dot.
unpack() {
	local first strip
	if [ -d "$1" ]; then
		[ -e "$1/rust/kernel/lib.rs" ] || die "$1 is no source of Linux: it has no rust/kernel/lib.rs"
		(cd "$1" && tar -c $PARTS) | tar -x -C "$2"
		return
	fi
	[ -e "$1" ] || die "there is no source of Linux at $1"
	first=$(tar -t -f "$1" 2>/dev/null | sed -n 2p) || true
	strip=1
	[[ $first != ./* ]] || strip=2
	tar -x -f "$1" -C "$2" --strip-components="$strip" --wildcards --no-wildcards-match-slash \
		$(parts | sed "s|^|$([ "$strip" = 1 ] || echo ./)|") 2>/dev/null ||
		die "$1 is no archive of the source of Linux, or of one without Rust"
}

parts() { printf '*/%s\n' $PARTS; }

# keep_modules DIRECTORY: drops the modules of the kernel crate that bundled/modules does not name, with their
# attributes in lib.rs.
keep_modules() {
	local file name
	awk 'NR == FNR { keep[$1]; next }
		/^#\[/ { attributes = attributes $0 "\n"; next }
		/^pub mod [a-z_0-9]+;$/ && !(substr($3, 1, length($3) - 1) in keep) { attributes = ""; next }
		{ printf "%s", attributes; attributes = ""; print }' "$bundled/modules" "$1/lib.rs" >"$1/kept"
	mv "$1/kept" "$1/lib.rs"
	for file in "$1"/*; do
		name=${file##*/}
		[ "$name" = lib.rs ] || grep -qxF "${name%.rs}" "$bundled/modules" || rm -r "$file"
	done
}

if [ "${1-}" = --parts ]; then
	parts
	exit
fi
[ $# -eq 2 ] || die "usage: rust-tree.sh SOURCE DIRECTORY"
bundled=$(cd "$(dirname "$0")/../rust/bundled" && pwd -P)
source=$(realpath "$1") out=$2
made_from=$({
	echo "$source" && stat -c '%s %Y' "$source"
	cat "$bundled/modules" "$bundled/kernel.patch" "$0"
} | sha256sum)
[ "$(cat "$out/made-from" 2>/dev/null)" != "$made_from" ] || exit 0
new=$out.new.$$
trap 'rm -rf "$new"' EXIT
mkdir -p "$new"
unpack "$source" "$new"
mv "$new/scripts/generate_rust_target.rs" "$new/"
rmdir "$new/scripts"
# A tree may have been built.
find "$new/rust" -type f ! -name '*.rs' ! -name '*.c' ! -name bindgen_parameters -delete
find "$new/rust" -name '*generated*.rs' -delete
find "$new/rust" -type d -empty -delete
keep_modules "$new/rust/kernel"
patch -s -d "$new" -p1 <"$bundled/kernel.patch" >&2 ||
	die "rust/bundled/kernel.patch does not apply to $source: take the source of a kernel of the series that" \
		"scripts/versions names"
echo "$made_from" >"$new/made-from"
rm -rf "$out"
mv "$new" "$out"
