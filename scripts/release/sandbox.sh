#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# sandbox.sh [--release]: makes ferroce-run and what it needs, and prints the directory, which may be copied anywhere:
#
#	bin/ferroce-run               the program
#	lib/ferroce-sandbox/linux     the kernel, a program, too
#	lib/ferroce-sandbox/guest     what a machine starts on: init, modules, provider, mount points
#	lib/ferroce-sandbox/stock     Debian's kernel, and the same for it, for those that have QEMU
#	share/doc/ferroce-sandbox     licences, and where the sources are
#
# The programs are linked statically. With --release, the same sources give the same bytes, wherever they are;
# scripts/release/package.sh packs those.

set -euo pipefail
umask 022
. "$(dirname "$0")/../lib.sh"

TARGET=x86_64-unknown-linux-gnu
MANIFEST=tools/ferroce-run/Cargo.toml
LINKING=(--release --target "$TARGET" --manifest-path "$MANIFEST")

# Modules of the stock kernel that a machine needs.
STOCK_MODULES="virtio_pci virtio_console virtio_net 9pnet_virtio 9p overlay veth sch_netem ib_uverbs ib_umad rdma_ucm"

# fixed_places: the programs are built where every machine has them: cargo names symbols after the paths of crates.
fixed_places() {
	mount -t tmpfs ferroce /mnt
	mkdir -p /mnt/{ferroce,cargo,target} "$CARGO_HOME" "$CARGO_TARGET_DIR"
	mount --bind "$SRC" /mnt/ferroce
	mount --bind "$CARGO_HOME" /mnt/cargo
	mount --bind "$CARGO_TARGET_DIR" /mnt/target
	export CARGO_HOME=/mnt/cargo CARGO_TARGET_DIR=/mnt/target
	export RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=/mnt/="
}

programs() { # PROVIDER
	local target=$CARGO_TARGET_DIR/$TARGET/release
	(cd /mnt/ferroce && cargo build --quiet "${LINKING[@]}")
	install -D "$target/ferroce-run" "$OUT/bin/ferroce-run"
	install -D "$target/init" "$GUEST/init"
	strip "$OUT/bin/ferroce-run" "$GUEST/init"
	mkdir -p "$GUEST"/{bin,provider}
	cp -P "$1"/*.so "$GUEST/provider/"
	strip --strip-unneeded "$GUEST/provider/libferroce.so"
	ln "$GUEST/init" "$GUEST/bin/ferroce-on"
}

kernel() { # KERNEL MODULE
	local modules=$GUEST/modules release
	release=$(<"$1/release")
	install -D "$1/vmlinuz" "$OUT/lib/ferroce-sandbox/linux"
	mkdir -p "$GUEST"/{dev,lower,proc,root,sys,upper} "$modules/updates"
	cp -r "$1/modules/$release/." "$modules/"
	cp "$2" "$modules/updates/"
	mv "$modules"/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko "$modules/updates/"
	strip "$OUT/lib/ferroce-sandbox/linux"
	find "$modules" -name '*.ko' -exec strip --strip-debug {} +
	mkdir -p "$OUT/work/usr/lib/modules"
	ln -s usr/lib "$OUT/work/lib"
	ln -s "$modules" "$OUT/work/usr/lib/modules/$release"
	depmod -b "$OUT/work" "$release"
	rm -rf "$OUT/work"
}

# stock KERNEL MODULE: its initrd has the modules, decompressed, and their order in modules/load.
stock() {
	local init=$OUT/work modules=$OUT/work/modules release name file
	release=$(<"$1/release")
	mkdir -p "$init"/{dev,lower,proc,root,sys,upper} "$modules/updates" "$OUT/lib/ferroce-sandbox/stock"
	mkdir -p "$OUT/installed/usr/lib/modules"
	ln -s usr/lib "$OUT/installed/lib"
	cp -rs "$1/modules/$release" "$OUT/installed/usr/lib/modules/"
	touch "$OUT/installed/usr/lib/modules/$release"/modules.{order,builtin}
	depmod -b "$OUT/installed" "$release" 2>/dev/null
	cp -r "$GUEST/init" "$GUEST/bin" "$GUEST/provider" "$init/"
	cp "$2" "$modules/updates/ferroce.ko"
	for name in $STOCK_MODULES rdma_rxe; do
		# What is not a module is part of the kernel.
		[ -n "$(find "$1/modules" -name "$name.ko.xz")" ] || continue
		modprobe -d "$OUT/installed" -S "$release" --show-depends "$name"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
		name=${file##*/}
		case $file in
		*/rdma_rxe.ko*) xz -dc "$file" >"$modules/updates/rdma_rxe.ko" ;;
		*)
			xz -dc "$file" >"$modules/${name%.xz}"
			echo "${name%.xz}" >>"$modules/load"
			;;
		esac
	done
	strip --strip-debug "$modules/updates/ferroce.ko"
	find "$init" -exec touch -hd '2026-01-01 00:00:00Z' {} +
	(cd "$init" && find . | sort | cpio -o -H newc --quiet --reproducible -R 0:0 | zstd -q -19 -T1) \
		>"$OUT/lib/ferroce-sandbox/stock/initrd"
	install -m 644 "$1/vmlinuz" "$OUT/lib/ferroce-sandbox/stock/vmlinuz"
	rm -rf "$init" "$OUT/installed"
}

