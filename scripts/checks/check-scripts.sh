#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-scripts.sh: every shell script parses, and the checks that decide about a run can fail.

set -euo pipefail
cd "$(dirname "$0")/../.."

while read -r file; do
	bash -n "$file"
done < <(grep -rlE '^#!/bin/bash' scripts .ci; find tests/vm -name '*.sh')

# A test that hides a function of the library changes the library's other functions, so it must say that it means to.
MEANT='# instead of that of'
functions() { sed -n -E 's/^[[:space:]]*([a-z_0-9]+)\(\).*/\1/p' "$@" | sort -u; }
library=$(functions tests/vm/lib/*.sh)
hidden() { comm -12 <(echo "$library") <(grep -hv "$MEANT" "$1" | functions); } # FILE
for file in $(find tests/vm scripts/bench/vm -name '*.sh' ! -path 'tests/vm/lib/*'); do
	twins=$(hidden "$file")
	[ -z "$twins" ] || { echo "$file hides of tests/vm/lib:" $twins; echo "is there a '$MEANT'?"; exit 1; }
	lost=$(comm -13 <(echo "$library") <(grep -h "$MEANT" "$file" | functions))
	[ -z "$lost" ] || { echo "$file takes the place of what tests/vm/lib lacks:" $lost; exit 1; }
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo 'check() { :; }' >"$log"
[ "$(hidden "$log")" = check ]
complaint() { # LINE: check-dmesg.sh must not like a log of this line alone
	printf '%s' "$1" >"$log"
	! scripts/machine/check-dmesg.sh "$log" >/dev/null 2>&1 || { echo "not noticed in a kernel log: $1"; return 1; }
}
complaint '[    1.0] WARNING: CPU: 0 PID: 1 at net/core/dev.c:1 f+0x1/0x2'
complaint '[    1.0] BUG: KASAN: slab-use-after-free in f'
complaint '[    1.0] Oops: general protection fault, probably for non-canonical address'
complaint '[    1.0] unregister_netdevice: waiting for v0 to become free. Usage count = 2'
complaint '[    1.0] INFO: task kworker:1 blocked for more than 60 seconds.'
complaint '[    1.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:'
complaint ' debug_locks:                             0'
complaint 'unreferenced object 0xffff88800a4d8000 (size 64):'
complaint ''
printf '%s\n' '[    0.0] Command line: oops=panic rcupdate.rcu_cpu_stall_timeout=60' \
	'[    0.1] RCU CPU stall warnings timeout set to 60' \
	' debug_locks:                             1' \
	'[    8.4] ferroce: loading out-of-tree module taints kernel.' \
	'[   59.1] traps: ib_send_lat[811] general protection fault ip:7f1 sp:7ff error:0 in librdmacm.so' >"$log"
scripts/machine/check-dmesg.sh "$log"
warning() { # MODULE...: a warning whose trace goes through these
	printf '%s\n' '[    9.0] ------------[ cut here ]------------' \
		'[    9.0] WARNING: mm/page_alloc.c:5363 at f+0x1/0x2' \
		'[    9.0] Modules linked in: ferroce(O) rdma_rxe siw'
	printf '[    9.0]  [<0>] ? f+0x1/0x2 [%s]\n' "$@"
	printf '%s\n' '[    9.0] ---[ end trace 0000000000000000 ]---' '[    9.1] ferroce: unloaded'
}
warning rdma_rxe >"$log"
VM_RIVALS=1 scripts/machine/check-dmesg.sh "$log" 2>/dev/null
complaint "$(cat "$log")"
for modules in ferroce 'rdma_rxe ferroce' ib_core; do
	# shellcheck disable=SC2086
	VM_RIVALS=1 complaint "$(warning $modules)"
done
VM_RIVALS=1 complaint "$(warning rdma_rxe; warning ferroce)"
VM_RIVALS=1 complaint "$(warning rdma_rxe | head -n 4)"

race() { # FRAMES FRAMES: a data race of two accesses, each with the modules that its frames are in
	printf '[    9.0] %s\n' =========================== 'BUG: KCSAN: data-race in f / g'
	local frames frame
	for frames; do
		printf '[    9.0] %s\n' '' 'write to 0xffff888004b7a2c8 of 8 bytes by interrupt on cpu 1:'
		for frame in $frames; do printf '[    9.0]  f+0x1/0x2 [%s]\n' "$frame"; done
	done
	printf '[    9.0] %s\n' '' 'Reported by Kernel Concurrency Sanitizer on:' ===========================
}
race 'ib_core ib_core ferroce' 'rdma_rxe' >"$log"
echo '[    9.1] ferroce: unloaded' >>"$log"
scripts/machine/check-dmesg.sh "$log"
complaint "$(race rdma_rxe ferroce)"
complaint "$(race 'ib_core ferroce' ib_core)"
complaint "$(race ib_core ib_core; race ferroce ib_core)"
complaint "$(race ib_core ib_core; printf '[    9.2] %s\n' ==================== 'BUG: KASAN: slab-use-after-free in f')"
complaint "$(race ferroce ib_core | head -n 3)"

order() { # LOCK LOCK MODULE: a lock asked for, one that is held, and by whose function
	printf '[    9.0] %s\n' =========================== 'WARNING: possible circular locking dependency detected' \
		'rm/480 is trying to acquire lock:' "ffff88800fae7420 ($1){+.+.}-{4:4}, at: f+0x1/0x2" 'the chain is:'
	printf '  -> #1 (%s){++++}-{4:4}:\n' "$2"
	printf '[    9.0] %s\n' " f+0x1/0x2 [$3]" ' Call Trace:' ' </TASK>'
}
locks=' debug_locks:                             0'
{ order '&id_priv->handler_mutex' nvmet_config_sem nvmet; echo "$locks"; } >"$log"
scripts/machine/check-dmesg.sh "$log" 2>/dev/null
complaint "$(order '&id_priv->handler_mutex' nvmet_config_sem ferroce)"
complaint "$(order '&id_priv->handler_mutex' rtnl_mutex nvmet)"
complaint "$(order rtnl_mutex nvmet_config_sem nvmet)"
complaint "$(order '&id_priv->handler_mutex' nvmet_config_sem nvmet | head -n 8)"
complaint "$(order rtnl_mutex nvmet_config_sem nvmet; echo "$locks")"
complaint "$(order '&id_priv->handler_mutex' nvmet_config_sem nvmet; order rtnl_mutex lock nvmet)"

. scripts/lib.sh
. scripts/machine/qemu.sh
oops() { # WHAT BYTE: a console with that Oops, behind that byte
	printf '%s\n' '[    9.1] ferroce: loaded' "[    9.2] Oops: $1: 0000 [#1] SMP NOPTI" \
		"[    9.3] Code: 80 7b 68 00 0f 84 89 00 00 00 $2 <1f> 44 00 00 48" \
		'[    9.4] Code: 80 7b 68 00 0f 84 89 00 00 00 90 <1f> 44 00 00 48' >"$log"
}
oops int3 0f
stale_breakpoint "$log"
oops int3 cc
if stale_breakpoint "$log"; then echo "a breakpoint that was there"; exit 1; fi
oops 'general protection fault' 0f
if stale_breakpoint "$log"; then echo "not a breakpoint"; exit 1; fi

# The cache: what was used for longest goes until the rest is within the limit; what is used, or was not made of a hash,
# stays.
kept=$(mktemp -d)
trap 'rm -rf "$log" "$kept"' EXIT
entry() { # NAME AGE: a MiB that was last used then
	mkdir "$kept/$1"
	head -c 1M /dev/urandom >"$kept/$1/data"
	touch -d "$2" "$kept/$1"
}
entry root-0123456789ab '3 days ago'
entry kernel-debug-0123456789ab '2 days ago'
entry image-0123456789ab '1 day ago'
entry kernel-7.3.4+deb13 '9 days ago'
entry guest-0123456789ab '1 hour ago'
entry target-0123456789ab now
echo "$kept/gone" >"$kept/target-0123456789ab/checkout"
touch -d '1 minute ago' "$kept/target-0123456789ab/checkout"
entry target-ba9876543210 now
echo "$kept" >"$kept/target-ba9876543210/checkout"
FERROCE_CACHE=$kept FERROCE_CACHE_MIB=5 scripts/root/cache.sh
[ "$(cd "$kept" && echo *)" = 'guest-0123456789ab image-0123456789ab kernel-7.3.4+deb13 target-ba9876543210' ]
FERROCE_CACHE=$kept FERROCE_CACHE_MIB=1 scripts/root/cache.sh
[ "$(cd "$kept" && echo *)" = 'guest-0123456789ab kernel-7.3.4+deb13 target-ba9876543210' ]

# An interrupted step leaves something, which goes when nothing works on it; so does what cargo built under a clock that
# was ahead.
entry root-0123456789ab.new '5 hours ago'
entry root-ba9876543210.new now
entry boot.a1b2c3 '5 hours ago'
touch -d tomorrow "$kept/target-ba9876543210/checkout"
FERROCE_CACHE=$kept scripts/root/cache.sh
[ "$(cd "$kept" && echo *)" = 'guest-0123456789ab kernel-7.3.4+deb13 root-ba9876543210.new' ]

# The newest of cargo's stays even when its checkout has gone: the next one begins with its crates of others.
entry target-0123456789ab now
echo "$kept/gone" >"$kept/target-0123456789ab/checkout"
mkdir -p "$kept/target-0123456789ab/debug"/{.fingerprint,deps}/{libc-0123456789abcdef,roce-1123456789abcdef}
FERROCE_CACHE=$kept scripts/root/cache.sh
(
	CACHE=$kept
	eval "$(sed -n '/^seed_target/,/^)/p; /^names_of_others/,/^}/p' scripts/root/in-root.sh)"
	seed_target "$kept/target-ba9876543210"
)
[ "$(cd "$kept/target-ba9876543210/debug" && echo .f*/* deps/*)" = \
	'.fingerprint/libc-0123456789abcdef deps/libc-0123456789abcdef' ]

# What this machine lacks is told in a sentence: an exit code of 0 means that the last line holds it.
tells() { # WORDS COMMAND...
	local said
	if said=$("${@:2}" 2>&1); then echo "not noticed: $1"; return 1; fi
	[[ $said == *"$1"* ]] || { echo "'$1' is not in: $said"; return 1; }
}
tells 'make room' need_room 999999999 'a test'
echo "tar: ./usr: Cannot write: No space left on device" >"$log"
tells 'cannot do it: no space is left' fail "$log" 'cannot do it'
echo "E: Failed to fetch http://debian.invalid/x  Could not connect to debian.invalid:80 (1.2.3.4)." >"$log"
tells 'cannot do it: the archive cannot be reached' fail "$log" 'cannot do it'
echo "E: Release file for X is not valid yet (invalid for another 59min 2s)." >"$log"
tells 'the clock of this machine is behind' fail "$log" 'cannot do it'
echo "a step of its own" >"$log"
tells "the whole log is $log" fail "$log" 'cannot do it'

# A root needs no certificates before in-root.sh mounts those of the host: here, only the shell is missing.
if as_root true 2>/dev/null && [ -e /etc/ssl/certs/ca-certificates.crt ]; then
	mkdir -p "$kept/root"/{dev,proc,sys,etc}
	tells 'chroot: failed to run command' \
		as_root env FERROCE_CACHE="$kept" scripts/root/in-root.sh --inside "$kept/root" / true
	[ -e "$kept/root/etc/ssl/certs/ca-certificates.crt" ]
fi

# As many machines as there is memory for.
memory() { printf 'MemTotal: 9 kB\nMemAvailable: %s kB\n' $(($1 * 1048576)) >"$log"; }
memory 16
[ "$(machines_at_once 4 "$log" /dev/null 2>&1)" = 4 ]
memory 3
[ "$(machines_at_once 4 "$log" /dev/null 2>/dev/null)" = 1 ]
tells '3072 MiB are free: 1 of 4 steps at once' eval 'machines_at_once 4 "$log" /dev/null; false'
memory 1
[ "$(machines_at_once 2 "$log" /dev/null 2>/dev/null)" = 1 ]
memory 16
echo 6442450944 >"$kept/limit"
[ "$(machines_at_once 4 "$log" "$kept/limit" 2>/dev/null)" = 2 ]
printf '4:memory:/a\n0::/b\n' >"$log"
[[ $(memory_limits "$log") == /sys/fs/cgroup/memory/a/memory.limit_in_bytes*/sys/fs/cgroup/b/memory.max* ]]

