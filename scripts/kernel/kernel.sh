#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernel.sh [-k KERNEL]: makes a kernel, and a tree to build Rust modules against. Those other than
# stock (the default) are scripts/kernel/own-kernel.sh's; this is about Debian's. Prints the directory, which holds
#
#	build/    the tree for `make M=`: .config, Module.symvers, rust/*.rmeta
#	vmlinuz   the image
#	modules/  lib/modules/VERSION of the stock kernel, complete
#	release   what `uname -r` says there
#
# Debian's headers package lacks the Rust metadata. scripts/kernel/rust-metadata.sh builds it, and compares it with the
# stock image's before the tree is handed out.
#
# KVER=7.3.4+deb13 chooses a version and FLAVOUR=cloud-amd64 a flavour. Without KVER the kernel that runs here is taken
# if it is one of Debian's that we support, else the pinned default of scripts/versions or, once the archive has dropped
# that, the newest complete release of its series. KVER=sid takes the newest that the archive of that name holds.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"
. "$SRC/scripts/kernel/archive.sh"

IN=$SRC/scripts/root/in-root.sh

# find_archive KVER: sets ARCHIVE to the one that holds it completely; fails if none does.
find_archive() {
	local origin held=
	origin=$(origin_of "$1")
	[ -n "$origin" ] || die "kernel '$1' is not Debian's: KVER looks like $KVER_DEFAULT, or is one of" \
		"$(archives | tr '\n' ' ')"
	for ARCHIVE in ${origin#* }; do
		archive_lists
		[ -z "$(package_version "$1" "$2")" ] || return 0
		# Newer lists may have it.
		if [ -z "$(find "$CACHE/apt-$ARCHIVE-$ARCH/updated" -mmin -10)" ]; then
			archive_update
			[ -z "$(package_version "$1" "$2")" ] || return 0
		fi
		held+=" $ARCHIVE: $(candidates '' "$2" | tr '\n' ' ')"
	done
	die "no archive holds kernel $1-$2 completely (source, headers, image, modules)." \
		"Set KVER to one that is there;$held"
}

archives() { cut -d ' ' -f 3- <<<"$KERNEL_MARKS" | tr ' ' '\n' | sort -u; }

# running: prints "KVER FLAVOUR" of the kernel that runs here, if that is one of Debian's and new enough.
running() {
	uname -r | sed -n -E 's/^([0-9.]+\+deb[0-9]+)-(.*)$/\1 \2/p' | while read -r version flavour; do
		if new_enough "$version" && [ -n "$(origin_of "$version")" ]; then echo "$version $flavour"; fi
	done
}

# say_running: tells, in a line, if the kernel that runs here is not the one that is built for without KVER, and what to
# do about it.
say_running() {
	local release said tree
	release=$(uname -r)
	tree=/lib/modules/$release/build
	[ -z "$(running)" ] || return 0
	said=$("$SRC/scripts/kernel/kernel-needs.sh" "$tree" 2>&1) && said="for this one: make KDIR=$tree"
	echo "ferroce: this builds for kernel $KVER_DEFAULT, not for the running $release: ${said#ferroce: }" >&2
}

new_enough() { # KVER
	[ "$(printf '%s\n' "$KVER_MIN" "${1%%+*}" | sort -V | head -n 1)" = "$KVER_MIN" ]
}

# wanted: sets VERSION and FLAVOUR to what the user asks for.
wanted() {
	local here name
	VERSION=${KVER-}
	if [ -z "$VERSION" ]; then
		here=$(running)
		VERSION=${here% *}
		[ -z "$here" ] || FLAVOUR=${FLAVOUR:-${here#* }}
	elif [[ $VERSION == *-* && $VERSION != *backports ]]; then
		FLAVOUR=${VERSION#*-}
		VERSION=${VERSION%%-*}
	fi
	FLAVOUR=$(flavour)
	ARCH=$(architecture_of "$FLAVOUR")
	for name in $(archives); do
		[ "$VERSION" = "$name" ] || continue
		ARCHIVE=$name
		archive_lists
		VERSION=$(newest '' "$FLAVOUR")
		[ -n "$VERSION" ] || die "$name holds no kernel of flavour $FLAVOUR completely"
		return
	done
	[ -z "$VERSION" ] || [[ $VERSION =~ ^[0-9]+\.[0-9]+(\.[0-9]+)?(\+[a-z0-9]+)?$ ]] ||
		die "KVER looks like $KVER_DEFAULT, or is one of $(archives | tr '\n' ' '), not '$VERSION'"
}

# default: sets VERSION to the pinned one, or to what takes its place. That answer is kept, so that a build without
# network keeps working and two builds agree.
default() {
	local kept=$CACHE/kernel-instead-of-$KVER_DEFAULT-$FLAVOUR
	VERSION=$KVER_DEFAULT
	[ ! -e "$(directory)/release" ] || return 0
	if [ -e "$kept" ]; then
		VERSION=$(<"$kept")
		[ ! -e "$(directory)/release" ] || return 0
	fi
	read -r _ ARCHIVE _ <<<"$(origin_of "$KVER_DEFAULT")"
	archive_update
	VERSION=$KVER_DEFAULT
	[ -z "$(package_version "$VERSION" "$FLAVOUR")" ] || return 0
	VERSION=$(newest "$KERNEL_SERIES" "$FLAVOUR")
	[ -n "$VERSION" ] ||
		die "$ARCHIVE holds no complete $KERNEL_SERIES kernel (source, headers, image, modules);" \
			"set KVER= to a version it holds, or raise KERNEL_SERIES in scripts/versions"
	say KERNEL "$KVER_DEFAULT is not in the archive, taking $VERSION"
	echo "$VERSION" >"$kept"
}

# directory: where the kernel is, or will be.
directory() {
	case $FLAVOUR in
	amd64) echo "$CACHE/kernel-$VERSION" ;;
	*) echo "$CACHE/kernel-$VERSION-$FLAVOUR" ;;
	esac
}

# Of the kernel's tests, those of RDMA (rdma, kselftest) and of RDS over it (net/rds, net/lib/py) are run here.
NOT_TESTS=(--exclude='*/tools/testing/[!s]*' --exclude='*/selftests/[!knr]*' --exclude='*/selftests/k[!s]*'
	--exclude='*/selftests/r[!d]*' --exclude='*/selftests/rds' --exclude='*/selftests/n[!e]*'
	--exclude='*/selftests/net[!/]*' --exclude='*/selftests/net/[!lr]*' --exclude='*/selftests/net/l[!i]*'
	--exclude='*/selftests/net/lib[!/]*' --exclude='*/selftests/net/lib/[!p]*' --exclude='*/selftests/net/r[!d]*')

# unpack_headers RELEASE DIRECTORY: of a kernel that was built without Rust: what the module is built against is the
# headers package itself. It names its other half by the place where Debian would install it.
unpack_headers() {
	local deb
	say UNPACK "kernel $1, about 10 s"
	for deb in "$2"/debs/*.deb; do "$IN" dpkg -x "$deb" "$2/x"; done
	mv "$2"/x/boot/vmlinuz* "$2/vmlinuz"
	mkdir -p "$2/modules" "$2/headers"
	mv "$(find "$2/x" -path "*lib/modules/$1" -type d ! -path '*/usr/src/*' | head -n 1)" "$2/modules/$1"
	rm -rf "$2/modules/$1"/{build,source,vmlinuz*}
	mv "$2/x/usr" "$2/headers/"
	sed -i "s|/usr/src/|$2/headers&|" "$2/headers/usr/src/linux-headers-$1/Makefile"
	ln -s "headers/usr/src/linux-headers-$1" "$2/build"
	rm -rf "$2/x" "$2/debs"
}

# add_tests DIRECTORY: for trees unpacked by a version of this script that left them out.
add_tests() {
	find_archive "$VERSION" "$FLAVOUR"
	fetch "$VERSION" "$FLAVOUR" "$1/debs"
	mkdir -p "$1/x"
	"$IN" dpkg --fsys-tarfile "$1"/debs/linux-source-*.deb | tar -x -C "$1/x" --wildcards '*.tar.xz'
	xz -dc -T0 "$1"/x/usr/src/linux-source-*.tar.xz | tar -x -C "$1/build" --strip-components=1 \
		"${NOT_TESTS[@]}" --wildcards '*/tools/testing/selftests'
	rm -rf "$1/x" "$1/debs"
}

unpack() { # RELEASE DIRECTORY
	local deb image arches='[!xu]*'
	[ "$ARCH" = amd64 ] || arches='[!axu]*'
	say UNPACK "kernel $1, about 10 s"
	for deb in "$2"/debs/linux-{headers,binary,modules}*.deb; do
		"$IN" dpkg -x "$deb" "$2/x"
	done
	# Usrmerge or not: both places have been used.
	image=$(find "$2/x" -name 'vmlinuz*' -type f | head -n 1)
	mv "$image" "$2/vmlinuz"
	mkdir -p "$2/modules"
	mv "$(find "$2/x" -path "*lib/modules/$1" -type d | head -n 1)" "$2/modules/$1"
	rm -rf "$2/modules/$1"/{build,source,vmlinuz*}
	"$IN" dpkg --fsys-tarfile "$2"/debs/linux-source-*.deb |
		tar -x -C "$2/x" --wildcards '*.tar.xz'
	mkdir -p "$2/build"
	# What no module build reads, by bulk; Kconfig and Makefiles stay.
	xz -dc -T0 "$2"/x/usr/src/linux-source-*.tar.xz | tar -x -C "$2/build" --strip-components=1 \
		--wildcards --exclude="*/arch/$arches/*.[chSd]*" --exclude='*/arch/xtensa' \
		--exclude='*/drivers/gpu/drm/*.[ch]' --exclude='*/drivers/media/*.[ch]' \
		--exclude='*/sound/*.[ch]' --exclude='*/Documentation/*/*.[rsyt]*' \
		--exclude='*/tools/perf' "${NOT_TESTS[@]}"
}

prepare() { # RELEASE DIRECTORY
	local headers=$2/x/usr/src/linux-headers-$1 log=$2/prepare.log said
	said=$("$IN" "$SRC/scripts/kernel/kernel-needs.sh" "$headers" 2>&1) ||
		die "${said#ferroce: }; or choose another KVER"
	say RUST "the kernel's Rust crates for $1, about 80 s on 2 cores"
	"$IN" "$SRC/scripts/kernel/rust-metadata.sh" "$2/build" "$headers" </dev/null >"$log" 2>&1 ||
		{ tail -n 20 "$log" >&2; die "see $log"; }
	rm -rf "$2/x" "$2/debs"
}

case ${1-}${2-} in
--running)
	say_running
	exit
	;;
'' | -kstock) ;;
-k*)
	# It builds in the background.
	stop_with_children
	"$SRC/scripts/kernel/own-kernel.sh" "$2" &
	wait $!
	exit
	;;
