#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-package.sh: what the packages hold works. modprobe finds the module and what it needs, by
# the name that `rdma link add` asks for as well; and the sources for DKMS build by themselves.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

work=$(mktemp -d "$SRC/build/package.XXXXXX")
trap 'rm -rf "$work"' EXIT
IN=$SRC/scripts/in-root.sh
kernel=$("$SRC/scripts/kernel.sh")
release=$(<"$kernel/release")
"$SRC/scripts/package.sh" "$work" >"$work/packages"

number=0
check() { # NAME COMMAND...
	local name=$1
	shift
	number=$((number + 1))
	if "$@" </dev/null >"$work/log" 2>&1; then
		echo "ok $number $name"
	else
		echo "not ok $number $name"
		sed 's/^/# /' "$work/log"
	fi
}

unpack() { "$IN" dpkg-deb -x "$(grep "/$1" "$work/packages")" "$work/$2"; } # NAME DIRECTORY
resolves() {
	local machine=$work/machine
	"$IN" modprobe -d "$machine" -C "$machine/usr/lib/modprobe.d" -S "$release" --show-depends "$1" >"$work/needs"
} # MODULE
needs() { grep -q "/$1.ko" "$work/needs"; } # MODULE

check "the module's package unpacks" unpack ferroce-modules machine
cp -al "$kernel/modules/$release/." "$work/machine/usr/lib/modules/$release/"
ln -s usr/lib "$work/machine/lib"
check "depmod knows it" "$IN" depmod -b "$work/machine" "$release"
check "rdma link add finds it" resolves rdma-link-ferroce
check "modprobe finds it" resolves ferroce
for module in ib_core udp_tunnel ip6_udp_tunnel ferroce ib_uverbs; do
	check "modprobe brings $module" needs "$module"
done
check "it is what was built" cmp "$SRC/ferroce.ko" "$work/machine/usr/lib/modules/$release/updates/ferroce.ko"

check "the configuration for rdma_rxe unpacks" unpack ferroce-as-rxe machine
for name in rdma_rxe rdma-link-rxe; do
	check "with it, modprobe finds $name" resolves "$name"
	check "which is ferroce, in its place" grep -q '/ferroce.ko as_rxe=1' "$work/needs"
done

read -ra args <<<"$(make_arguments stock "$kernel/build")"
check "the package of sources unpacks" unpack ferroce-dkms sources
check "they build by themselves" "$IN" make -C "$work"/sources/usr/src/ferroce-* "KDIR=$kernel/build" "${args[@]}"
check "and give the module" test -e "$work"/sources/usr/src/ferroce-*/rust/ferroce.ko
echo "1..$number"
