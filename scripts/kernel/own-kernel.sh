#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# own-kernel.sh debug|debugrt|kcsan|uml|umdebug: builds a kernel of our own from the source of the stock kernel. Prints
# a directory with the same things in it as scripts/kernel/kernel.sh makes:
#
#	build/    the tree for `make M=`
#	vmlinuz   the image; for uml, the program
#	modules/  lib/modules/VERSION
#	release   what `uname -r` says there
#
# debug is an x86 kernel for QEMU in which every checker is on, but for that of data races, which goes with no
# other and is kcsan; debugrt is debug with PREEMPT_RT; uml is user-mode Linux, which runs as an ordinary process at
# native speed; umdebug is the same with the checkers that it can have. What they are made of, fragments of a
# configuration and patches, is in scripts/kernels.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"
. "$SRC/scripts/kernel/archive.sh"

IN=$SRC/scripts/root/in-root.sh
PARTS=$SRC/scripts/kernels

# parts_text config|'*': the fragments, or these and the patches. A part has either, or both.
parts_text() {
	local part file
	for part in "${parts[@]}"; do
		for file in "$PARTS/$part".$1; do
			[ ! -e "$file" ] || cat "$file"
		done
	done
}

# copy_source STOCK TREE: copies the stock kernel's source, without build output, once. An interrupted
# build continues where it was.
copy_source() {
	[ ! -e "$2/../source" ] || return 0
	local -a built=('*.o' '*.a' '*.so' '*.rmeta' '.*.cmd' /.config /Module.symvers /include/config
		/include/generated /arch/x86/include/generated)
	rm -rf "$2"
	if [ -e "$stock/headers" ]; then
		unpack_source "$2"
	else
		"$IN" rsync -a "${built[@]/#/--exclude=}" "$1/" "$2/" </dev/null
		"$IN" make -C "$2" "${args[@]}" mrproper </dev/null
	fi
	local part
	for part in "${parts[@]}"; do
		[ ! -e "$PARTS/$part.patch" ] || apply "$2" "$PARTS/$part.patch"
	done
	touch "$2/../source"
}

# unpack_source TREE: the source package of a stock kernel of which there are only headers.
unpack_source() {
	local release version kept
	release=$(<"$stock/release")
	ARCH=amd64
	read -r _ ARCHIVE _ <<<"$(origin_of "$release" | awk '{ print "-", $NF }')"
	archive_lists
	version=$(package_version "${release%%-*}" "${release#*-}")
	kept=$(source_package "$(source_of "$release")" "$version")
	mkdir -p "$1"
	"$IN" dpkg --fsys-tarfile "$kept"/*.deb | tar -x -O --wildcards '*.tar.xz' | xz -dc -T0 |
		tar -x -C "$1" --strip-components=1
}

# apply TREE PATCH: what is for code that an older kernel does not have is left out there.
apply() {
	local try=("$IN" busybox patch -p1 -i "$2")
	cd "$1"
	export FERROCE_BIND=$1
	if [ ! -e "$stock/headers" ] || "${try[@]}" --dry-run </dev/null; then "${try[@]}" </dev/null; fi
	cd - >/dev/null
}

# last_settings: of several settings of one option, the last: a part may change what one before it sets.
last_settings() {
	awk '
		{ name = $0; sub(/^# /, "", name); sub(/[= ].*/, "", name) }
		name !~ /^CONFIG_/ { next }
		!(name in line) { order[++count] = name }
		{ line[name] = $0 }
		END { for (i = 1; i <= count; i++) print line[order[i]] }'
}

# configure TREE: enables exactly the options of the fragments, and fails if one is lost.
configure() {
	local fragment=$1/../fragment lost
	{
		# A kernel without Rust stays one.
		parts_text config | last_settings | { [ -e "$stock/headers" ] && sed '/^CONFIG_RUST/d' || cat; }
		echo "CONFIG_LOCALVERSION=\"-ferroce-$name\""
	} >"$fragment"
	"$IN" env KCONFIG_ALLCONFIG="$fragment" make -C "$1" "${args[@]}" allnoconfig </dev/null
	lost=$(grep '^CONFIG_' "$fragment" | grep -vxFf "$1/.config" || true)
	[ -z "$lost" ] || { echo "the configuration has lost: $lost"; return 1; }
}

# install DIRECTORY: the image and the modules, in the form that machines boot.
install() {
	local image release
	image=$1/build/arch/x86/boot/bzImage
	! is_user_mode "$name" || image=$1/build/linux
	release=$(<"$1/build/include/config/kernel.release")
	rm -rf "$1/modules" "$1/staging"
	"$IN" make -C "$1/build" "${args[@]}" INSTALL_MOD_PATH="$1/staging" \
		modules_install </dev/null
	mv "$1/staging/lib/modules" "$1/modules"
	rm -rf "$1/staging" "$1/modules/$release/build"
	cp "$image" "$1/vmlinuz"
	echo "$release" >"$1/release.new"
}

# Not as the condition of an `if`: there, an error in the middle would not end it.
make_kernel() { # STOCK DIRECTORY
	set -e
	copy_source "$1" "$2/build"
	configure "$2/build"
	"$IN" nice make -C "$2/build" "${args[@]}" -j"$(nproc)" "${targets[@]}" </dev/null
	install "$2"
}

name=${1-}
case $name in
debug) parts=(common machine checkers debug) targets=(bzImage modules) minutes=20 ;;
debugrt) parts=(common machine checkers debug debugrt) targets=(bzImage modules) minutes=20 ;;
kcsan) parts=(common machine kcsan) targets=(bzImage modules) minutes=20 ;;
uml) parts=(common uml bench sandbox) targets=(linux modules) minutes=10 ;;
umdebug) parts=(common uml checkers umdebug) targets=(linux modules) minutes=20 ;;
*) die "usage: own-kernel.sh debug|debugrt|kcsan|uml|umdebug" ;;
esac
read -ra args <<<"$(make_arguments "$name")"

stock=$(base_kernel)
[ ! -e "$stock/headers" ] || parts+=(older)
TOOLCHAIN=$(toolchain_of "$(<"$stock/release")")
export TOOLCHAIN
root=$("$SRC/scripts/root/toolchain.sh")
dir=$CACHE/kernel-$name-$(key "$stock" "$root" "${args[*]}" "$(parts_text '*')")
if [ ! -e "$dir/release" ]; then
	lock "kernel-$name"
	if [ ! -e "$dir/release" ]; then
		say KERNEL "the $name kernel, about $minutes minutes on 2 cores"
		mkdir -p "$dir"
		log=$dir/build.log
		(make_kernel "$stock/build" "$dir") >"$log" 2>&1 &
		wait $! || { tail -n 20 "$log" >&2; die "no $name kernel; the whole log is $log"; }
		mv "$dir/release.new" "$dir/release"
	fi
fi
hand_out "$dir"
