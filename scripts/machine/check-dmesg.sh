#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-dmesg.sh FILE: fails, and shows the place, if a kernel log holds what must never be there.
#
#	VM_RIVALS=1	a benchmark: a warning that comes out of another driver, and not out of ours, is mentioned
#			and does not count

set -euo pipefail

# Each is a message of the kernel itself, whatever caused it.
patterns=(
	'WARNING:' 'BUG:' 'BUG at' 'Oops:' 'Kernel panic' 'general protection' 'Call Trace'
	'KASAN' 'UBSAN' 'KCSAN' 'refcount_t' 'kmemleak: [0-9]' 'unreferenced (percpu )?object' 'leaked' 'ODEBUG'
	'possible circular locking' 'possible recursive locking' 'inconsistent lock state'
	'suspicious RCU' 'sleeping function called' 'scheduling while atomic' 'lock held when returning'
	'unregister_netdevice: waiting' 'blocked for more than' 'soft lockup' 'hard LOCKUP'
	'detected stalls on' 'self-detected stall' 'list_(add|del) corruption' 'slab.*still in use'
	'Objects remaining' 'page allocation failure' 'double free' 'panicked at' 'debug_locks: *0'
)

[ -s "$1" ] || { echo "no kernel log in $1"; exit 1; }
pattern=$(printf '|%s' "${patterns[@]}")

# others_warn: without those warnings of others. Each goes from "cut here" to "end trace".
others_warn() {
	[ -n "${VM_RIVALS-}" ] || { cat; return; }
	awk '
		function end(line) {
			if (theirs && !ours) print "ferroce: another driver was warned:" lines[2] > "/dev/stderr"
			else for (line = 1; line <= held; line++) print lines[line]
			held = ours = theirs = 0
		}
		/-+\[ cut here \]-+/ { end(); holding = 1 }
		!holding { print; next }
		{ lines[++held] = $0 }
		/ \[ferroce\]$/ { ours = 1 }
		/ \[(rdma_rxe|siw)\]$/ { theirs = 1 }
		/---\[ end trace / { end(); holding = 0 }
		END { theirs = 0; end() }'
}

# others_race: without the data races of others. A race is ours if one of the two accesses is, or what it was called by:
# helpers of the kernel access memory for us. So is the one that scripts/machine/check-planted.sh makes. A report goes
# from one line of "=" to the next.
others_race() {
	awk '
		function end(line) {
			if (!race || ours) for (line = 1; line <= held; line++) print lines[line]
			held = race = ours = 0
		}
		/\] =====+$/ && holding { lines[++held] = $0; end(); holding = 0; next }
		/\] =====+$/ { holding = 1 }
		!holding { print; next }
		{ lines[++held] = $0 }
		/BUG: KCSAN: / { race = 1 }
		/ to 0x[0-9a-f]+ of [0-9]+ bytes by .* on cpu [0-9]+:$/ { frames = 2; next }
		frames-- > 0 && / \[(ferroce|planted)\]$/ { ours = 1 }
		END { race = 0; end() }'
}

# nvmet_warns: drops one report of lockdep that concerns nvmet alone. In the handler of a connection, nvmet looks up
# a subsystem if a command arrives before the connection is established; and it destroys the listening connection
# under the lock of that look-up. lockdep reports only once.
nvmet_warns() {
	awk '
		function end(line) {
			if (nvmet && cma && !ours) {
				off = 1
				print "ferroce: nvmet ends lockdep" > "/dev/stderr"
			} else for (line = 1; line <= held; line++) print lines[line]
			held = holding = asks = nvmet = cma = ours = 0
		}
		/WARNING: possible circular locking dependency detected/ { end(); holding = 1 }
		off && /^ *debug_locks: *0$/ { next }
		!holding { print; next }
		{ lines[++held] = $0 }
		/ is trying to acquire lock:$/ { asks = held }
		held == asks + 1 && /\(&id_priv->handler_mutex\)/ { cma = 1 }
		/ -> #1 \(nvmet_config_sem\)/ { nvmet = 1 }
		/ -> #2 / || / \[ferroce\]$/ { ours = 1 }
		/ <\/TASK>$/ { end() }
		END { nvmet = 0; end() }'
}

# A page fault of a process for which memory was made to run out is repeated, and is harmless. A program that
# crashes fails the test that it belongs to; the kernel only mentions it. Where a memory cgroup has no room left, the
# kernel logs one trace of the allocation; only a machine without memory is in trouble.
log=$(others_warn <"$1" | others_race | nvmet_warns |
	sed -e '/Huh VM_FAULT_OOM leaked out to the #PF handler. Retrying PF/d' \
	-e '/ traps: [^ ]*\[[0-9]*\] general protection fault ip:/d' |
	awk '
		function give(line, i) {
			for (i = 1; i <= held; i++) if (i != line) print lines[i]
			held = trace = 0
		}
		/ invoked oom-killer: / { give(0); holding = 1 }
		!holding { print; next }
		{ lines[++held] = $0 }
		/Call Trace:/ && !trace { trace = held }
		/Memory cgroup out of memory: Killed process / { give(trace); holding = 0 }
		END { give(0) }')
if grep -qE "${pattern#|}" <<<"$log"; then
	grep -E -B 3 -A 25 "${pattern#|}" <<<"$log" | head -n 120
	exit 1
fi
