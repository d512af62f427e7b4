#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# fuzz.sh [TARGET...]: libFuzzer on the targets of tests/fuzz, or on all of them, FUZZ_SECONDS each (60).
# Corpora and what fails are kept in build/fuzz. Says how many inputs were tried, and how much of the code
# they reach.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

if [ "${1-}" != --inside ]; then
	exec "$SRC/scripts/in-root.sh" env FUZZ_SECONDS="${FUZZ_SECONDS:-60}" "$SRC/scripts/fuzz.sh" --inside "$@"
fi
shift
# Coverage is asked of the compiler by options that are not stable.
export RUSTC_BOOTSTRAP=1 PATH=$CARGO_HOME/bin:$PATH
[[ $(cargo-fuzz --version 2>/dev/null) = *" $CARGO_FUZZ_VERSION" ]] ||
	cargo install --quiet --locked --root "$CARGO_HOME" --version "$CARGO_FUZZ_VERSION" cargo-fuzz

cd "$SRC/tests"
out=$SRC/build/fuzz
if [ $# -gt 0 ]; then
	targets=("$@")
else
	mapfile -t targets < <(cargo fuzz list --fuzz-dir fuzz)
fi
failed=0
for target in "${targets[@]}"; do
	mkdir -p "$out/$target/corpus"
	# The sanitizers' libraries are not part of the distribution's compiler; the bodies have no unsafe code.
	if cargo fuzz run --fuzz-dir fuzz --sanitizer none "$target" "$out/$target/corpus" -- \
		-max_total_time="$FUZZ_SECONDS" -max_len=4096 -print_final_stats=1 \
		-artifact_prefix="$out/$target/" >"$out/$target.log" 2>&1; then
		verdict=ok
	else
		verdict=FAILED failed=1
	fi
	printf '%-10s %s  %s inputs  %s\n' "$target" "$verdict" \
		"$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$target.log")" \
		"$(grep -a ' cov: ' "$out/$target.log" | tail -n 1 | sed 's/.*\(cov: [0-9]* ft: [0-9]*\).*/\1/')"
	[ "$verdict" = ok ] || tail -n 30 "$out/$target.log"
done
exit "$failed"
