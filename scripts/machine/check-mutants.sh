#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-mutants.sh [NAME...]: the tests find each of the faults that ferroce has had, planted again one at a time.
#
# A fault is a patch in tests/mutants that takes a remedy back. Its head names the step that must fail, one of check.sh
# or `cargo ARGUMENTS` of the tests of the host, and words of the test that fails. A patch that no longer applies fails
# as well: write it anew for the code as it is.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

cd "$SRC"
tree=$SRC/build/mutants
mkdir -p "$tree"
LOG=$tree/log
. "$SRC/scripts/checks/tap.sh"

head_of() { sed -n "s/^$1: *//p" "$2" | head -n 1; } # FIELD PATCH

# run STEP: writes what it prints to LOG. Passes if the step does.
run() {
	local arguments
	case $1 in
	cargo\ *)
		read -ra arguments <<<"${1#cargo }"
		logged scripts/root/in-root.sh cargo test --quiet --manifest-path tests/Cargo.toml "${arguments[@]}"
		;;
	*) logged scripts/check.sh "$1" ;;
	esac
}

# finds PATCH: the step fails for the fault, in the words of its test.
finds() {
	local step words rc=0
	step=$(head_of Step "$1") words=$(head_of Test "$1")
	# No words are in every failure, also that of a patch that does not compile.
	[ -n "$words" ] || { echo "$1 names no test" >"$LOG"; return 1; }
	logged patch --no-backup-if-mismatch -p1 -i "$1" || return
	if (cd "$tree/source" && run "$step"); then rc=1; fi
	grep -E '^ *\|? *not ok |^test .*FAILED|^    [a-z_:]+$|panicked' "$LOG" | grep -qF -- "$words" || rc=1
	patch -s -R --no-backup-if-mismatch -p1 -i "$1"
	return "$rc"
}

# Files keep their times, so that little is built anew.
rm -rf "$tree/new" && mkdir "$tree/new"
git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$tree/new"
mkdir -p "$tree/source"
for kept in build ferroce.ko; do
	[ ! -e "$tree/source/$kept" ] || mv "$tree/source/$kept" "$tree/new/"
done
rm -rf "$tree/source" && mv "$tree/new" "$tree/source"

[ $# -gt 0 ] || set -- $(cd tests/mutants && echo */*.patch)
cd "$tree/source"
for name; do
	name=${name##*/}
	patch=$(echo "$SRC"/tests/mutants/*/"${name%.patch}.patch")
	check "$(head_of Fault "$patch")" finds "$patch"
done
finish
