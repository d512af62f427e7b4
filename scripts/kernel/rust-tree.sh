#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rust-tree.sh: makes rust/linux, the kernel's Rust support that is built into the module (see rust/bundled.mk), unless
# it is up to date. RUST_TREE=SOURCE says what of: a tree of Linux, or an archive of it as distributions and kernel.org
# have it; without it, scripts/kernel/rust-source.sh does. The packages of sources have rust/linux, and not that script.
#
# rust-tree.sh --parts prints the parts of an archive that are needed, as patterns of tar.

set -euo pipefail

# shellcheck source=scripts/versions
. "$(dirname "$0")/../versions"

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
		(cd "$1" && tar -c $PARTS 2>/dev/null) | tar -x -C "$2" ||
			die "$1 lacks parts of Linux $KERNEL_SERIES's Rust support"
		return
	fi
	first=$(tar -t -f "$1" 2>/dev/null | sed -n '2{p;q}') || true
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
[ $# -eq 0 ] || die "usage: rust-tree.sh [--parts]"
here=$(cd "$(dirname "$0")" && pwd -P)
rust=$(cd "$here/../../rust" && pwd -P)
bundled=$rust/bundled
out=$rust/linux
recipe=$(cat "$bundled/modules" "$bundled/kernel.patch" "$0" | sha256sum | cut -c1-16)
[ -z "${RUST_TREE-}" ] || [ -e "$RUST_TREE" ] || die "there is no source of Linux at $RUST_TREE"
[ -w "$rust" ] || [ -e "$out/made-from" ] || die "$(dirname "$bundled") cannot be written to; build in a copy"
# Without RUST_TREE any source will do.
wanted="$recipe ${RUST_TREE:+$(realpath "$RUST_TREE") $(stat -c '%s-%Y' "$RUST_TREE" 2>/dev/null || true)}"
[[ "$(cat "$out/made-from" 2>/dev/null)" != "$wanted"* ]] || exit 0
exec {lock}<"$bundled/modules"
flock "$lock"
[[ "$(cat "$out/made-from" 2>/dev/null)" != "$wanted"* ]] || exit 0
source=${RUST_TREE-}
if [ -z "$source" ]; then
	[ ! -x "$here/rust-source.sh" ] || command -v apt-get >/dev/null || command -v mmdebstrap >/dev/null ||
		die "set RUST_TREE= to the source of Linux $KERNEL_SERIES, as kernel.org has it"
	[ -x "$here/rust-source.sh" ] ||
		die "rust/linux is missing or not whole; install the package again, or set RUST_TREE= to Linux's source"
	source=$("$here/rust-source.sh")
fi
source=$(realpath "$source")
new=$out.new
trap 'rm -rf "$new"' EXIT
rm -rf "$new"
mkdir -p "$new"
unpack "$source" "$new"
mv "$new/scripts/generate_rust_target.rs" "$new/"
rmdir "$new/scripts"
# A tree may have been built.
find "$new/rust" -type f ! -name '*.rs' ! -name '*.c' ! -name bindgen_parameters -delete
find "$new/rust" -name '*generated*.rs' -delete
find "$new/rust" -type d -empty -delete
keep_modules "$new/rust/kernel"
patch=(patch)
command -v patch >/dev/null || patch=(busybox patch)
command -v "${patch[0]}" >/dev/null || die "patch is missing; apt install patch"
(cd "$new" && "${patch[@]}" -p1 <"$bundled/kernel.patch") >/dev/null ||
	die "rust/bundled/kernel.patch is not for $source; set RUST_TREE= to the source of Linux $KERNEL_SERIES"
# GNU patch leaves a copy where it has found lines at another place.
find "$new" -name '*.orig' -delete
echo "$recipe $source $(stat -c '%s-%Y' "$source")" >"$new/made-from"
rm -rf "$out"
mv "$new" "$out"
