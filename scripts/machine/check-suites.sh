#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-suites.sh [--sample] SUITE...: runs suites of other people's, unedited, through ferroce-run, in a container like
# those of CI services. tests/sandbox/suites has one file for each: what it runs, and how.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"
. "$SRC/scripts/root/container.sh"

WHOLE=1
if [ "${1-}" = --sample ]; then
	WHOLE=
	shift
fi
[ $# -gt 0 ] || die "usage: check-suites.sh [--sample] SUITE..."

need_container
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
TREE=$("$SRC/scripts/release/sandbox.sh")

# suite NAME
suite() {
	local root built options=()
	case $1 in
	rust | python)
		root=$(TOOLCHAIN=registries "$SRC/scripts/root/toolchain.sh")
		built=$("$SRC/scripts/root/registries.sh")
		options=(--volume "$built:/opt/registries:ro" --env REGISTRIES=/opt/registries)
		;;
	mooncake | dlslime | wheel-mpi)
		root=$("$SRC/scripts/root/toolchain.sh" suites)
		built=$("$SRC/scripts/root/wheels.sh")
		options=(--volume "$built:/opt/wheels:ro" --env WHEELS=/opt/wheels)
		;;
	qemu) root=$(TOOLCHAIN=qemu "$SRC/scripts/root/toolchain.sh") ;;
	*) root=$("$SRC/scripts/root/toolchain.sh" suites) ;;
	esac
	mkdir "$WORK/$1"
	cp "$SRC/tests/sandbox/"{lib.sh,pair.sh,migrate.py} "$SRC/tests/sandbox/suites/$1."* "$WORK/$1/"
	cp "$SRC/tests/vm/suites/mpi.py" "$WORK/$1/"
	chmod -R a+rwX "$WORK/$1"
	container "$TREE" "$WORK/$1" --env WHOLE="$WHOLE" "${options[@]}" "$root" bash "$1.sh"
}

for name in "$@"; do
	[ -e "$SRC/tests/sandbox/suites/$name.sh" ] || die "no such suite: $name"
	echo "# $name${WHOLE:+, whole}"
	suite "$name"
done
