#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernels.sh [--sample | --floor] [KVER/FLAVOUR...]: builds the module for each kernel of KERNEL_TABLE in
# scripts/versions, or for those named, and runs a short suite on it. Each step is a line of KTAP.
#
# --floor takes the oldest supported kernel, and scripts that see differences between cores.
#
# Without arguments, the result is written to Documentation/kernels.inc, which Documentation/kernels.rst shows.
# --all does the same without writing it. --sample takes one kernel and a fifth of the short suite, which change with
# the date (or SAMPLE=NUMBER).
#
#	builds       ferroce.ko, and the modules of the tests
#	code         what check-module.sh asks of it
#	loads        the module loads; devices come and go; it unloads (10-link)
#	smoke        traffic over IPv4 and IPv6 (00-smoke)
#	short suite  the scripts that use locks, rings and packets most
#
# Kernels of experimental are canaries: their failures are told, and do not fail the run.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

SUITE_SCRIPTS="20-pingpong 26-headers 42-srq 43-cq 45-transport 46-odp 48-windows 49-kernel-verbs 49-local
60-netdev-events"
SAMPLE=${SAMPLE:-$(($(date +%s) / 86400))}
LOGS=$SRC/build/kernels
OUT=$SRC/Documentation/kernels.inc

# kernels: KVER/FLAVOUR of each.
kernels() {
	local version flavour flavours
	while read -r version flavours; do
		for flavour in $flavours; do echo "$version/$flavour"; done
	done <<<"$KERNEL_TABLE"
}

