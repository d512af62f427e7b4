#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-suites.sh [--sample] SUITE: runs a suite of other people's, unedited, through ferroce-run, in a container like
# those of CI services. tests/sandbox/suites has one file for each: what it runs, and how.

set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$SRC/scripts/container.sh"

WHOLE=1
if [ "${1-}" = --sample ]; then
	WHOLE=
	shift
fi
suite=$SRC/tests/sandbox/suites/${1-}.sh
[ $# = 1 ] && [ -e "$suite" ] || die "usage: check-suites.sh [--sample] SUITE"

need_container
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
TREE=$("$SRC/scripts/sandbox.sh")
options=()
case $1 in
rust | python)
	root=$(TOOLCHAIN=registries "$SRC/scripts/toolchain.sh")
	built=$("$SRC/scripts/registries.sh")
	options=(--volume "$built:/opt/registries:ro" --env REGISTRIES=/opt/registries)
	;;
*) root=$("$SRC/scripts/toolchain.sh" suites) ;;
esac
cp "$SRC/tests/sandbox/"{lib,pair}.sh "$SRC/tests/vm/mpi.py" "$suite" "$WORK/"
chmod -R a+rwX "$WORK"
container "$TREE" "$WORK" --env WHOLE="$WHOLE" "${options[@]}" "$root" bash "$1.sh"
