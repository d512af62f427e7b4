#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm.sh [-k KERNEL] SCRIPT: runs SCRIPT as root in a virtual machine whose RDMA
# devices are set up, shows what it prints, returns its exit code.
#
#	DRIVER=ferroce|rxe|none       which driver is set up
#	PEER_DRIVER=ferroce|rxe|none  and at the other end, if there is one (default: the same)
#	PROVIDER=rxe|direct|present   user space of ferroce: that of rdma_rxe; its own, on devices of its own link type;
#	                              both, its own in /ferroce/provider
#	TOPOLOGY=single|netns|pair    one device; two namespaces joined by veth; two machines
#	VM_TIMEOUT=600                seconds for the run
#	VM_FILES="PATH..."            more files for the guest, found in /ferroce
#	VM_OUT=DIR                    gets /out of the guest and the kernel's log
#	VM_ENV="NAME=VALUE..."        settings of the script's own
#	SEED=NUMBER                   seed of the random scripts
#	KERNEL=stock|debug|debugrt|kcsan|uml|umdebug  the same as -k
#	FERROCE_KO=FILE               this module for the stock kernel, instead of one built now;
#	FERROCE_KO_debug=FILE ...     and for the others
#	VM_POISON=1                   umdebug fills pages that it frees, and checks them later, which takes 4 s at
#	                              boot: KASAN misses what a process writes to a page that it still maps
#	VM_USER_MEMORY=1G             of a machine in user mode, unless VM_MEMORY says it of all kernels
#	VM_ICOUNT=1                   one processor, whose clock counts instructions; boots
#	VM_COLD=1                     boots instead of resuming a saved machine
#	VM_PLUGIN=1                   tests/plugin counts in QEMU, and writes to the last MiB of the job's disk
#	VM_RIVALS=1                   a benchmark: warnings that come out of another driver do not count
#	VM_MACHINE=, VM_KERNEL=, VM_QEMU=  another type of machine, another image of the kernel, more arguments of QEMU
#	VM_IMAGE=suites               a guest with the programs of the big suites
#
# vm.sh --prepare makes all that does not depend on a script: image, and saved machine.
#
# A script may set variables that are unset here in a line `# machine: NAME=VALUE...`.
#
# The script's environment is described in tests/vm/lib/lib.sh, which it may source as $VM_LIB.
# A run has passed only if the script's exit code came back over its own channel, was 0, and
# the kernel has nothing to complain about in its log.
# Exit codes: the script's; 124 time was up; 125 the machine died; 1 the log is not clean. A machine that the
# emulator has killed is run again, three times at most; each is said in a line `ferroce: run again`.

set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$SRC/scripts/machine/qemu.sh"
. "$SRC/scripts/machine/uml.sh"

prepare=
[ "${1-}" != --prepare ] || { prepare=1; shift; }
kernel=
while getopts k: option; do
	case $option in
	k) kernel=$OPTARG ;;
	*) die "usage: vm.sh [-k KERNEL] SCRIPT" ;;
	esac
done
shift $((OPTIND - 1))
script=${1-}
[ -n "$prepare" ] || [ -f "$script" ] || die "RUN=SCRIPT is missing, or no such file: '$script'"
while IFS='=' read -r name value; do
	[ -n "${!name-}" ] || export "$name=$value"
done < <(sed -n 's/^# machine: *//p' "${script:-/dev/null}" | tr ' ' '\n')
kernel=${kernel:-${KERNEL:-stock}}
check_kernel "$kernel"

DRIVER=${DRIVER:-ferroce}
PEER_DRIVER=${PEER_DRIVER:-$DRIVER}
TOPOLOGY=${TOPOLOGY:-single}
arch=$(architecture_of "${KVER-}-$(flavour)")
# The factor by which time limits grow. Limits in seconds are those of the stock kernel.
case $kernel in
debug | debugrt | kcsan) SLOWNESS=5 ;;
umdebug) SLOWNESS=2 ;;
*)
	SLOWNESS=1
	# QEMU emulates this architecture at half the speed.
	[ "$arch" = amd64 ] || SLOWNESS=2
	;;
esac
seconds=$((${VM_TIMEOUT:-600} * SLOWNESS))
for driver in "$DRIVER" "$PEER_DRIVER"; do
	case $driver in
	ferroce | rxe | none) ;;
	*) die "DRIVER is ferroce, rxe or none, not '$driver'" ;;
	esac
done
PROVIDER=${PROVIDER:-rxe}
case $PROVIDER in
rxe | direct | present) ;;
*) die "PROVIDER is rxe, direct or present, not '$PROVIDER'" ;;
esac
case $TOPOLOGY in
single | netns) nodes=(a) ;;
pair) nodes=(a b) ;;
*) die "TOPOLOGY is single, netns or pair, not '$TOPOLOGY'" ;;
esac

