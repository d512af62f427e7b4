#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh [--long | --quick] [PATTERN...]: every test, or those whose name matches a shell pattern (`vm/*`,
# `cargo-*`); with --long, also those that take long; with --quick, those that take seconds. Steps come from
# scripts/checks/steps and from tests/vm, where each `# vm:` line of a script is a run with these settings:
#
#	# vm: TOPOLOGY=netns PEER_DRIVER=rxe     variables of vm.sh
#	# vm: alone TOPOLOGY=single              not beside other steps: it measures time
#	# vm: TOPOLOGY=pair                      two machines at once, so not beside other steps either
#	# vm: TOPOLOGY=single KERNEL=umdebug     on a debug kernel
#	# long: TOPOLOGY=pair VM_ENV=ALL=1       only with --long; its name ends in :long1, ...; SEED is new
#	# quick: TOPOLOGY=single KERNEL=umdebug  only with --quick; its name ends in :quick1, ...
#
# Without an option or PATTERN, that is a sample, which changes with the date (or SAMPLE=NUMBER): of a script with
# several `# vm:` lines every other run, every other suite, a script without a number, and one of the `sampled` steps.
#
# With --long, the numbered scripts run on the debug kernels, too, with all their settings, but for those that name
# KERNEL=stock; but of user-mode Linux there are no two machines. Those that need no other driver also run with
# PROVIDER=direct.
#
# As many steps run at once as there are processors, and twice as many where all are on user-mode kernels, which wait
# half of the time; fewer if memory is short. Logs stay in build/check, with all results in results.ktap, and what
# each step took in `times`: name, seconds, and seconds of a processor. The last line is `N passed, N failed,
# N skipped`, and the exit code is 0 only if nothing failed.
#
# A step that takes longer than STEP_MINUTES (90, and 480 with --long) has failed.
#
# RESUME=1 continues where earlier calls ended or were stopped, in any clone: a step that has passed with the same
# sources (see sources.sh), as recorded in the cache, is not run again and counts in the sum.

set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/sources.sh"

cd "$SRC"
LOGS=$SRC/build/check
SKIPPED=77
OWN_KERNEL=' KERNEL=(debug|kcsan|umdebug) '
# Steps that boot the stock kernel, or look at the module for it.
STOCK_MODULE='scripts/vm[.]sh|check-(frames|module|panics)[.]sh'
SAMPLE=${SAMPLE:-$(($(date +%s) / 86400))}
LONG='' QUICK=''
case ${1-} in
--long) LONG=1; shift ;;
--quick) QUICK=1; shift ;;
esac
[ -z "$LONG$QUICK$*" ] || SAMPLE=
# Ten times what the longest takes on two processors.
STEP_MINUTES=${STEP_MINUTES:-${LONG:+480}}
STEP_MINUTES=${STEP_MINUTES:-90}

