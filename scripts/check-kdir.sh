#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-kdir.sh: builds the module with `make KDIR=` against a tree that has what the headers packages of distributions
# have: of the kernel's crates the metadata and the macros, but no source.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

kernel=$("$SRC/scripts/kernel.sh")/build
work=$SRC/build/kdir
rm -rf "$work"
mkdir -p "$work"/{kernel/rust,ferroce}
ln -s "$kernel"/{.config,Makefile,Module.symvers,arch,include,scripts,tools} "$work/kernel/"
ln -s "$kernel"/rust/*.{rmeta,so} "$work/kernel/rust/"
cp -r "$SRC"/{Kbuild,Makefile,include,rust,scripts} "$work/ferroce/"
"$SRC/scripts/in-root.sh" make -C "$work/ferroce" KDIR="$work/kernel"
[ "$("$SRC/scripts/in-root.sh" modinfo -F version "$work/ferroce/ferroce.ko")" = "$VERSION" ] ||
	die "the module is not version $VERSION"
