#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The life of the package for DKMS in a machine's root, without its kernel running: bad input, installation, upgrade,
# new headers, removal. Run there by scripts/release/check-package.sh.

. /srv/lib.sh

NEEDS=/tmp/needs/scripts/kernel/kernel-needs.sh
BUILD=/lib/modules/$RELEASE/build

# kernel_with NAME SED: a tree of the same kernel, with other options.
kernel_with() {
	local tree=/tmp/$1
	mkdir -p "$tree/include/config"
	cp -r "$BUILD/include/generated" "$tree/include/"
	cp "$BUILD/Module.symvers" "$tree/"
	sed "$2" "$BUILD/include/config/auto.conf" >"$tree/include/config/auto.conf"
}

bad_kernels() {
	local newer
	mkdir -p /tmp/needs
	dpkg-deb --fsys-tarfile "$(deb ferroce-dkms "$NEW")" | tar -x -C /tmp/needs --strip-components=4
	check "this kernel has what is needed" "$NEEDS" "$BUILD"
	kernel_with no-infiniband '/^CONFIG_INFINIBAND=/d'
	check "so is one without InfiniBand" says "$NEEDS" /tmp/no-infiniband -- 'was built without CONFIG_INFINIBAND;'
	kernel_with no-symvers ''
	rm /tmp/no-symvers/Module.symvers
	check "and a tree without Module.symvers" says "$NEEDS" /tmp/no-symvers -- 'has no Module.symvers'
	kernel_with lto '$aCONFIG_LTO_CLANG=y'
	check "and one built with clang's LTO" says "$NEEDS" /tmp/lto -- 'has CONFIG_LTO_CLANG, for which'
	kernel_with kasan '$aCONFIG_KASAN=y'
	check "and one with KASAN by gcc" says "$NEEDS" /tmp/kasan -- 'has CONFIG_KASAN and was built by gcc'
	kernel_with old ''
	sed -i 's/UTS_RELEASE ".*"/UTS_RELEASE "6.1.0-50-amd64"/' /tmp/old/include/generated/utsrelease.h
	check "and an old one" says "$NEEDS" /tmp/old -- 'kernel 6.1.0-50-amd64 is older than'
	check "no tree at all gives a line, too" says "$NEEDS" /nowhere -- 'apt install linux-headers-'
}

# tool NAME TEXT: puts a program in the place of another, which stands for an old or a broken one.
tool() {
	mkdir -p /tmp/tools
	printf '#!/bin/sh\n%s\n' "$2" >"/tmp/tools/$1"
	chmod +x "/tmp/tools/$1"
}
with_tools() { PATH=/tmp/tools:$PATH "$@"; }

bad_tools() {
	local library
	tool rustc 'case "$*" in *version*) echo "rustc 1.84.0" ;; *) exec /usr/bin/rustc "$@" ;; esac'
	check "an old rustc is refused" says with_tools "$NEEDS" "$BUILD" -- 'rustc 1.84.0 is older than 1.85.0;'
	rm /tmp/tools/rustc
	library=$(rustc --print sysroot)/lib/rustlib/src
	mv "$library" "$library.away"
	check "so is one without rust-src" says "$NEEDS" "$BUILD" -- 'apt install rust-src'
	mv "$library.away" "$library"
	tool bindgen 'echo "Unable to find libclang" >&2; exit 101'
	check "and bindgen without libclang" says with_tools "$NEEDS" "$BUILD" -- 'apt install libclang-dev'
	rm /tmp/tools/bindgen
	mv /tmp/needs/rust/linux /tmp/needs/rust/away
	check "sources that are not whole say so" \
		says /tmp/needs/scripts/kernel/rust-tree.sh -- 'install the package again'
	tar -cf /tmp/other.tar -C /tmp/needs Makefile rust
	export RUST_TREE=/tmp/other.tar
	check "and so does a file that is no source of Linux" \
		says /tmp/needs/scripts/kernel/rust-tree.sh -- 'is no archive of the source of Linux'
	unset RUST_TREE
	check "of which nothing is left" test -z "$(find /tmp/needs/rust -maxdepth 1 -name 'linux*')"
	mv /tmp/needs/rust/away /tmp/needs/rust/linux
}

# A build for which there is no room ends the installation, and the next one succeeds.
no_room() {
	mkdir -p /var/lib/dkms
	mount -t tmpfs -o size=8m none /var/lib/dkms
	check "without room the installation fails" fails install_dkms "$OLD"
	check "and says why" grep -qi "no space left\|no room" "$SAID" /var/lib/dkms/ferroce/*/build/make.log
	umount -l /var/lib/dkms
	check "with room, it goes on" apt install -f
}

installation() {
	check "the package is installed" installed ferroce-dkms "$OLD"
	check "and its module" dkms_has_only "$OLD"
	check "which says its version" version_is "$OLD"
	check "and describes its parameters" described
	check "and is signed with the key of DKMS" signed_by_dkms
	check "rdma link add finds it" resolves rdma-link-ferroce
	check "for both of its link types" resolves rdma-link-ferroce_direct
	for module in ib_core udp_tunnel ip6_udp_tunnel ib_uverbs; do
		check "modprobe brings $module" brings "$module"
	done
	check "the manual is found" man -w ferroce
	check "and has no errors" mandoc -Tlint -Wwarning "$(man -w ferroce)"
	check "the service is well-formed" systemd-analyze verify ferroce@eth0.service
}

# What is removed with a kernel comes back from a copy, which a build would take minutes for.
kernel_goes() {
	cp -a /var/lib/dkms /tmp/dkms
	cp -a "/lib/modules/$RELEASE/updates" /tmp/updates
	check "when the kernel goes, its module goes" /etc/kernel/prerm.d/dkms "$RELEASE"
	check "which leaves no file" gone "/lib/modules/$RELEASE/updates/dkms"
	cp -a /tmp/dkms/. /var/lib/dkms/
	mkdir -p "/lib/modules/$RELEASE/updates"
	cp -a /tmp/updates/. "/lib/modules/$RELEASE/updates/"
	check "and comes back with it" dkms_has_only "$OLD"
}

# The upgrade comes while the kernel has no headers, as where apt takes the package before them.
upgrade() {
	mv "$BUILD" "$BUILD.away"
	check "without headers, an upgrade succeeds" install_dkms "$NEW"
	check "and says that nothing was built" grep -i 'no kernel headers were found' "$SAID"
	check "and removes the old sources" gone "/usr/src/ferroce-$OLD" "/var/lib/dkms/ferroce/$OLD"
	check "and the old module" gone "/lib/modules/$RELEASE/updates/dkms"
	mv "$BUILD.away" "$BUILD"
	check "when headers come, the module is built" /etc/kernel/header_postinst.d/dkms "$RELEASE"
	check "and installed" dkms_has_only "$NEW"
	check "and is of the new version" version_is "$NEW"
}

snapshot /tmp/before
bad_kernels
bad_tools
no_room
installation
kernel_goes
upgrade
removal_of ferroce-dkms ferroce-common
echo "1..$NUMBER"