# steps: "NAME WITH COMMAND" of every step, in the order they start; WITH is `others` or `alone`.
steps() {
	local file
	awk -v long="$LONG" -v quick="$QUICK" -v sample="$SAMPLE" \
		-v turns="$(grep -cE '^[^# ]+ +sampled ' scripts/checks/steps)" '
		/^(#|$)/ { next }
		{
			name = $1
			sub(/^[^ ]+ +/, "")
			kind = ""
			if (/^(long|sampled|quick|only-quick) /) { kind = $1; sub(/^[^ ]+ +/, "") }
			sub(/^@ /, "scripts/root/in-root.sh ")
		}
		quick && kind !~ /quick/ { next }
		!quick && kind == "only-quick" { next }
		!long && kind == "long" { next }
		kind == "sampled" && sample != "" && (turn++ + sample) % turns { next }
		{ print name, "others", $0 }' scripts/checks/steps
	for file in tests/vm/*/*.sh; do vm_steps "$file"; done | sample
}

# sample: filters standard input: keeps the steps that SAMPLE selects; all of them if it is empty.
sample() {
	local all name rest script count turn suites=0
	[ -n "$SAMPLE" ] || { cat; return; }
	all=$(cat)
	while read -r name rest; do
		script=${name%%:*}
		count=$(grep -c "^$script:" <<<"$all")
		if [ "$count" -gt 1 ]; then
			turn=${name#*:} turn=${turn%%:*}
		elif [[ $script == vm/[0-9]* ]]; then
			turn=$SAMPLE # always
		else
			turn=$((suites++))
		fi
		if [ $(((turn + SAMPLE) % 2)) = 0 ]; then echo "$name $rest"; fi
	done <<<"$all"
}

# vm_steps FILE: one for each of its `# vm:`, `# long:` and `# quick:` lines.
vm_steps() {
	local name=${1##*/} word line plain with number=0 long=0 quick=0 label kernel kernels direct=$'\n'
	while read -r word line; do
		with=others
		case $line in
		alone*) with=alone line=${line#alone} ;;
		*TOPOLOGY=pair*) with=alone ;;
		esac
		if [ "$word" = vm: ]; then
			label=$((++number))
			[ -z "$QUICK" ] || continue
		elif [ "$word" = quick: ]; then
			label=quick$((++quick))
			[ -n "$QUICK" ] || continue
		else
			label=long$((++long))
			[ -n "$LONG" ] || continue
			# Each long run takes another way; tests print the seed, and take it back.
			line="SEED=${SEED:-$(date +%s)} $line"
		fi
		[[ $line != *KERNEL=* ]] || label+=:$(sed 's/.*KERNEL=\([a-z]*\).*/\1/' <<<"$line")
		printf 'vm/%s:%s %s env %s scripts/vm.sh %s\n' "${name%.sh}" "$label" "$with" "$line" "$1"
		case $LONG-$word-$name-$line in
		*TOPOLOGY=pair* | *DRIVER=* | *PROVIDER=* | *VM_ICOUNT=* | *VM_PLUGIN=*) ;;
		1-vm:-[0-9]*)
			plain="$(sed 's/ *KERNEL=[a-z]*//' <<<"$line") PROVIDER=direct KERNEL=umdebug"
			[[ $line != *KERNEL=stock* ]] || plain="$line PROVIDER=direct"
			if [[ $direct != *$'\n'"$plain"$'\n'* ]] && ! grep -qx "# vm: $plain" "$1"; then
				direct+=$plain$'\n'
				printf 'vm/%s:%s:direct %s env %s scripts/vm.sh %s\n' "${name%.sh}" "${label%%:*}" \
					"$with" "$plain" "$1"
			fi
			;;
		esac
		plain=${line/ KERNEL=umdebug/}
		case $LONG-$word-$name-$line in
		1-vm:-[0-9]*TOPOLOGY=pair*) kernels=(debug) ;;
		1-vm:-[0-9]*KERNEL=umdebug*) kernels=(stock debug) ;;
		*KERNEL=*) continue ;;
		1-vm:-[0-9]*) kernels=(debug umdebug) ;;
		*) continue ;;
		esac
		[ "$plain" = "$line" ] || ! grep -qx "# vm: $plain" "$1" || continue
		for kernel in "${kernels[@]}"; do
			grep -qx "# vm: $plain KERNEL=$kernel" "$1" ||
				printf 'vm/%s:%s:%s %s env KERNEL=%s %s scripts/vm.sh %s\n' "${name%.sh}" \
					"${label%:*}" "$kernel" "$with" "$kernel" "$plain" "$1"
		done
	done < <(sed -n -E 's/^# (vm|long|quick): */\1: /p' "$1")
	# A test that would never run is a mistake; a file that is only sourced mentions that.
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
		/^ferroce: run again:/ { passed = failed = skipped = 0 }
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

# why LOG: prints why a step failed. The failed tests come first, in case only the beginning is kept.
why() {
	grep -A 12 -E '^(\[[ab]\] )?not ok' "$1" | head -n 60 || true
	echo "..."
	tail -n 40 "$1"
}

# limited COMMAND: runs it for STEP_MINUTES at most. What hangs must not hide what all other steps have found.
limited() {
	local rc=0 began=$SECONDS
	timeout -k 30 "${STEP_MINUTES}m" bash -c '. scripts/lib.sh; eval "$1"' step "$1" || rc=$?
	# A machine that has run into its own limit says so itself.
	case $rc in
	124 | 137)
		[ $((SECONDS - began)) -lt "$(awk "BEGIN { print int($STEP_MINUTES * 60) }")" ] ||
			echo "ferroce: this step did not end within $STEP_MINUTES minutes"
		;;
	esac
	return "$rc"
}

# run_step NAME COMMAND: writes its log, its result and its time, and prints a line.
run_step() {
	local log=$LOGS/${1//\//-} rc=0 result passed failed skipped verdict=PASS real busy TIMEFORMAT='%R %U %S'
	{ time { limited "$2" >"$log.log" 2>&1 </dev/null; }; } 2>"$log.time" || rc=$?
	read -r real busy < <(awk '{ printf "%.0f %.0f\n", $1, $2 + $3 }' "$log.time")
	echo "$1 $real $busy" >>"$LOGS/times"
	result=$(count "$log.log" "$rc")
	echo "$result" >"$log.result"
	read -r passed failed skipped <<<"$result"
	remember "$1" "$result"
	[ "$passed" -gt 0 ] || verdict=SKIP
	[ "$failed" -eq 0 ] || verdict=FAIL
	{
		printf '  %s    %-22s %4s passed%s%s%s  %s s, %s s of a processor\n' "$verdict" "$1" "$passed" \
			"$([ "$failed" -eq 0 ] || echo ", $failed failed")" \
			"$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")" \
			"$(sed -n 's/^ferroce: \(run again: .*\)/, \1/p' "$log.log")" "$real" "$busy"
		if [ "$verdict" = FAIL ]; then why "$log.log" | sed 's/^/    | /'; fi
	} | cat
}

# passed NAME: the file of the cache that records that this step has passed with these sources.
passed() {
	local from
	from=$(sources "$REACHED" "$HASHED" "$1")
	[ -z "$from" ] || echo "$CACHE/passed/${1//\//-}-$from"
}

