#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Makes the toolchain root: a Debian of the very release that built the stock kernel, with its
# rustc, bindgen and gcc, and with the tools the tests run. Prints its path.
# `toolchain.sh suites` makes another, without compilers, with the programs of the big suites.
# TOOLCHAIN=registries makes one that builds and runs what scripts/root/registries.sh fetches, TOOLCHAIN=qemu one with
# virtual machines, TOOLCHAIN=firmware one with the firmware of PCs and what signs programs for it, TOOLCHAIN=docs one
# with Sphinx.
#
# TOOLCHAIN=sid makes one of another release, for the kernels that it has built, without the tools of the tests;
# TOOLCHAIN=trixie-arm64 one that compiles for arm64, trixie-arm64-programs one that also compiles programs for it,
# TOOLCHAIN=trixie-gcc12 one with an older compiler of C.
#
# `toolchain.sh guest` prints the root whose programs a guest runs: GUEST=bookworm chooses a release of Debian, and
# ARCH=arm64 an architecture. It is the toolchain root where that has them.
#
# A root lies in the cache under the hash of its package list, so a changed list makes a new root, and it gets its name
# only when it is whole. One of another architecture is unpacked and not configured: its programs cannot run here.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

suite=$SUITE
arch=amd64
case ${1-} in
'')
	case ${TOOLCHAIN:-$SUITE} in
	"$SUITE") packages=$(echo $PACKAGES_BUILD $PACKAGES_TEST) what="rustc and tools" ;;
	registries) packages=$(echo $PACKAGES_REGISTRIES) what="a newer rustc, and Python" ;;
	firmware) packages=$(echo $PACKAGES_FIRMWARE) what="the firmware of PCs" ;;
	qemu) packages=$(echo $PACKAGES_QEMU) what="QEMU" ;;
	docs) packages=$(echo $PACKAGES_DOCS) what="Sphinx" ;;
	*-arm64-programs)
		packages=$(echo $PACKAGES_BUILD $PACKAGES_ARM64 $PACKAGES_ARM64_PROGRAMS)
		what="rustc for programs of arm64" suite=${TOOLCHAIN%-arm64-programs}
		;;
	*-arm64) packages=$(echo $PACKAGES_BUILD $PACKAGES_ARM64) what="rustc for arm64" suite=${TOOLCHAIN%-arm64} ;;
	*-gcc12) packages=$(echo $PACKAGES_BUILD gcc-12) what="rustc and gcc 12" suite=${TOOLCHAIN%-gcc12} ;;
	*) packages=$(echo $PACKAGES_BUILD) what="rustc" suite=$TOOLCHAIN ;;
	esac
	;;
guest)
	suite=${GUEST:-$SUITE}
	arch=${ARCH:-amd64}
	case $suite-$arch in
	"$SUITE-amd64") packages=$(echo $PACKAGES_BUILD $PACKAGES_TEST) what="rustc and tools" ;;
	bookworm-* | trixie-* | forky-* | sid-*)
		packages=$(echo $PACKAGES_TEST kmod python3)
		what="the programs of guests"
		;;
	*) die "GUEST is bookworm, trixie, forky or sid, not '$GUEST'" ;;
	esac
	;;
suites) packages=$(echo $PACKAGES_TEST $PACKAGES_SUITES) what="the suites" ;;
*) die "usage: toolchain.sh [guest|suites]" ;;
esac
# The native architecture is not part of the name.
root=$CACHE/root-$(key "$suite" "$packages" "${arch#amd64}")

# stand_in ROOT: what the configuration of packages would have made, as far as tests need it.
stand_in() {
	local name
	as_root ln -sf mawk "$1/usr/bin/awk"
	for name in passwd group; do as_root cp "$1/usr/share/base-passwd/$name.master" "$1/etc/$name"; done
}

build() {
	local new=$root.new mirror name mib=1000 time="a minute" options=(--variant=minbase)
	case $what in rustc*) mib=2700 time="80 s" ;; esac
	# None of these is read in a root, and they are many small files.
	for name in man locale info; do options+=("--dpkgopt=path-exclude=/usr/share/$name/*"); done
	need_room "$mib" "a root with $what"
	say ROOT "Debian $suite with $what, about $time"
	# Without one, mmdebstrap takes its own default.
	mirror=$(debian_mirror)
	case $packages in *:arm64*) options+=(--architectures=amd64,arm64) ;; esac
	if [ "$arch" != amd64 ]; then
		options=(--variant=extract "--architectures=$arch" --include='?essential')
	fi
	debian_root "$new" "$CACHE/root.log" "$packages" "${options[@]}" "$suite" - ${mirror:+"$mirror"}
	if [ "$arch" = amd64 ]; then
		# Makes the places for what is mounted there, before several commands at once find none.
		FERROCE_CACHE=$CACHE as_root "$SRC/scripts/root/in-root.sh" --inside "$new" / true
	else
		stand_in "$new"
	fi
	as_root mv "$new" "$root"
}

if [ ! -d "$root" ]; then
	lock root
	[ -d "$root" ] || build
fi
hand_out "$root"
