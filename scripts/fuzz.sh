#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# fuzz.sh [TARGET...]: libFuzzer on the targets of tests/fuzz, or on all of them, FUZZ_SECONDS each (60).
# Starts from tests/fuzz/corpus. Corpora and failing inputs are kept in build/fuzz. Prints how many
# inputs were tried, and then, of each file, how many lines there are and how many the inputs of all targets
# reach together; build/fuzz/coverage.txt has that too. With FUZZ_SECONDS=0, only the kept inputs run.
# FUZZ_KEEP=N replaces tests/fuzz/corpus by the N inputs that reach most together.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

if [ "${1-}" != --inside ]; then
	exec "$SRC/scripts/root/in-root.sh" env FUZZ_SECONDS="${FUZZ_SECONDS:-60}" \
		FUZZ_KEEP="${FUZZ_KEEP-}" "$SRC/scripts/fuzz.sh" --inside "$@"
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
# Of the compiler's own version.
llvm=$(dirname "$(realpath "$(command -v llvm-profdata)")")
# The sanitizers' libraries are not part of the distribution's compiler; the bodies have no unsafe code.
options=(--fuzz-dir fuzz --sanitizer none)

# try TARGET: runs it and prints the result.
try() {
	local target=$1 log=$out/$1.log verdict=ok
	local limits=(-max_total_time="$FUZZ_SECONDS")
	[ "$FUZZ_SECONDS" != 0 ] || limits=(-runs=0)
	if ! cargo fuzz run "${options[@]}" "$target" "$out/$target/corpus" "fuzz/corpus/$target" -- \
		"${limits[@]}" -max_len=4096 -print_final_stats=1 -artifact_prefix="$out/$target/" >"$log" 2>&1; then
		verdict=FAILED failed=1
	fi
	printf '%-10s %s  %s inputs  %s\n' "$target" "$verdict" \
		"$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
		"$(grep -a ' cov: ' "$log" | tail -n 1 | sed 's/.*\(cov: [0-9]* ft: [0-9]*\).*/\1/')"
	[ "$verdict" = ok ] || tail -n 30 "$log"
}

# keep TARGET: a few inputs that together reach what all do, for the tree.
keep() {
	local target=$1 least=$out/$1/least
	rm -rf "$least"
	mkdir "$least"
	cargo fuzz run "${options[@]}" "$target" "$least" "$out/$target/corpus" "fuzz/corpus/$target" -- \
		-set_cover_merge=1 -use_counters=0 -max_len=1024 >>"$out/$target.log" 2>&1
	rm -f "fuzz/corpus/$target"/*
	# Those that the merge took first reach most.
	find "$least" -type f -printf '%T@ %f\n' | sort -n | head -n "$FUZZ_KEEP" | cut -d ' ' -f 2- |
		xargs -r -I '{}' cp "$least/{}" "fuzz/corpus/$target/{}.bin"
}

# measure TARGET: which lines the inputs of a target reach.
measure() {
	cargo fuzz coverage "${options[@]}" --target-dir "$CARGO_TARGET_DIR/coverage" --llvm-path "$llvm" \
		"$1" "$out/$1/corpus" "fuzz/corpus/$1" >"$out/$1.coverage.log" 2>&1 || {
		tail -n 30 "$out/$1.coverage.log"
		return 1
	}
}

# report: one line for each file of the crate and of the driver's decoding.
report() {
	local built=$CARGO_TARGET_DIR/coverage/x86_64-unknown-linux-gnu/release
	local profile=$out/all.profdata target objects=()
	"$llvm/llvm-profdata" merge --sparse "${targets[@]/%//coverage.profdata}" -o "$profile"
	for target in "${targets[@]:1}"; do
		objects+=(--object "$built/$target")
	done
	"$llvm/llvm-cov" report "$built/${targets[0]}" "${objects[@]}" --instr-profile="$profile" \
		--sources "$SRC/rust/roce" "$SRC/rust/driver/abi/mod.rs" "$SRC/rust/driver/abi" |
		awk '/^Filename/ || /^-/ || NF < 10 { next }
			{ printf "%-24s %5d lines %5d reached  %s\n", $1, $8, $8 - $9, $10 }' |
		tee "$out/coverage.txt"
}

for target in "${targets[@]}"; do
	mkdir -p "$out/$target/corpus" "fuzz/corpus/$target"
	try "$target"
	[ -z "$FUZZ_KEEP" ] || keep "$target"
	measure "$target" || failed=1
done
cd fuzz/coverage
[ "$failed" = 1 ] || report
exit "$failed"