# sample: sets `chosen` to one of them, and takes every fifth script. The default kernel has a run of its own.
sample() {
	local all
	mapfile -t all < <(kernels | grep -vx "$KVER_DEFAULT/amd64")
	chosen=("${all[SAMPLE % ${#all[@]}]}")
	SUITE_SCRIPTS=$(tr -s ' \n' '\n' <<<"$SUITE_SCRIPTS" |
		awk -v turn=$((SAMPLE / ${#all[@]})) 'NR % 5 == turn % 5' | paste -s -d ' ')
}

# step NAME COMMAND...: a line of KTAP without its number; returns whether it passed.
step() {
	local name=$1 log=$LOGS/${1//[ \/:]/-}.log
	shift
	if "$@" </dev/null >"$log" 2>&1; then
		echo "ok $name"
		return
	fi
	if [ "$canary" = 1 ]; then
		echo "ok $name # SKIP a canary, which failed:" \
			"$(grep -m 1 -E 'error|^not ok|ferroce:' "$log" || tail -n 1 "$log")"
	else
		echo "not ok $name"
		{ grep -E -A 8 '^ *error|^(\[[ab]\] )?not ok' "$log" || true; tail -n 15 "$log"; } | sed 's/^/# /'
	fi
	return 1
}

# run SCRIPT: with the settings of its first run.
run() {
	local file=$SRC/$(vm_script "$1")
	env $(sed -n -E 's/^# vm: *(alone)?//p' "$file" | sed -n 1p | sed 's/KERNEL=[a-z]*//') \
		"$SRC/scripts/vm.sh" "$file"
}

# try_kernel KVER FLAVOUR: prints KTAP without numbers, and writes a line of the table to $LOGS/KVER-FLAVOUR.row.
try_kernel() {
	local started=$SECONDS builds=no seconds=- size=- code=- loads=- smoke=- passed=0 all=0
	local kernel release rust=- name script objects
	# Of another kernel.
	unset FERROCE_KO
	export KVER=$1 FLAVOUR=$2
	canary=0
	[ "$1" != experimental ] || canary=1
	name="$1 $2"
	"$SRC/scripts/kernel/kernel.sh" >/dev/null 2>&1 || true
	seconds=$SECONDS
	if step "$name: builds" "$SRC/scripts/build.sh"; then
		builds=yes code=no loads=no smoke=no seconds=$((SECONDS - seconds))
		kernel=$("$SRC/scripts/kernel/kernel.sh")
		release=$(<"$kernel/release")
		objects=$("$SRC/scripts/build.sh" --objects)
		rust=$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="rustc \([^ ]*\) .*/\1/p' "$kernel/build/.config")
		[ ! -e "$objects/rust/rust.o" ] || rust="built in"
		size=$(($(module_size "$objects/rust/ferroce.ko") / 1024))
		name=$release
		TOOLCHAIN=$(toolchain_of "$release")
		export TOOLCHAIN
		if step "$name: code" "$SRC/scripts/root/in-root.sh" "$SRC/scripts/checks/check-module.sh" \
			"$objects/rust/ferroce.ko" "$kernel/build"; then code=yes; fi
		unset TOOLCHAIN
		# What the name of an archive stood for is not looked up again.
		KVER=${release%%-*}
		FERROCE_KO=$objects/rust/ferroce.ko
		export FERROCE_KO
		if step "$name: loads" run 10-link; then loads=yes; fi
		if step "$name: smoke" run 00-smoke; then smoke=yes; fi
		for script in $SUITE_SCRIPTS; do
			all=$((all + 1))
			if step "$name: $script" run "$script"; then passed=$((passed + 1)); fi
		done
	fi
	printf '"%s","%s",%s,%s,%s,%s,%s,%s,"%s",%s\n' "${release:-$1-$2}" "$rust" "$builds" "$seconds" "$size" \
		"$code" "$loads" "$smoke" "$passed of $all" "$(((SECONDS - started + 59) / 60))" >"$LOGS/$1-$2.row"
}

# module_size FILE: the bytes that the kernel loads.
module_size() { "$SRC/scripts/root/in-root.sh" size "$1" </dev/null | awk 'NR == 2 { print $4 }'; }

# table: the lines, in the order of KERNEL_TABLE.
table() { for kernel in "${chosen[@]}"; do cat "$LOGS/${kernel/\//-}.row"; done; }

write_table() {
	{
		echo '.. SPDX-License-Identifier: GPL-2.0'
		echo ".. Written by scripts/kernel/kernels.sh on $(date +%F)."
		printf '\n.. csv-table::\n   :header: %s\n\n' \
			'Kernel,Rust,builds,s,KiB,code,loads,smoke,short suite,minutes'
		table | sed 's/^/   /'
	} >"$OUT"
}

case ${1-} in
--sample) sample ;;
--floor)
	chosen=("$SUITE/amd64")
	SUITE_SCRIPTS="40-verbs 43-cq 46-dma-buf 49-kernel-verbs"
	LOGS=$SRC/build/kernels-floor
	;;
--all) mapfile -t chosen < <(kernels) ;;
'') mapfile -t chosen < <(kernels) && write=1 ;;
*) chosen=("$@") ;;
esac
rm -rf "$LOGS"
mkdir -p "$LOGS"
for kernel in "${chosen[@]}"; do
	[[ $kernel == */* ]] || die "a kernel is KVER/FLAVOUR, for example $KVER_DEFAULT/amd64, not '$kernel'"
done
echo "# kernels: ${chosen[*]}; short suite:" $SUITE_SCRIPTS
# As many at once as there are processors. What each prints is shown when it ends.
{
	for kernel in "${chosen[@]}"; do
		while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
		{
			try_kernel "${kernel%%/*}" "${kernel#*/}" >"$LOGS/${kernel/\//-}.tap"
			cat "$LOGS/${kernel/\//-}.tap"
		} &
	done
	# The time of a job counts only if it was waited for.
	wait
} | {
	number=0
	while IFS= read -r line; do
		[[ ! $line =~ ^(not\ )?ok\  ]] || line="${BASH_REMATCH[0]}$((++number)) ${line#"${BASH_REMATCH[0]}"}"
		echo "$line"
	done
	echo "1..$number"
}
[ -z "${write-}" ] || write_table
table | column -t -s , | tr -d '"' >&2
! grep -q '^not ok' "$LOGS"/*.tap
