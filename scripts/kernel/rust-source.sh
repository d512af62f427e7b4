#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rust-source.sh: prints an archive of the Rust support of the newest kernel (KERNEL_SERIES in scripts/versions), out of
# Debian's package of its source: what rust-tree.sh needs, 5 MB of 1.6 GB.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"
. "$SRC/scripts/kernel/archive.sh"

parts=$("$SRC/scripts/kernel/rust-tree.sh" --parts)
out=$CACHE/rust-$KERNEL_SERIES-$(key "$parts").tar
if [ ! -e "$out" ]; then
	lock "rust-$KERNEL_SERIES"
	if [ ! -e "$out" ]; then
		ARCH=amd64
		read -r _ ARCHIVE _ <<<"$(origin_of "$KVER_DEFAULT")"
		package=$(source_of "$KVER_DEFAULT")
		archive_lists
		version=$(archive_apt apt-cache madison "$package" | awk -F' *[|] *' '{ print $2; exit }')
		[ -n "$version" ] ||
			die "$ARCHIVE does not hold $package; give the source of Linux $KERNEL_SERIES by RUST_TREE="
		say RUST "the Rust support of Linux $KERNEL_SERIES, out of $package, about 20 s"
		work=$(mktemp -d "$CACHE/rust.XXXXXX")
		trap 'rm -rf "$work"' EXIT
		kept=$(source_package "$package" "$version")
		"$SRC/scripts/root/in-root.sh" dpkg --fsys-tarfile "$kept"/*.deb | tar -x -O --wildcards '*.tar.xz' |
			xz -dc -T0 | tar -x -C "$work" --wildcards --no-wildcards-match-slash $parts
		tar -c -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -f "$out.new" .
		mv "$out.new" "$out"
	fi
fi
echo "$out"
