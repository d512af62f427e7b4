#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# package.sh DIRECTORY: makes Debian packages there, and prints their paths.
#
#	ferroce-modules-RELEASE   the module, for Debian's stock kernel of that release
#	ferroce-dkms              the sources, for DKMS on a machine that has built its own kernel: Debian's
#	                          headers lack the metadata of the kernel's Rust crates
#	ferroce-as-rxe            the configuration that puts ferroce in the place of rdma_rxe
#
# package.sh --install: puts the module for that kernel where this machine's modprobe finds it, or below
# DESTDIR. The texts of the packages are in scripts/package.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

PARTS=$SRC/scripts/package

# fill_in FILE: control files have no comments.
fill_in() { sed -e '/^# SPDX/d' -e "s/@VERSION@/$VERSION/g" -e "s/@RELEASE@/$release/g" "$1"; }

# settings ROOT: the configuration of modprobe, for each way to install the module.
settings() { install -D -m 644 "$PARTS/modprobe.conf" "$1/usr/lib/modprobe.d/ferroce.conf"; }

# as_rxe ROOT: the configuration of modprobe for scripts that use rdma_rxe.
as_rxe() { install -D -m 644 "$PARTS/as-rxe.conf" "$1/usr/lib/modprobe.d/ferroce-as-rxe.conf"; }

# module ROOT: the module for the stock kernel.
module() {
	install -D -m 644 "$SRC/ferroce.ko" "$1/usr/lib/modules/$release/updates/ferroce.ko"
	settings "$1"
}

# sources ROOT: what Kbuild needs, and nothing that it has left.
sources() {
	local to=$1/usr/src/ferroce-$VERSION
	mkdir -p "$to"
	(cd "$SRC" && find Kbuild Makefile include rust -type f ! -name '.*' ! -name '*.o' ! -name '*.ko' \
		! -name '*.mod*' ! -name '*.rmeta' ! -name '*_generated.rs' -exec cp --parents {} "$to/" \;)
	fill_in "$PARTS/dkms.conf" >"$to/dkms.conf"
	settings "$1"
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
	install -D -m 644 "$SRC/README.md" "$3/usr/share/doc/$name/README.md"
	fill_in "$PARTS/copyright" >"$3/usr/share/doc/$name/copyright"
	file=$out/${name}_${VERSION}_$2.deb
	FERROCE_BIND=$out "$SRC/scripts/in-root.sh" dpkg-deb --root-owner-group --build "$3" "$file" </dev/null >&2
	echo "$file"
}

[ $# -eq 1 ] || die "usage: package.sh DIRECTORY | --install"
"$SRC/scripts/build.sh" >/dev/null
release=$(<"$("$SRC/scripts/kernel.sh")/release")
if [ "$1" = --install ]; then
	module "${DESTDIR-}"
	[ -n "${DESTDIR-}" ] || depmod "$release"
	say INSTALL "for kernel $release"
	exit
fi
mkdir -p "$1"
out=$(cd "$1" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
module "$work/modules"
package modules amd64 "$work/modules"
sources "$work/dkms"
package dkms all "$work/dkms"
as_rxe "$work/as-rxe"
package as-rxe all "$work/as-rxe"