# A script that is told to end takes with it what it has started, and what that has.
: >"$log"
bash -euo pipefail -c '. scripts/lib.sh
	stop_with_children
	(bash -c "echo \$\$; sleep 60; :") >"$1" &
	wait' stop "$log" &
stopped=$!
until [ -s "$log" ]; do sleep 0.05; done
kill "$stopped"
wait "$stopped" && exit 1 || [ $? = 130 ]
for ((i = 0; i < 100; i++)); do [ -e "/proc/$(<"$log")" ] || break; sleep 0.05; done
[ ! -e "/proc/$(<"$log")" ] || { echo "a child has outlived its script"; exit 1; }

# A step that hangs fails, and what it has started ends.
eval "$(sed -n '/^limited/,/^}/p' scripts/check.sh)"
STEP_MINUTES=0.03
: >"$log"
limited "(bash -c 'echo \$\$ >$log; sleep 600; :') >/dev/null 2>&1; true" >"$kept/said" && exit 1
grep -q 'did not end within' "$kept/said"
[ -s "$log" ]
for ((i = 0; i < 100; i++)); do [ -e "/proc/$(<"$log")" ] || break; sleep 0.05; done
[ ! -e "/proc/$(<"$log")" ] || { echo "a child has outlived its step"; exit 1; }