# crates FORMAT: what the programs are linked with.
crates() {
	cargo tree --manifest-path "$MANIFEST" --edges normal --prefix none --format "$1" | sed 's/ (\*)$//' | sort -u
}

# licences KERNEL: of all that the programs are made of.
licences() {
	local doc=$OUT/share/doc/ferroce-sandbox directory file
	mkdir -p "$doc"
	cp COPYING "$doc/GPL-2"
	{
		echo "ferroce $VERSION: GPL-2.0. The sources are those of this version."
		echo "Linux $(<"$1/release"): GPL-2.0 with the syscall note. The sources are those of Debian's package"
		echo "linux of this version, with scripts/kernels/*.patch of ferroce's sources."
		echo "The GNU C Library, linked statically: LGPL-2.1. The sources are Debian's of glibc in $SUITE."
		echo "The Rust standard library: MIT or Apache-2.0."
		echo
		echo "Other Rust crates, whose sources crates.io has, and their licences' texts:"
		crates '{p} {l}' | grep -v '^sandbox '
		crates '{p}' | sed -n 's/ v\([^ ]*\).*/-\1/p' | while read -r directory; do
			for file in "$CARGO_HOME"/registry/src/*/"$directory"/{LICENSE,LICENCE,license}*; do
				[ -f "$file" ] || continue
				printf '\n==== %s: %s\n\n' "$directory" "${file##*/}"
				cat "$file"
			done
		done
	} >"$doc/licences"
}

# packed_module KERNEL: the stock kernel's module as scripts/release/package.sh has it, which depends on no path. It
# takes two minutes, so it is kept for as long as the sources are the same.
packed_module() {
	local kept name
	kept=$SRC/build/sandbox/module-$(key "$1" "${PACKAGE_VERSION-}" "$(cd "$SRC" &&
		find Kbuild Makefile include rust scripts/versions scripts/release/package.sh -type f ! -name '.*' \
			! -name '*.o' ! -name '*.ko' ! -name '*.mod*' ! -name '*.rmeta' ! -name '*_generated.rs' \
			-exec sha256sum {} + | sort)")
	if [ ! -e "$kept/ferroce.ko" ]; then
		rm -rf "$SRC"/build/sandbox/module-*
		mkdir -p "$kept"
		name=$("$SRC/scripts/release/package.sh" --modules "$kept")
		"$SRC/scripts/root/in-root.sh" dpkg-deb -x "$name" "$kept/files" </dev/null
		mv "$(find "$kept/files" -name ferroce.ko)" "$kept/"
		rm -rf "$kept/files" "$name"
	fi
	echo "$kept/ferroce.ko"
}

if [ "${1-}" = --inside ]; then
	OUT=$2
	GUEST=$OUT/lib/ferroce-sandbox/guest
	shift 2
	cd "$SRC"
	fixed_places
	programs "$5"
	kernel "$1" "$2"
	stock "$3" "$4"
	licences "$1"
	exit
fi

# made_of: what the directory is made of.
made_of() {
	(cd "$SRC" &&
		find tools/ferroce-run tests/Cargo.lock scripts/{release/sandbox.sh,versions} -type f \
			-exec sha256sum {} + | sort)
	sha256sum "$module" "$stock_module" | cut -c1-64
	echo "$kernel $stock $provider"
}

lock sandbox
kernel=$("$SRC/scripts/kernel/kernel.sh" -k uml)
module=$("$SRC/scripts/build.sh" -k uml)
provider=$("$SRC/scripts/release/provider.sh")
stock=$("$SRC/scripts/kernel/kernel.sh")
if [ "${1-}" = --release ]; then
	stock_module=$(packed_module "$stock")
else
	stock_module=$("$SRC/scripts/build.sh")
fi
out=$SRC/build/sandbox/tree-$(key "$(made_of)")
if [ ! -d "$out" ]; then
	# Others may still use what was made of other sources.
	find "$SRC/build/sandbox" -maxdepth 1 -name 'tree-*' -mmin +600 -exec rm -rf {} + 2>/dev/null || true
	rm -rf "$out.new"
	"$SRC/scripts/root/in-root.sh" "$SRC/scripts/release/sandbox.sh" --inside "$out.new" \
		"$kernel" "$module" "$stock" "$stock_module" "$provider" </dev/null >&2
	mv "$out.new" "$out"
fi
echo "$out"
