#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# fmt.sh [--check] [FILE...]: formats Rust files with the rustfmt of the toolchain root, so that
# the format does not depend on the machine. With --check it changes nothing, shows the differences, and fails.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

if [ "${1-}" = --inside ]; then
	mode=$2 failed=0
	shift 2
	new=$(mktemp)
	trap 'rm -f "$new"' EXIT
	for file; do
		# From standard input, or rustfmt would walk the `mod` tree once per file.
		rustfmt --edition 2021 --config-path "$SRC" <"$file" >"$new" || { failed=1; continue; }
		cmp -s "$file" "$new" && continue
		if [ "$mode" = check ]; then
			diff -u --label "$file" --label formatted "$file" "$new" || failed=1
		else
			echo "$file"
			cat "$new" >"$file"
		fi
	done
	exit $failed
fi

mode=write
[ "${1-}" != --check ] || { mode=check; shift; }
cd "$SRC"
if [ $# = 0 ]; then
	mapfile -t files < <(find rust tests tools \( -name target -o -path rust/linux \) -prune -o -name '*.rs' \
		-not -name bindings_generated.rs -print 2>/dev/null | sort)
	set -- "${files[@]}"
fi
exec "$SRC/scripts/root/in-root.sh" "$SRC/scripts/fmt.sh" --inside "$mode" "$@"
