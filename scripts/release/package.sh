#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# package.sh DIRECTORY: makes Debian packages there, and prints their paths.
#
#	ferroce-modules-RELEASE   the module, for Debian's kernel of that release
#	ferroce-dkms              the sources, for DKMS
#	ferroce-common            what both need: service, manual, settings of modprobe
#	ferroce-as-rxe            settings of modprobe that put ferroce in the place of rdma_rxe
#	ferroce-provider          the provider for libibverbs
#	ferroce-sandbox           ferroce-run, with a kernel of its own
#
# package.sh --modules DIRECTORY: only the first; --sources: only the next three; --provider: only the provider;
# --sandbox: only the last, and the same as an archive to unpack anywhere. Without an option, all but the last are made.
# package.sh --install: puts the module for that kernel, and the files of ferroce-common, where this machine looks for
# them, or below DESTDIR. The texts of the packages are in scripts/package. PACKAGE_VERSION gives them another version,
# for tests.
#
# PROVIDER_ARCH=arm64 with --provider: for that architecture. Otherwise, packages are for that of the kernel.
#
# SIGNING_KEY=FILE and SIGNING_CERT=FILE (PEM) sign the module; SIGNING_PIN is the key's password.
#
# The same commit gives the same packages, bit by bit: what depends on the machine or the time (paths in the module,
# times of files) is replaced.

set -euo pipefail
umask 022
. "$(dirname "$0")/../lib.sh"

PARTS=$SRC/scripts/package
VERSION=${PACKAGE_VERSION:-$VERSION}
# That of the last commit or, without git, of the sources.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$SRC" log -1 --format=%ct 2>/dev/null ||
	stat -c %Y "$SRC/scripts/versions")}
export SOURCE_DATE_EPOCH

# What Kbuild and DKMS need.
SOURCES=(Kbuild Makefile COPYING include rust scripts/versions scripts/package/dkms-build.sh
	scripts/kernel/{kernel-needs,rust-mode,rust-tree,fresh}.sh)

# fill_in FILE: control files have no comments.
fill_in() {
	sed -e '/^# SPDX/d' -e "s/@VERSION@/$VERSION/g" -e "s/@RELEASE@/$release/g" -e "s/@ARCH@/$architecture/g" \
		-e "s/@KVER_MIN@/$KVER_MIN/g" -e "s/@KERNEL_OPTIONS@/$(echo $KERNEL_OPTIONS)/g" \
		-e "s/@BUNDLED_REFUSED@/$(printf '!%s\n' $BUNDLED_REFUSED | xargs)/g" "$1"
}

# common ROOT
common() {
	install -D -m 644 "$PARTS/modprobe.conf" "$1/usr/lib/modprobe.d/ferroce.conf"
	install -D -m 644 "$PARTS/ferroce@.service" "$1/usr/lib/systemd/system/ferroce@.service"
	install -D -m 755 "$PARTS/link" "$1/usr/lib/ferroce/link"
	install -d "$1/usr/share/man/man4"
	gzip -9nc "$SRC/Documentation/ferroce.4" >"$1/usr/share/man/man4/ferroce.4.gz"
}

# sources DIRECTORY: copies them, and nothing that Kbuild has left.
sources() {
	"$SRC/scripts/kernel/rust-tree.sh"
	mkdir -p "$1"
	copy_sources "$1" "${SOURCES[@]}"
	sed -i "s/^VERSION=.*/VERSION=$VERSION/" "$1/scripts/versions"
	# Where it was made from is of this machine.
	sed -i 's/ .*/ linux-source/' "$1/rust/linux/made-from"
}

