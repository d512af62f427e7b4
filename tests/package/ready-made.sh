#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The life of the packages that build nothing, in a machine's root, without its kernel running. Run there by
# scripts/release/check-package.sh.

. /srv/lib.sh

ready_made() {
	check "the package of the module installs" \
		apt install "$(deb ferroce-common "$NEW")" "$(deb "ferroce-modules-$RELEASE" "$NEW")"
	check "it is the version that it says" version_is "$NEW"
	check "rdma link add finds that, too" resolves rdma-link-ferroce
	check "the settings for scripts of rdma_rxe install" apt install "$(deb ferroce-as-rxe "$NEW")"
	for name in rdma_rxe rdma-link-rxe; do
		check "with them, modprobe finds $name" resolves "$name"
		check "which is ferroce, in its place" takes_the_place "$name"
	done
	removal_of "ferroce-modules-$RELEASE" ferroce-common ferroce-as-rxe
}

# registers LIBRARY: it links with this libibverbs, and says nothing of its version. There are no devices here.
registers() { ! LD_PRELOAD=$1 ibv_devices 2>&1 | grep -E '^ferroce:|cannot be preloaded|symbol lookup error'; }

provider() {
	check "the provider installs" apt install "$(deb ferroce-provider "$NEW")"
	for library in /usr/lib/*/libibverbs/libferroce-rdmav34.so; do
		check "libibverbs takes it" registers "$library"
	done
	check "apt removes it" apt remove ferroce-provider
	check "with the file by which programs would miss it" gone /etc/libibverbs.d/ferroce.driver
	check "dpkg purges it" dpkg --purge ferroce-provider
	snapshot /tmp/after
	check "no file is left of it" unchanged /tmp/before /tmp/after
}

snapshot /tmp/before
ready_made
provider
echo "1..$NUMBER"
