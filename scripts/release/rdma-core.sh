#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rdma-core.sh [GUEST...]: runs the user space of Debian's releases (bookworm, trixie and sid) over both drivers, in
# user-mode Linux, and prints the table of Documentation/rdma-core.rst. About 20 minutes for each guest.
#
#	DRIVERS="ferroce rxe"                            the drivers
#	SUITES="librxe pyverbs examples perftest-matrix" scripts of tests/vm/suites
#
# Logs stay in build/rdma-core; SUITES= prints the table of those that are there.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

cd "$SRC"
LOGS=build/rdma-core
DRIVERS=${DRIVERS-ferroce rxe}
SUITES=${SUITES-librxe pyverbs examples perftest-matrix}

# run GUEST DRIVER SUITE: leaves a log, which ends with the exit code.
run() {
	local log=$LOGS/$1-$2-$3.log topology=single rc=0
	case $3 in examples | perftest-matrix) topology=netns ;; esac
	say RUN "$*"
	env GUEST="$1" DRIVER="$2" TOPOLOGY="$topology" VM_TIMEOUT=3600 VM_ENV=CONNECTIONS=200 \
		scripts/vm.sh -k uml "$(vm_script "$3")" >"$log" 2>&1 </dev/null || rc=$?
	echo "exit code $rc" >>"$log"
}

# counts LOG: "PASSED, FAILED, SKIPPED" of KTAP; an exit code of a machine that died or did not end comes behind.
counts() {
	[ -e "$1" ] || { echo "not run"; return; }
	awk '/^ok .*# SKIP/ { skipped++; next }
		/^ok / { passed++ }
		/^not ok / { failed++ }
		/^exit code/ && $3 > 1 { died = " (" $3 ")" }
		END { print passed + 0 ", " failed + 0 ", " skipped + 0 died }' "$1"
}

# outcomes LOG GID: "PASSED, FAILED, SKIPPED, CRASHED" of pyverbs, where a test that hangs counts as one that crashes.
outcomes() {
	[ -e "$1" ] || { echo "not run"; return; }
	awk -v gid="$2:" '$2 == gid { found = $3 ", " $5 ", " $7 ", " $9 + $11 }
		END { print found ? found : "no end" }' "$1"
}

row() { printf '%-10s %-9s %-16s %-16s %-11s %-11s\n' "$@"; }

line() { row ========== ========= ================ ================ =========== ===========; }

[ $# -gt 0 ] || set -- bookworm trixie sid
mkdir -p "$LOGS"
for guest; do
	for driver in $DRIVERS; do
		for suite in $SUITES; do run "$guest" "$driver" "$suite"; done
	done
done
line
row rdma-core driver "pyverbs, IPv4" "pyverbs, IPv6" examples perftest
line
for guest; do
	for driver in $DRIVERS; do
		log=$LOGS/$guest-$driver
		row "$(sed -n 's/^# rdma-core //p' "$log-pyverbs.log" 2>/dev/null)" "$driver" \
			"$(outcomes "$log-pyverbs.log" IPv4)" "$(outcomes "$log-pyverbs.log" IPv6)" \
			"$(counts "$log-examples.log")" "$(counts "$log-perftest-matrix.log")"
	done
done
line
