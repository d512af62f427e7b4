#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The life of the packages in a machine's root, without its kernel running: bad input, installation, upgrade, a new
# kernel, removal. Run there by scripts/check-package.sh.

. /srv/lib.sh

NEEDS=/tmp/needs/scripts/kernel-needs.sh
BUILD=/lib/modules/$RELEASE/build

# kernel_with NAME SED: a tree of the same kernel, with other options.
kernel_with() {
	local tree=/tmp/$1
	mkdir -p "$tree/include/config"
	cp -r "$BUILD/include/generated" "$tree/include/"
	sed "$2" "$BUILD/include/config/auto.conf" >"$tree/include/config/auto.conf"
}

bad_kernels() {
	local newer
	mkdir -p /tmp/needs
	dpkg-deb --fsys-tarfile "$(deb ferroce-dkms "$NEW")" | tar -x -C /tmp/needs --strip-components=4
	check "this kernel has what is needed" "$NEEDS" "$BUILD"
	kernel_with no-rust '/^CONFIG_RUST=/d'
	check "a kernel without Rust is refused" says "$NEEDS" /tmp/no-rust -- 'was built without CONFIG_RUST;'
	kernel_with no-infiniband '/^CONFIG_INFINIBAND=/d'
	check "so is one without InfiniBand" says "$NEEDS" /tmp/no-infiniband -- 'was built without CONFIG_INFINIBAND;'
	kernel_with other-rustc 's/^CONFIG_RUSTC_VERSION=.*/CONFIG_RUSTC_VERSION=109701/'
	check "and one of another rustc" says "$NEEDS" /tmp/other-rustc -- 'with rustc 1.97.1, and this machine has 1.'
	kernel_with old ''
	sed -i 's/UTS_RELEASE ".*"/UTS_RELEASE "6.12.48+deb13-amd64"/' /tmp/old/include/generated/utsrelease.h
	check "and an old one" says "$NEEDS" /tmp/old -- 'kernel 6.12.48+deb13-amd64 is older than'
	check "no tree at all gives a line, too" says "$NEEDS" /nowhere -- 'apt install linux-headers-'
}

# The source package of another version, or none, ends the installation with the command that mends it.
source_is_missing() {
	local source
	source=$(ls /usr/src/linux-source-*.tar.xz)
	mv "$source" "$source.away"
	check "without the kernel's source the installation fails" fails install_dkms "$OLD"
	check "and its last words tell how to get it" \
		grep -q "^ferroce: .*; apt install linux-source-[0-9.]*=[0-9]" "$SAID"
	check "and nothing is left in /var/lib" gone /var/lib/ferroce
	mv "$source.away" "$source"
	use_tree
	check "with it, it goes on" apt install -f
}

installation() {
	check "the package is installed" installed ferroce-dkms "$OLD"
	check "and its module" dkms_has_only "$OLD"
	check "which says its version" version_is "$OLD"
	check "and describes its parameters" described
	check "and is signed with the key of DKMS" signed_by_dkms
	check "rdma link add finds it" resolves rdma-link-ferroce
	for module in ib_core udp_tunnel ip6_udp_tunnel ib_uverbs; do
		check "modprobe brings $module" brings "$module"
	done
	check "the kernel's tree is kept" test -e "/var/lib/ferroce/$RELEASE/rust/libkernel.rmeta"
	check "and nothing else" test "$(ls /var/lib/ferroce)" = "$RELEASE"
	[ -e /srv/tree.tar ] || tar -cf /srv/tree.new -C /var/lib/ferroce "$RELEASE"
	check "the manual is found" man -w ferroce
	check "and has no errors" mandoc -Tlint -Wwarning "$(man -w ferroce)"
	check "the service is well-formed" systemd-analyze verify ferroce@eth0.service
}

upgrade() {
	touch /tmp/before-upgrade
	check "an upgrade succeeds" install_dkms "$NEW"
	check "it replaces the module" dkms_has_only "$NEW"
	check "by one of its own version" version_is "$NEW"
	check "and removes the old sources" gone "/usr/src/ferroce-$OLD" "/var/lib/dkms/ferroce/$OLD"
	check "and uses the kernel's tree again" test "/var/lib/ferroce/$RELEASE" -ot /tmp/before-upgrade
}

kernel_changes() {
	check "when the kernel goes, its module goes" /etc/kernel/prerm.d/dkms "$RELEASE"
	check "which leaves no file" gone "/lib/modules/$RELEASE/updates/dkms"
	check "when it comes, the module is built" /etc/kernel/postinst.d/dkms "$RELEASE"
	check "and installed" dkms_has_only "$NEW"
}

removal() { # PACKAGE...
	check "apt removes it" apt remove "$@"
	check "and the module" gone "/lib/modules/$RELEASE/updates"
	check "and what was built for the kernel" gone /var/lib/ferroce
	check "dpkg purges it" dpkg --purge "$@"
	snapshot /tmp/after
	check "no file is left" unchanged /tmp/before /tmp/after
}

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
	removal "ferroce-modules-$RELEASE" ferroce-common ferroce-as-rxe
}

snapshot /tmp/before
bad_kernels
source_is_missing
installation
upgrade
kernel_changes
removal ferroce-dkms ferroce-common
ready_made
echo "1..$NUMBER"