if is_user_mode "$kernel"; then
	[ "$TOPOLOGY" != pair ] || die "there is no TOPOLOGY=pair in user-mode Linux"
fi
need python3 python3-minimal

# make_job NODE DIR: everything this run brings into the machine.
make_job() {
	local node=$1 job=$2/job.d mine=$DRIVER theirs=$PEER_DRIVER
	[ "$node" = a ] || { mine=$PEER_DRIVER; theirs=$DRIVER; }
	mkdir -p "$job"
	find "$SRC/tests/vm" -type f -not -name "*.pyc" -exec cp -t "$job" {} +
	cp "$script" "$job/run.sh"
	[ -z "$MODULE" ] || cp "$RUN"/*.ko "$job/"
	[ -z "${VM_FILES-}" ] || cp -r $VM_FILES "$job/"
	[ "$PROVIDER" = rxe ] || cp -rL "$(PROVIDER_ARCH=$arch "$SRC/scripts/release/provider.sh")" "$job/provider"
	[ "$PROVIDER" != present ] ||
		PROVIDER_ARCH=$arch "$SRC/scripts/release/package.sh" --provider "$job/provider" >/dev/null
	{
		printf '%s=%q\n' NODE "$node" DRIVER "$mine" PEER_DRIVER "$theirs" TOPOLOGY "$TOPOLOGY" \
			PROVIDER "$PROVIDER" \
			NOW "$(date +%s)" VM_LIB /ferroce/lib.sh KERNEL "$kernel" SLOWNESS "$SLOWNESS"
		[ -z "${SEED-}" ] || printf 'SEED=%q\n' "$SEED"
		# Settings of a test's own.
		printf '%s\n' ${VM_ENV-}
	} >"$job/env"
	[ "$SLOWNESS" = 1 ] || make_patient "$job/patient"
	! is_user_mode "$kernel" || return 0
	job_file "$2/job" "$job"
	rm -rf "$job"
}

# make_patient DIR: for the path in a slow guest: extends the limits of `timeout SECONDS COMMAND` in scripts.
make_patient() {
	mkdir "$1"
	printf '#!/bin/sh\nseconds=$1\nshift\nexec /usr/bin/timeout $((seconds * %s)) "$@"\n' "$SLOWNESS" >"$1/timeout"
	chmod +x "$1/timeout"
}

# netdev NODE: where the machine's network card ends.
netdev() {
	case $TOPOLOGY-$1 in
	pair-a) echo "stream,id=net,server=on,addr.type=unix,addr.path=$RUN/wire" ;;
	pair-b) echo "stream,id=net,server=off,addr.type=unix,addr.path=$RUN/wire" ;;
	*) echo hubport,id=net,hubid=0 ;;
	esac
}

# show NODE: what the job prints, as it prints it, until the machine has ended. A console of user mode ends lines as
# terminals do.
show() {
	local prefix=
	[ "$TOPOLOGY" != pair ] || prefix="[$1] "
	tail -n +1 -s 0.2 -f --pid="$2" "$RUN/$1/out" 2>/dev/null | sed -u "s/\r$//; s/^/$prefix/"
}

# last_words CONSOLE: from the first complaint on, or the end. User mode complains about itself while it boots.
last_words() {
	local words first
	words=$(sed -n '/ferroce-test: the job begins/,$p' "$1")
	[ -n "$words" ] || words=$(<"$1")
	first=$(grep -n -m 1 -E 'Oops|BUG|WARNING|Kernel panic|detected stalls' <<<"$words" | cut -d : -f 1)
	if [ -n "$first" ]; then tail -n "+$first" <<<"$words" | head -n 40; else tail -n 40 <<<"$words"; fi
}

# killed_by_emulator: whether that is what one of the machines died of, and few runs have ended so.
killed_by_emulator() {
	local node
	[ "${VM_AGAIN:-0}" -lt 3 ] && ! is_user_mode "$kernel" && [ "$accelerator" = tcg ] || return 1
	for node in "${nodes[@]}"; do
		if stale_breakpoint "$RUN/$node/console"; then return 0; fi
	done
	return 1
}

# verdict NODE AWAITED: prints why a run has failed; returns the exit code of vm.sh.
verdict() {
	local dir=$RUN/$1 rc
	case $2 in
	1)
		echo "ferroce: machine $1 died; its console:" >&2
		last_words "$dir/console" >&2
		return 125
		;;
	2)
		echo "ferroce: machine $1 was not done after $seconds s" >&2
		tail -n 20 "$dir/console" >&2
		return 124
		;;
	esac
	rc=$(sed -n 's/^done \([0-9]*\).*/\1/p' "$dir/ctl")
	if ! "$SRC/scripts/machine/check-dmesg.sh" "$dir/dmesg" >&2; then
		echo "ferroce: the kernel of machine $1 complains (above)" >&2
		[ "$rc" != 0 ] || rc=1
	fi
	return "$rc"
}

