#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# release.sh DIRECTORY: everything that a release of this commit consists of: the sources, the packages for the default
# kernel and for those in KERNELS ("KVER/FLAVOUR..."), the list of changes, and the checksums. The same commit gives the
# same files, bit by bit.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

[ $# -eq 1 ] || die "usage: release.sh DIRECTORY"
commit=$(git -C "$SRC" rev-parse HEAD 2>/dev/null) || die "a release is made from a clone of the repository"
[ -z "$(git -C "$SRC" status --porcelain)" ] || die "there are changes that no commit has; see git status"
grep -qx "## $VERSION" "$SRC/Documentation/CHANGELOG.md" ||
	die "Documentation/CHANGELOG.md does not say what is new in $VERSION"
SOURCE_DATE_EPOCH=$(git -C "$SRC" log -1 --format=%ct)
export SOURCE_DATE_EPOCH

rm -rf "$1"
mkdir -p "$1"
out=$(cd "$1" && pwd -P)
git -C "$SRC" archive --format=tar --prefix="ferroce-$VERSION/" "$commit" | gzip -9n >"$out/ferroce-$VERSION.tar.gz"
"$SRC/scripts/release/package.sh" "$out" >/dev/null
"$SRC/scripts/release/package.sh" --sandbox "$out" >/dev/null
for kernel in ${KERNELS-}; do
	KVER=${kernel%/*} FLAVOUR=${kernel#*/} "$SRC/scripts/release/package.sh" --modules "$out" >/dev/null
done
cp "$SRC/Documentation/CHANGELOG.md" "$out/"
(cd "$out" && sha256sum -- *.deb *.tar.* *.md >SHA256SUMS)
say RELEASE "$VERSION ($(ls "$out" | wc -l) files) in $out"
