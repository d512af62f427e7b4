#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernel.sh [-k stock|debug|kcsan|uml|umdebug]: makes a kernel, and a tree to build Rust modules against. Those other
# than stock are scripts/own-kernel.sh's; this is about Debian's. Prints the directory, which holds
#
#	build/    the tree for `make M=`: .config, Module.symvers, rust/*.rmeta
#	vmlinuz   the image
#	modules/  lib/modules/VERSION of the stock kernel, complete
#	release   what `uname -r` says there
#
# Debian's headers package lacks the Rust metadata. But rustc is deterministic: the same compiler
# on the same source and .config gives crates whose symbols are those of the stock image. This is
# checked, name by name, before the tree is handed out.
#
# KVER=7.3.4+deb13 chooses a version; without it the pinned default of scripts/versions is
# taken or, once the registry has dropped that, the newest complete release of the series.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

IN=$SRC/scripts/in-root.sh
APT=$CACHE/apt

# apt inside the root, with lists and sources of our own: the root itself stays as it was made.
apt() {
	local tool=$1
	shift
	"$IN" "$tool" -o Dir::State::lists="$APT/lists" -o Dir::Cache::archives="$APT" \
		-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
		-o Dir::Etc::sourcelist="$APT/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o APT::Sandbox::User=root "$@" </dev/null
}

update_lists() {
	mkdir -p "$APT/lists/partial" "$APT/partial"
	# From where the root itself came.
	sed -n "s|^deb \(\[[^]]*\] \)\?\([^ ]*\) $SUITE .*|deb \1\2 $BACKPORTS main|p" \
		"$("$SRC/scripts/toolchain.sh")/etc/apt/sources.list" | sed -n 1p >"$APT/sources.list"
	[ -s "$APT/sources.list" ] || die "the toolchain root names no archive of $SUITE"
	say APT "package lists of $BACKPORTS"
	apt apt-get -qq update >&2 || die "cannot fetch the package lists: $(<"$APT/sources.list")"
}

# package_version PACKAGE...: prints "NAME VERSION" of each that the registry holds.
package_versions() {
	apt apt-cache madison "$@" 2>/dev/null | awk -F' *[|] *' '{ gsub(/ /, "", $1); print $1, $2 }'
}

packages_of() { # KVER
	echo "linux-headers-$1-amd64 linux-binary-unsigned-$1-amd64 linux-modules-$1-amd64"
}

# debian_version KVER: the package version if image, modules, headers and the source of that same
# version are all there; else nothing.
debian_version() {
	local source=linux-source-${1%.*} have version
	have=$(package_versions "$source" $(packages_of "$1"))
	version=$(awk -v p="linux-headers-$1-amd64" '$1 == p { print $2; exit }' <<<"$have")
	[ -n "$version" ] || return 0
	[ "$(grep -Fc " $version" <<<"$have")" -ge 4 ] && echo "$version"
	return 0
}

# candidates: releases of the series that the registry names, newest first.
candidates() {
	apt apt-cache pkgnames "linux-headers-$KERNEL_SERIES" |
		sed -n 's/^linux-headers-\([0-9.]*+deb[0-9]*\)-amd64$/\1/p' | sort -rV
}

# running: prints the version of the kernel that runs here, if it is one of the series.
running() {
	uname -r | sed -n "s/^\(${KERNEL_SERIES//./\\.}\.[0-9]*+deb[0-9]*\)-amd64\$/\1/p"
}

# choose: prints the version to use: the running one, or else the default. The answer is kept, so that a build
# without network keeps working and two builds agree.
choose() {
	local wanted kept version
	if [ -n "${KVER-}" ]; then
		echo "${KVER%-amd64}"
		return
	fi
	wanted=$(running)
	wanted=${wanted:-$KVER_DEFAULT}
	kept=$CACHE/kernel-instead-of-$wanted
	if [ -e "$CACHE/kernel-$wanted/release" ]; then
		echo "$wanted"
		return
	fi
	if [ -e "$kept" ] && [ -e "$CACHE/kernel-$(<"$kept")/release" ]; then
		cat "$kept"
		return
	fi
	update_lists
	for version in "$wanted" "$KVER_DEFAULT" $(candidates); do
		[ -n "$(debian_version "$version")" ] || continue
		[ "$version" = "$wanted" ] || {
			say KERNEL "$wanted is not in the registry, taking $version"
			echo "$version" >"$kept"
		}
		echo "$version"
		return
	done
	die "$BACKPORTS holds no complete $KERNEL_SERIES kernel (source, headers, image, modules);" \
		"set KVER= to a version it holds, or raise KERNEL_SERIES in scripts/versions"
}

fetch() { # KVER DIRECTORY
	local version
	[ -d "$APT/lists" ] || update_lists
	version=$(debian_version "$1")
	[ -n "$version" ] || { update_lists; version=$(debian_version "$1"); }
	[ -n "$version" ] || die "$BACKPORTS does not hold kernel $1 completely (source, headers," \
		"image, modules). It holds: $(candidates | tr '\n' ' ')"
	say FETCH "kernel $1: source, headers, image, modules (about 300 MB)"
	mkdir -p "$2"
	(cd "$2" && FERROCE_BIND=$2 apt apt-get -qq download \
		$(for p in "linux-source-${1%.*}" $(packages_of "$1"); do echo "$p=$version"; done)) >&2 ||
		die "cannot download kernel $1"
}

