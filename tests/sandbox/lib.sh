# SPDX-License-Identifier: GPL-2.0
#
# Common to the tests of ferroce-run from its caller's side; sourced by them, in the container, where SANDBOX is the
# place that it is unpacked at.

export LC_ALL=C.UTF-8
PATH=$SANDBOX/bin:/usr/sbin:/usr/bin:/sbin:/bin
NUMBER=0

# report VERDICT NAME LOG: one line of TAP, and the end of the log if it is `not ok`.
report() {
	echo "$1 $((++NUMBER)) $2"
	[ "$1" = ok ] || tail -n 30 "$3" | sed 's/^/# /'
}

# check NAME COMMAND...: one test; says what the command printed if it fails.
check() {
	local verdict=ok
	("${@:2}") >log 2>&1 </dev/null || verdict='not ok'
	report "$verdict" "$1" log
}

skip() { echo "ok $((++NUMBER)) $1 # SKIP $2"; }

# tells LOG: what a suite says at its end, in a few words. A suite may have another.
tells() { :; }

# compare NAME [OPTION...] -- COMMAND...: one test, which `ferroce-run OPTION... -- COMMAND...` passes with exit code 0.
# What the same command does over rdma_rxe is told beside it.
compare() {
	local verdict=ok rc=0
	ferroce-run --driver rxe --timeout 10m "${@:2}" >log.rxe 2>&1 </dev/null || rc=$?
	ferroce-run --driver ferroce --timeout 10m "${@:2}" >log 2>&1 </dev/null || verdict='not ok'
	report "$verdict" "$1$(tells log)" log
	echo "# with rdma_rxe: exit code $rc$(tells log.rxe)"
}
