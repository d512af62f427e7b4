#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-planted.sh: a run on a debug kernel fails for each kind of fault that its checkers are there for, and
# passes without one. A module (tests/module/planted.c) makes the faults.
#
#	KERNEL=umdebug|debug|kcsan	the kernel (umdebug); only debug looks for leaks, only kcsan for data races
#
# A run must fail for the fault alone, and in the words of the checker in question: a machine that does not even come
# up proves nothing. Faults after which a checker gives up have a machine of their own; the others share one, and
# scripts/machine/check-dmesg.sh must reject the kernel's report of each of them.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

kernel=${KERNEL:-umdebug}
work=$(mktemp -d "${TMPDIR:-/tmp}/ferroce-planted.XXXXXX")
trap 'rm -rf "$work"' EXIT
LOG=$work/log
. "$SRC/scripts/checks/tap.sh"

# What the run printed is shown whole, as comments: the results in it are not ours.
tell_why() {
	sed "s/^/# /" "$LOG"
	echo "# vm.sh returned $rc"
}

# run FAULTS [SETTING...]: sets rc. What the machine leaves behind goes with our directory.
run() {
	rc=0
	rm -rf "$work/out"
	TMPDIR=$work KERNEL=$kernel DRIVER=ferroce TOPOLOGY=single VM_OUT=$work/out VM_ENV="FAULTS=$*" \
		"$SRC/scripts/vm.sh" "$SRC/scripts/machine/planted-guest.sh" >"$LOG" 2>&1 || rc=$?
}

said() { grep -qx "planted: $1" "$LOG"; }

# passed RC: the script came to its end and returned that, and the log is clean.
passed() { [ "$rc" = "$1" ] && said 'all done' && ! grep -q 'the kernel of machine . complains' "$LOG"; }

# log_failed: the script succeeded, and yet the run did not, for its log.
log_failed() { [ "$rc" = 1 ] && said 'all done' && grep -q 'the kernel of machine a complains' "$LOG"; }

# complains FAULT WORDS: what the kernel said of that fault would fail a run by itself, and holds the words.
complains() {
	sed -n "/ferroce-test: planted $1\$/,/ferroce-test: planted/p" "$work/out/a/dmesg" >"$work/part" || return 1
	grep -qE "$2" "$work/part" && ! "$SRC/scripts/machine/check-dmesg.sh" "$work/part" >/dev/null
}

# log_failed_for WORDS: and these words are in the log.
log_failed_for() { log_failed && grep -qE "$1" "$work/out/a/dmesg"; }

dies() { [ "$rc" = 125 ] && said "$1 begins" && ! said 'all done' && grep -q 'machine a died' "$LOG"; } # FAULT

# checkers: one fault for each that goes with the others.
checkers() {
	# In this order: lockdep, which the first two take, trusts nothing after a use of wrong memory.
	local fault shared=(
		'read_without_rcu suspicious RCU usage'
		'sleep_in_atomic sleeping function called from invalid context'
		'freed_while_active ODEBUG: free active'
		'listed_twice list_add double add'
		'reference_to_nothing refcount_t: addition on 0'
		'shift UBSAN: shift-out-of-bounds'
		'array_index UBSAN: array-index-out-of-bounds'
		'use_after_free KASAN: slab-use-after-free'
		'vmalloc_out_of_bounds KASAN: vmalloc-out-of-bounds'
		'hung blocked for more than'
		'stuck soft lockup'
	)
	check "the driver's own accesses are watched" watched '__asan_(report_)?load8(_noabort)?'
	[ "$kernel" != umdebug ] || check "so are the ways that it goes" watched __sanitizer_cov_trace_pc
	# The kernel would tell of the first use of wrong memory only. A saved machine has its command line already.
	VM_CMDLINE=kasan_multi_shot VM_COLD=1 run "$(IFS=,; echo "${shared[*]%% *}")"
	check "a run with faults fails" log_failed
	for fault in "${shared[@]}"; do
		check "${fault%% *} is found" complains "${fault%% *}" "${fault#* }"
	done
	run lock_order
	check "lock_order is found" log_failed_for 'possible circular locking dependency'
	run lock_context
	check "lock_context is found" log_failed_for 'inconsistent lock state'
	if [ "$kernel" = debug ]; then
		run leak
		check "leak is found" log_failed_for 'unreferenced object'
	fi
	run wild_pointer
	check "wild_pointer is found" dies wild_pointer
}

# races: the one that has a kernel of its own. It sees nothing of what was not built for it.
races() {
	check "the driver's own accesses are watched" watched __tsan_write8
	run race
	check "race is found" log_failed_for 'KCSAN: data-race in contend'
}

# watched FUNCTION: each crate calls what the compiler puts beside each access. The module as a whole has C in it, too.
watched() {
	local crate objects=$SRC/build/$kernel/rust
	for crate in roce/lib rdma/lib driver/main; do
		grep -qE " U $1\$" <<<"$("$SRC/scripts/root/in-root.sh" nm -u "$objects/$crate.o" </dev/null)" || return
	done
}

# What `watched` looks at, also where the module itself was handed over.
"$SRC/scripts/build.sh" -k "$kernel" >/dev/null
run nothing
check "a run with no fault passes" passed 0
run nothing PLANTED_RC=3
check "the script's own failure is told" passed 3
if [ "$kernel" = kcsan ]; then races; else checkers; fi

finish
