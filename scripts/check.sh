#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh [--long] [PATTERN...]: every test, or those whose name matches a shell pattern (`vm/*`,
# `cargo-*`); with --long, also those that take long. Steps come from scripts/checks and from
# tests/vm, where each `# vm:` line of a script is a run with these settings:
#
#	# vm: TOPOLOGY=netns PEER_DRIVER=rxe     variables of vm.sh
#	# vm: alone TOPOLOGY=single              not beside other steps: it measures time
#	# vm: TOPOLOGY=pair                      two machines at once, so not beside other steps either
#	# vm: TOPOLOGY=single KERNEL=debug       on the debug kernel
#	# long: TOPOLOGY=pair VM_ENV=ALL=1       only with --long; its name ends in :long1, ...
#
# With --long, the numbered scripts run on the debug kernel, too, with all their settings.
#
# As many steps run at once as there are processors. Logs stay in build/check. The last line
# is `N passed, N failed, N skipped`, and the exit code is 0 only if nothing failed.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

cd "$SRC"
LOGS=$SRC/build/check
SKIPPED=77
LONG=
[ "${1-}" != --long ] || { LONG=1; shift; }

# steps: "NAME WITH COMMAND" of every step, in the order they start; WITH is `others` or `alone`.
steps() {
	local file
	sed -e '/^#/d' -e '/^$/d' -e 's/^\([^ ]*\) */\1 others /' \
		-e 's/^\([^ ]* others\) @ /\1 scripts\/in-root.sh /' scripts/checks
	for file in tests/vm/*.sh; do vm_steps "$file"; done
}

# vm_steps FILE: one for each of its `# vm:` and `# long:` lines.
vm_steps() {
	local name=${1##*/} word line with number=0 long=0 label
	while read -r word line; do
		with=others
		case $line in
		alone*) with=alone line=${line#alone} ;;
		*TOPOLOGY=pair*) with=alone ;;
		esac
		if [ "$word" = vm: ]; then
			label=$((++number))
		else
			label=long$((++long))
			[ -n "$LONG" ] || continue
		fi
		printf 'vm/%s:%s %s env %s scripts/vm.sh %s\n' "${name%.sh}" "$label" "$with" "$line" "$1"
		case $LONG-$word-$name-$line in
		*KERNEL=*) ;;
		1-vm:-[0-9]*) printf 'vm/%s:%s:debug %s env KERNEL=debug %s scripts/vm.sh %s\n' \
			"${name%.sh}" "$label" "$with" "$line" "$1" ;;
		esac
	done < <(sed -n -E 's/^# (vm|long): */\1: /p' "$1")
	# A test that would never run is a mistake; what is only sourced says so.
	[ $((number + long)) -gt 0 ] || grep -q '^# .*[Ss]ourced' "$1" ||
		echo "vm/${name%.sh} others die '$1 has no # vm: line'"
}

wanted() { # NAME PATTERN...
	local name=$1 pattern
	shift
	[ $# -gt 0 ] || return 0
	for pattern; do
		# shellcheck disable=SC2254
		case $name in $pattern) return 0 ;; esac
	done
	return 1
}

# count LOG RC: "PASSED FAILED SKIPPED" of one step. What it printed counts where it is KTAP or a cargo
# summary; but an exit code that says otherwise is a failure of its own.
count() {
	awk -v rc="$2" -v skipped_rc="$SKIPPED" '
		{ sub(/^\[[ab]\] /, "") }
		/^ok [0-9]+.*# SKIP/ { skipped++; next }
		/^ok [0-9]+/ { passed++; next }
		/^not ok [0-9]+/ { failed++; next }
		/^test result: / {
			for (i = 2; i <= NF; i++) {
				if ($i ~ /^passed/) passed += $(i - 1)
				if ($i ~ /^failed/) failed += $(i - 1)
				if ($i ~ /^ignored/) skipped += $(i - 1)
			}
		}
		END {
			if (rc == skipped_rc) skipped++
			else if (rc != 0 && !failed) failed++
			else if (rc == 0 && !(passed + failed + skipped)) passed++
			print passed + 0, failed + 0, skipped + 0
		}' "$1"
}

# run_step NAME COMMAND: writes its log and its result, says how it went.
run_step() {
	local log=$LOGS/${1//\//-} started=$SECONDS rc=0 result passed failed skipped verdict=PASS
	(eval "$2") >"$log.log" 2>&1 </dev/null || rc=$?
	result=$(count "$log.log" "$rc")
	echo "$result" >"$log.result"
	read -r passed failed skipped <<<"$result"
	[ "$passed" -gt 0 ] || verdict=SKIP
	[ "$failed" -eq 0 ] || verdict=FAIL
	{
		printf '  %s    %-22s %4s passed%s%s  %s s\n' "$verdict" "$1" "$passed" \
			"$([ "$failed" -eq 0 ] || echo ", $failed failed")" \
			"$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")" "$((SECONDS - started))"
		if [ "$verdict" = FAIL ]; then tail -n 60 "$log.log" | sed 's/^/    | /'; fi
	} | cat
}

# What many steps need is made first, once, and with all processors. The machines all load this one
# build of the module for their kernel, whatever happens to the sources meanwhile.
prepare() { # NAMES
	scripts/kernel.sh >/dev/null
	scripts/image.sh >/dev/null
	run_step build scripts/build.sh
	if grep -q ' 0 ' "$LOGS/build.result"; then
		cp ferroce.ko "$LOGS/"
		export FERROCE_KO=$LOGS/ferroce.ko
	fi
	grep -q ' KERNEL=debug ' <<<"$1" || return 0
	scripts/image.sh debug >/dev/null
	run_step build-debug scripts/build.sh -k debug
	if grep -q ' 0 ' "$LOGS/build-debug.result"; then
		cp build/debug/rust/ferroce.ko "$LOGS/ferroce-debug.ko"
		export FERROCE_KO_debug=$LOGS/ferroce-debug.ko
	fi
}

rm -rf "$LOGS"
mkdir -p "$LOGS"
chosen=$(steps | while read -r name rest; do
	if wanted "$name" "$@"; then echo "$name $rest"; fi
done)
prepare "$chosen"
alone_steps=()
while read -r name with command <&3; do
	if [ "$with" = alone ]; then
		alone_steps+=("$name" "$command")
		continue
	fi
	while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
	run_step "$name" "$command" &
done 3<<<"$chosen"
wait
set -- "${alone_steps[@]}"
while [ $# -gt 0 ]; do
	run_step "$1" "$2"
	shift 2
done

cat "$LOGS"/*.result 2>/dev/null | awk '
	{ passed += $1; failed += $2; skipped += $3 }
	END {
		printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
		exit (failed > 0 || passed == 0)
	}'
