#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# provider.sh: builds the user-space provider in tools/provider, and prints a directory of the cache that has it: the
# library under the name that each release of libibverbs looks for, and ferroce.driver, which makes libibverbs load it.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

# The numbers of libibverbs's private interface, as in tools/provider/src/abi/version.rs.
NUMBERS=(34 57 59 64 65)

source=$SRC/tools/provider
inputs=$(cd "$source" && sha256sum <"$SRC/scripts/provider.sh" && find Cargo.* src -type f -exec sha256sum {} + | sort)
dir=$CACHE/provider-$(key "$inputs" "${NUMBERS[*]}")
if [ ! -e "$dir/libferroce.so" ]; then
	say CARGO "the provider"
	new=$dir.$$
	trap 'rm -rf "$new"' EXIT
	mkdir "$new"
	cd "$source"
	# The same bytes wherever the sources are.
	FERROCE_BIND=$new "$SRC/scripts/in-root.sh" unshare --mount --propagation private bash -c '
		set -e
		mount -t tmpfs ferroce /mnt
		mkdir /mnt/provider
		mount --bind "$1" /mnt/provider
		cd /mnt/provider
		cargo build --quiet --release --offline --target-dir "$2/target"' provider "$source" "$new" >&2
	mv "$new/target/release/libferroce.so" "$new"
	rm -rf "$new/target"
	# The library lives in the processes of others: a panic would be a crash of theirs.
	if panics=$(nm "$new/libferroce.so" | grep -E 'panicking|unwrap_failed|expect_failed|_index_[a-z_]*fail'); then
		die "the provider may panic: $panics"
	fi
	for number in "${NUMBERS[@]}"; do
		ln -s libferroce.so "$new/libferroce-rdmav$number.so"
	done
	echo "driver ferroce" >"$new/ferroce.driver"
	[ -e "$dir" ] || mv -T "$new" "$dir"
fi
hand_out "$dir"