# clean_module FILE: builds the module from a copy of the sources, in places of a fixed name, without debug
# information.
clean_module() {
	local args
	read -ra args <<<"$(make_arguments stock "$kernel/build")"
	sources "$work/build"
	args+=($(TOOLCHAIN=$(toolchain_of "$release") "$SRC/scripts/root/in-root.sh" \
		"$SRC/scripts/kernel/rust-mode.sh" "$kernel/build" </dev/null))
	TOOLCHAIN=$(toolchain_of "$release") "$SRC/scripts/root/in-root.sh" bash -c '
		set -e
		mount -t tmpfs ferroce /mnt
		mkdir /mnt/ferroce /mnt/kernel
		mount --bind "$1" /mnt/ferroce
		tree=/mnt/kernel
		if [ -d "$2/headers" ]; then
			# Headers alone: they name their other half by its place.
			mount --bind "$2/headers" /mnt/kernel
			tree=/mnt/kernel/usr/src/$(basename "$(readlink "$2/build")")
			sed "s|$2/headers|/mnt/kernel|" "$tree/Makefile" >/mnt/Makefile
			mount --bind /mnt/Makefile "$tree/Makefile"
		else
			mount --bind "$2/build" /mnt/kernel
		fi
		shift 2
		cd /mnt/ferroce
		strip=$(printf "%s\n" "$@" | sed -n s/^CROSS_COMPILE=//p)
		make -C "$tree" M=/mnt/ferroce KRUSTFLAGS=--remap-path-prefix=/mnt/ferroce/= -j"$(nproc)" "$@" modules
		"${strip}strip" -g rust/ferroce.ko' clean "$work/build" "$kernel" "${args[@]}" \
		</dev/null >"$work/log" 2>&1 ||
		{ tail -n 20 "$work/log" >&2; die "cannot build the module for a package"; }
	[ -z "${SIGNING_KEY-}" ] || sign "$work/build/rust/ferroce.ko"
	install -D -m 644 "$work/build/rust/ferroce.ko" "$1"
}

# sign MODULE: as the kernel's own build does, by its program and with the hash that it is configured for.
sign() {
	local hash tool=$kernel/build/scripts/sign-file key=$SIGNING_KEY
	[ -n "${SIGNING_CERT-}" ] && [ -r "$SIGNING_CERT" ] || die "SIGNING_CERT= is no certificate that can be read"
	[ -r "$key" ] || die "SIGNING_KEY= is no key that can be read"
	key=$(realpath "$key")
	hash=$(sed -n 's/^CONFIG_MODULE_SIG_HASH="\(.*\)"/\1/p' "$kernel/build/.config")
	FERROCE_BIND="$work $(dirname "$key") $(dirname "$(realpath "$SIGNING_CERT")")" "$SRC/scripts/root/in-root.sh" \
		env KBUILD_SIGN_PIN="${SIGNING_PIN-}" "$tool" "${hash:-sha256}" "$key" "$(realpath "$SIGNING_CERT")" \
		"$1" </dev/null >&2 || die "the module cannot be signed with $SIGNING_KEY"
}

# installed_size ROOT: prints the KiB that the package takes once it is installed, 1 for each directory and link.
installed_size() {
	find "$1" -path "$1/DEBIAN" -prune -o -type f -printf '%s\n' -o -printf '1\n' |
		awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }'
}

# package KIND ARCHITECTURE ROOT: of what is below ROOT, with the texts of KIND.
package() {
	local control=$3/DEBIAN name file
	mkdir -p "$control"
	fill_in "$PARTS/$1.control" >"$control/control"
	name=$(sed -n 's/^Package: //p' "$control/control")
	for file in postinst prerm postrm; do
		[ -e "$PARTS/$1.$file" ] || continue
		fill_in "$PARTS/$1.$file" >"$control/$file"
		chmod 755 "$control/$file"
	done
	mkdir -p "$3/usr/share/doc/$name"
	fill_in "$PARTS/copyright" >"$3/usr/share/doc/$name/copyright"
	gzip -9nc "$SRC/Documentation/CHANGELOG.md" >"$3/usr/share/doc/$name/changelog.gz"
	(cd "$3" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) >"$control/md5sums"
	sed -i "/^Architecture:/a Installed-Size: $(installed_size "$3")" "$control/control"
	chmod -R u=rwX,go=rX "$3"
	find "$3" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
	file=$out/${name}_${VERSION}_$2.deb
	FERROCE_BIND=$out "$SRC/scripts/root/in-root.sh" dpkg-deb --root-owner-group --build "$3" "$file" </dev/null >&2
	echo "$file"
}