# Of the kernel's tests, those of RDMA are run here.
NOT_TESTS=(--exclude='*/tools/testing/[!s]*' --exclude='*/selftests/[!kr]*' --exclude='*/selftests/k[!s]*'
	--exclude='*/selftests/r[!d]*' --exclude='*/selftests/rds')

# add_tests KVER DIRECTORY: for trees unpacked by a version of this script that left them out.
add_tests() {
	fetch "$1" "$2/debs"
	mkdir -p "$2/x"
	"$IN" dpkg --fsys-tarfile "$2"/debs/linux-source-*.deb | tar -x -C "$2/x" --wildcards '*.tar.xz'
	xz -dc -T0 "$2"/x/usr/src/linux-source-*.tar.xz | tar -x -C "$2/build" --strip-components=1 \
		"${NOT_TESTS[@]}" --wildcards '*/tools/testing/selftests'
	rm -rf "$2/x" "$2/debs"
}

unpack() { # KVER DIRECTORY
	local release=$1-amd64 deb
	say UNPACK "kernel $1"
	for deb in "$2"/debs/linux-{headers,binary,modules}*.deb; do
		"$IN" dpkg -x "$deb" "$2/x"
	done
	# Usrmerge or not: both places have been used.
	mv "$(find "$2/x" -name 'vmlinuz*' -type f | head -n 1)" "$2/vmlinuz"
	mkdir -p "$2/modules"
	mv "$(find "$2/x" -path "*lib/modules/$release" -type d | head -n 1)" "$2/modules/$release"
	rm -rf "$2/modules/$release"/{build,source,vmlinuz*}
	"$IN" dpkg --fsys-tarfile "$2"/debs/linux-source-*.deb |
		tar -x -C "$2/x" --wildcards '*.tar.xz'
	mkdir -p "$2/build"
	# What no module build reads, by bulk; Kconfig and Makefiles stay.
	xz -dc -T0 "$2"/x/usr/src/linux-source-*.tar.xz | tar -x -C "$2/build" --strip-components=1 \
		--wildcards --exclude='*/arch/[!xu]*/*.[chSd]*' --exclude='*/arch/xtensa' \
		--exclude='*/drivers/gpu/drm/*.[ch]' --exclude='*/drivers/media/*.[ch]' \
		--exclude='*/sound/*.[ch]' --exclude='*/Documentation/*/*.[rsyt]*' \
		--exclude='*/tools/perf' "${NOT_TESTS[@]}"
}

prepare() { # KVER DIRECTORY
	local release=$1-amd64 headers jobs log=$2/prepare.log
	jobs=$(nproc)
	headers=$2/x/usr/src/linux-headers-$release
	[ -e "$headers/.config" ] || die "no .config in the headers package of $1"
	cp "$headers/.config" "$2/build/.config"
	say RUST "the kernel's Rust crates for $1, about 80 s on 2 cores"
	"$IN" make -C "$2/build" $(make_arguments stock) \
		KERNELRELEASE="$release" -j"$jobs" olddefconfig prepare modules_prepare \
		</dev/null >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "see $log"; }
	cp "$headers/Module.symvers" "$2/build/Module.symvers"
	check "$2/build" "$headers/.config"
	echo "$release" >"$2/build/include/config/kernel.release"
	rm -rf "$2/x" "$2/debs"
}

# check TREE CONFIG: our crates must export what the stock image exports, and the configuration
# must have survived. Otherwise modules would fail to load, or worse.
check() {
	local missing
	missing=$(comm -13 \
		<(sed -n 's/^EXPORT_SYMBOL_RUST_GPL(\(.*\));$/\1/p' "$1"/rust/exports_*_generated.h | sort -u) \
		<(awk '$3 ~ /^rust\// || ($3 == "vmlinux" && $2 ~ /^_R/) { print $2 }' "$1/Module.symvers" | sort -u))
	[ -z "$missing" ] || die "the rebuilt Rust crates lack symbols of the stock kernel:" \
		"$(head -n 3 <<<"$missing" | tr '\n' ' ')... (wrong rustc? this one is $("$IN" rustc --version))"
	grep -q '^CONFIG_RUST=y' "$1/.config" || die "CONFIG_RUST was lost from the .config"
}

case ${1-}${2-} in
'' | -kstock) ;;
-k*) exec "$SRC/scripts/own-kernel.sh" "$2" ;;
*) die "usage: kernel.sh [-k KERNEL]" ;;
esac
version=$(choose)
dpkg --compare-versions "${version%%+*}" ge "$KVER_MIN" 2>/dev/null ||
	[ "$(printf '%s\n' "$KVER_MIN" "${version%%+*}" | sort -V | head -n 1)" = "$KVER_MIN" ] ||
	die "kernel $version is older than $KVER_MIN, the lowest supported"
dir=$CACHE/kernel-$version
tests=$dir/build/tools/testing/selftests/rdma
if [ ! -e "$dir/release" ] || [ ! -d "$tests" ]; then
	lock "kernel-$version"
	if [ ! -e "$dir/release" ]; then
		rm -rf "$dir"
		fetch "$version" "$dir/debs"
		unpack "$version" "$dir"
		prepare "$version" "$dir"
		echo "$version-amd64" >"$dir/release"
		say KERNEL "$version ready in $dir"
	fi
	[ -d "$tests" ] || add_tests "$version" "$dir"
fi
echo "$dir"