# has_passed NAME: copies its recorded result, if RESUME is set. Steps that read Documentation always run.
has_passed() {
	local mark
	case $1 in docs | style | unsafe) return 1 ;; esac
	[ -n "${RESUME-}" ] || return 1
	mark=$(passed "$1")
	[ -s "$mark" ] && cp "$mark" "$LOGS/${1//\//-}.result"
}

# remember NAME RESULT: records a pass, or removes the record, unless the sources have changed meanwhile.
remember() {
	local mark passed failed
	read -r passed failed _ <<<"$2"
	mark=$(passed "$1")
	[ -n "$mark" ] || return 0
	rm -f "$mark"
	if [ "$passed" -gt 0 ] && [ "$failed" = 0 ] && [ "$(hashed)" = "$HASHED" ]; then
		mkdir -p "${mark%/*}"
		echo "$2" >"$mark.$BASHPID"
		mv "$mark.$BASHPID" "$mark"
	fi
}

# What many steps need is made first, once, and with all processors. The machines all load this one
# build of the module for their kernel, whatever happens to the sources meanwhile.
prepare() { # STEPS
	[ -n "$1" ] || return 0
	scripts/kernel/kernel.sh >/dev/null
	scripts/root/image.sh >/dev/null
	run_step build scripts/build.sh
	# Not ferroce.ko at the top: a step may build it for another kernel meanwhile.
	if grep -q ' 0 ' "$LOGS/build.result"; then
		cp "$(scripts/build.sh --objects)/rust/ferroce.ko" "$LOGS/ferroce.ko.new" &&
			mv "$LOGS/ferroce.ko.new" "$LOGS/ferroce.ko"
	fi
}

# The kernels of our own that steps need, and the module for each. Takes minutes when they have never been built.
prepare_own() { # STEPS
	local kernel module
	for kernel in debug kcsan umdebug; do
		grep -q " KERNEL=$kernel " <<<"$1" || continue
		module=$(own_module "$kernel")
		is_user_mode "$kernel" || scripts/root/image.sh "$kernel" >/dev/null
		run_step "build-$kernel" "scripts/build.sh -k $kernel"
		if grep -q ' 0 ' "$LOGS/build-$kernel.result"; then
			cp "build/$kernel/rust/ferroce.ko" "$module"
		fi
	done
}

own_module() { echo "$LOGS/ferroce-$1.ko"; } # KERNEL

# run_steps STEPS AT_ONCE: so many at once, together with what already runs. Those that are to be alone are put off.
run_steps() {
	local name with command at_once=$2
	while read -r name with command <&3; do
		[ -n "$name" ] || continue
		if [ "$with" = alone ]; then
			alone_steps+=("$name" "$command")
			continue
		fi
		while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n || true; done
		run_step "$name" "$command" &
	done 3<<<"$1"
}

stop_with_children
scripts/root/cache.sh
rm -rf "$LOGS"
mkdir -p "$LOGS"
REACHED=$(reached)
HASHED=$(hashed)
chosen=$(steps | while read -r name rest; do
	if wanted "$name" "$@" && ! has_passed "$name"; then echo "$name $rest"; fi
done)
# Memory is looked at once, before machines have some of it.
most=$(machines_at_once $((2 * $(nproc))))
fewer=$((most < $(nproc) ? most : $(nproc)))
alone_steps=()
# What needs no module comes first, and what runs on kernels of our own last: meanwhile those are built.
own=$(grep -E "$OWN_KERNEL" <<<"$chosen" || true)
stock=$(grep -vE "$OWN_KERNEL" <<<"$chosen" | grep -E "$STOCK_MODULE" || true)
{ prepare "$stock" || true; : >"$LOGS/prepared"; prepare_own "$own"; } &
built=$!
run_steps "$(grep -vE "$OWN_KERNEL|$STOCK_MODULE" <<<"$chosen" || true)" "$fewer"
while [ ! -e "$LOGS/prepared" ] && kill -0 "$built" 2>/dev/null; do sleep 1; done
[ ! -e "$LOGS/ferroce.ko" ] || export FERROCE_KO=$LOGS/ferroce.ko
run_steps "$stock" "$fewer"
wait "$built" || true
for kernel in debug kcsan umdebug; do
	module=$(own_module "$kernel")
	[ ! -e "$module" ] || export "FERROCE_KO_$kernel=$module"
done
# The longest have high numbers, so they do not run on when all others have ended.
user_mode=$(grep ' KERNEL=umdebug ' <<<"$own" | tac || true)
run_steps "$user_mode" "$most"
run_steps "$(grep -v ' KERNEL=umdebug ' <<<"$own" || true)" "$fewer"
wait
set -- "${alone_steps[@]}"
while [ $# -gt 0 ]; do
	# In the background, as the shell hears of ^C at once only while it waits.
	run_step "$1" "$2" &
	wait $! || true
	shift 2
done

scripts/checks/ktap.sh "$LOGS" >"$LOGS/results.ktap"
cat "$LOGS"/*.result 2>/dev/null | awk '
	{ passed += $1; failed += $2; skipped += $3 }
	END {
		printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
		exit (failed > 0 || passed == 0)
	}'