RUN=$(mktemp -d "${TMPDIR:-/tmp}/ferroce-vm.XXXXXX")
pids=()
clean_up() {
	local pid
	for pid in "${pids[@]}"; do machine_stop "$pid"; done
}
trap clean_up EXIT
trap 'clean_up; rm -rf "$RUN"; exit 130' INT TERM

if is_user_mode "$kernel"; then
	user_machine_prepare "$kernel"
else
	IMAGE=$("$SRC/scripts/root/image.sh" "$kernel")
	machine_kernel "$kernel"
	machine_arch
fi
PLUGIN=
if [ -n "${VM_PLUGIN-}" ]; then PLUGIN=$("$SRC/scripts/machine/plugin.sh" "${MACHINE_QEMU-}"); fi
MODULE=
if [ -z "$prepare" ] && [[ " $DRIVER $PEER_DRIVER " == *' ferroce '* ]]; then
	given=FERROCE_KO
	[ "$kernel" = stock ] || given=FERROCE_KO_$kernel
	ko=${!given:-$("$SRC/scripts/build.sh" -k "$kernel")}
	MODULE=$RUN/ferroce.ko
	cp "$ko" "$MODULE"
	for ko in "$("$SRC/scripts/build.sh" --objects -k "$kernel")/tests/module/"*.ko; do
		[ ! -f "$ko" ] || cp "$ko" "$RUN/"
	done
	# Its debug information is ten times the module, and the guest has no use for it.
	"$SRC/scripts/root/in-root.sh" llvm-strip --strip-debug "$RUN"/*.ko
fi
STATE=
if ! is_user_mode "$kernel"; then
	accelerator=$(accelerator)
	if [ "$accelerator" = tcg ] && [ -z "${VM_COLD-}" ]; then STATE=$(saved_state); fi
fi
if [ -n "$prepare" ]; then
	rm -rf "$RUN"
	exit
fi

shows=()
for node in "${nodes[@]}"; do
	mkdir "$RUN/$node"
	: >"$RUN/$node/out"
	make_job "$node" "$RUN/$node"
	if is_user_mode "$kernel"; then
		user_machine_run "$RUN/$node"
	else
		machine_run "$RUN/$node" "$accelerator" "$(netdev "$node")"
	fi
	pids+=("$MACHINE_PID")
	show "$node" "$MACHINE_PID" &
	shows+=($!)
	# The second machine connects to the first.
	[ "$TOPOLOGY-$node" != pair-a ] || until [ -S "$RUN/wire" ]; do sleep 0.05; done
done

result=0
died=
end=$(($(uptime_seconds) + seconds))
for i in "${!nodes[@]}"; do
	awaited=0
	left=$((end - $(uptime_seconds)))
	machine_await "${pids[i]}" "$RUN/${nodes[i]}/ctl" "done" "$((left > 0 ? left : 0))" || awaited=$?
	# What it printed must be shown whole before anything else is said.
	[ "$awaited" = 0 ] || machine_stop "${pids[i]}"
	wait "${shows[i]}" || true
	machine_stop "${pids[i]}"
	rc=0
	verdict "${nodes[i]}" "$awaited" || rc=$?
	[ "$rc" != 125 ] || died=1
	[ "$result" != 0 ] || result=$rc
	if [ -n "${VM_OUT-}" ]; then
		mkdir -p "$VM_OUT/${nodes[i]}"
		# A machine that died has told less.
		for file in "$RUN/${nodes[i]}"/{dmesg,console}; do
			[ ! -e "$file" ] || cp "$file" "$VM_OUT/${nodes[i]}/"
		done
		[ ! -s "$RUN/${nodes[i]}/files" ] || tar -xf "$RUN/${nodes[i]}/files" -C "$VM_OUT/${nodes[i]}"
	fi
done
if [ "$result" = 0 ]; then rm -rf "$RUN"; else echo "ferroce: logs are kept in $RUN${SEED:+; SEED was $SEED}" >&2; fi
if [ "$died" = 1 ] && killed_by_emulator; then
	echo "ferroce: run again: the emulator ran a breakpoint that was no longer there"
	clean_up
	KERNEL=$kernel VM_AGAIN=$((${VM_AGAIN:-0} + 1)) exec "$SRC/scripts/vm.sh" "$script"
fi
exit "$result"