# provider: ferroce.driver is no file for users to change. As a conffile it would stay after the library is removed, and
# every program of verbs would warn of it.
provider() { # ROOT ARCHITECTURE
	local triplet=x86_64-linux-gnu toolchain=${TOOLCHAIN-} libraries made
	[ "$2" = amd64 ] || triplet=aarch64-linux-gnu toolchain=$SUITE-arm64-programs
	libraries=$1/usr/lib/$triplet/libibverbs
	made=$(PROVIDER_ARCH=$2 "$SRC/scripts/release/provider.sh")
	mkdir -p "$libraries"
	cp -P "$made"/*.so "$libraries/"
	TOOLCHAIN=$toolchain "$SRC/scripts/root/in-root.sh" \
		"$triplet-strip" --strip-unneeded --remove-section=.comment "$libraries/libferroce.so" </dev/null
	chmod 644 "$libraries/libferroce.so"
	install -D -m 644 "$made/ferroce.driver" "$1/etc/libibverbs.d/ferroce.driver"
}

# sandbox: the archive and the package of the tree that sandbox.sh makes.
sandbox() {
	local tree file=$out/ferroce-sandbox_${VERSION}_amd64.tar.zst
	tree=$("$SRC/scripts/release/sandbox.sh" --release)
	mkdir -p "$work/sandbox"
	cp -r "$tree" "$work/sandbox/usr"
	release=sandbox
	package sandbox amd64 "$work/sandbox"
	mv "$work/sandbox/usr" "$work/ferroce-sandbox-$VERSION"
	FERROCE_BIND=$out "$SRC/scripts/root/in-root.sh" tar -c -C "$work" -I 'zstd -19 -T1' -f "$file" --format=ustar \
		--sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
		"ferroce-sandbox-$VERSION" </dev/null >&2
	echo "$file"
}

what=all
case $# in
1) out=$1 ;;
2) what=$1 out=$2 ;;
*) die "usage: package.sh [--modules | --sources | --provider | --sandbox] DIRECTORY | --install" ;;
esac
architecture=${PROVIDER_ARCH:-amd64} release=-
if [ "$what" != --sandbox ] && [ "$what" != --provider ]; then
	kernel=$("$SRC/scripts/kernel/kernel.sh")
	release=$(<"$kernel/release")
	architecture=$(architecture_of "$release")
fi
if [ "$out" = --install ]; then
	"$SRC/scripts/build.sh" >/dev/null
	install -D -m 644 "$SRC/ferroce.ko" "${DESTDIR-}/usr/lib/modules/$release/updates/ferroce.ko"
	common "${DESTDIR-}"
	[ -n "${DESTDIR-}" ] || depmod "$release"
	say INSTALL "for kernel $release"
	exit
fi
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
if [ "$what" = --sandbox ]; then
	sandbox
	exit
fi
if [ "$what" = --provider ] || [ "$what" = all ]; then
	provider "$work/provider" "$architecture"
	package provider "$architecture" "$work/provider"
	[ "$what" = all ] || exit 0
fi
if [ "$what" != --sources ]; then
	clean_module "$work/modules/usr/lib/modules/$release/updates/ferroce.ko"
	package modules "$architecture" "$work/modules"
fi
if [ "$what" != --modules ]; then
	sources "$work/dkms/usr/src/ferroce-$VERSION"
	fill_in "$PARTS/dkms.conf" >"$work/dkms/usr/src/ferroce-$VERSION/dkms.conf"
	package dkms all "$work/dkms"
	common "$work/common"
	install -D -m 644 "$SRC/README.md" "$work/common/usr/share/doc/ferroce-common/README.md"
	package common all "$work/common"
	install -D -m 644 "$PARTS/as-rxe.conf" "$work/as-rxe/usr/lib/modprobe.d/ferroce-as-rxe.conf"
	package as-rxe all "$work/as-rxe"
fi