*) die "usage: kernel.sh [-k KERNEL]" ;;
esac
wanted
[ -n "$VERSION" ] || default
new_enough "$VERSION" || die "kernel $VERSION is older than $KVER_MIN, the lowest supported"
release=$VERSION-$FLAVOUR
dir=$(directory)
TOOLCHAIN=$(toolchain_of "$release")
export TOOLCHAIN
# needs_tests: a tree of the source, without tests.
needs_tests() { [ ! -e "$dir/headers" ] && [ ! -d "$dir/build/tools/testing/selftests/net/rds" ]; }
if [ ! -e "$dir/release" ] || needs_tests; then
	lock "kernel-$release"
	if [ ! -e "$dir/release" ]; then
		find_archive "$VERSION" "$FLAVOUR"
		rm -rf "$dir"
		need_room 1800 "kernel $release"
		fetch "$VERSION" "$FLAVOUR" "$dir/debs"
		case $release in
		6.*) unpack_headers "$release" "$dir" ;;
		*)
			unpack "$release" "$dir"
			prepare "$release" "$dir"
			;;
		esac
		echo "$release" >"$dir/release.new"
		mv "$dir/release.new" "$dir/release"
		say KERNEL "$release ready in $dir"
	fi
	! needs_tests || add_tests "$dir"
fi
echo "$dir"
