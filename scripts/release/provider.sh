#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# provider.sh: builds the user-space provider in tools/provider, and prints a directory of the cache that has it: the
# library under the name that each release of libibverbs looks for, and ferroce.driver, which makes libibverbs load it.
# PROVIDER_ARCH=arm64 builds it for that architecture.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

# The numbers of libibverbs's private interface, as in tools/provider/src/abi/version.rs.
NUMBERS=(34 57 59 64 65)

case ${PROVIDER_ARCH:=amd64} in
amd64) target=x86_64-unknown-linux-gnu ;;
arm64) target=aarch64-unknown-linux-gnu TOOLCHAIN=$SUITE-arm64-programs ;;
*) die "PROVIDER_ARCH is amd64 or arm64, not '$PROVIDER_ARCH'" ;;
esac
[ "$PROVIDER_ARCH" = amd64 ] || export TOOLCHAIN CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
source=$SRC/tools/provider
inputs=$(cd "$source" && sha256sum <"$SRC/scripts/release/provider.sh" &&
	find Cargo.* src -type f -exec sha256sum {} + | sort)
dir=$CACHE/provider-$(key "$inputs" "${NUMBERS[*]}" "${PROVIDER_ARCH#amd64}")
if [ ! -e "$dir/libferroce.so" ]; then
	say CARGO "the provider for $PROVIDER_ARCH"
	new=$dir.$$
	trap 'rm -rf "$new"' EXIT
	mkdir "$new"
	cd "$source"
	# The same bytes wherever the sources are.
	FERROCE_BIND=$new "$SRC/scripts/root/in-root.sh" unshare --mount --propagation private bash -c '
		set -e
		mount -t tmpfs ferroce /mnt
		mkdir /mnt/provider
		mount --bind "$1" /mnt/provider
		cd /mnt/provider
		cargo build --quiet --release --offline --target "$3" --target-dir "$2/target"' \
		provider "$source" "$new" "$target" >&2
	mv "$new/target/$target/release/libferroce.so" "$new"
	rm -rf "$new/target"
	# The library lives in the processes of others: a panic would be a crash of theirs.
	symbols=$("$SRC/scripts/root/in-root.sh" llvm-nm "$new/libferroce.so")
	if panics=$(grep -E 'panicking|unwrap_failed|expect_failed|_index_[a-z_]*fail' <<<"$symbols"); then
		die "the provider may panic: $panics"
	fi
	for number in "${NUMBERS[@]}"; do
		ln -s libferroce.so "$new/libferroce-rdmav$number.so"
	done
	echo "driver ferroce" >"$new/ferroce.driver"
	[ -e "$dir" ] || mv -T "$new" "$dir"
fi
hand_out "$dir"
