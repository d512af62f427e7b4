#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ktap.sh DIRECTORY: prints the results of a run of check.sh, whose logs are in that directory, as one KTAP: a test for
# each step, and its subtests, for the kernel's `kunit.py parse` and for what else reads KTAP. The plan comes first
# there, which tests that print as they run cannot know.

set -euo pipefail

cd "$1"
shopt -s nullglob
steps=(*.result)
echo "KTAP version 1"
echo "1..${#steps[@]}"
number=0
for result in "${steps[@]}"; do
	name=${result%.result}
	read -r passed failed _ <"$result"
	verdict=ok skipped=''
	[ "$failed" = 0 ] || verdict='not ok'
	[ "$passed$failed" != 00 ] || skipped=' # SKIP'
	# A machine that was run again has printed more than counts. Words after "#" would be a directive.
	awk '
		{ sub(/^\[[ab]\] /, "") }
		/^ferroce: run again:/ { count = 0 }
		/^(not )?ok [0-9]+/ {
			verdict = /^not/ ? "not ok" : "ok"
			sub(/^(not )?ok [0-9]+ *(- )?/, "")
			skip = match($0, /# SKIP.*/) ? " " substr($0, RSTART) : ""
			sub(/#.*/, "")
			lines[++count] = verdict " " count " " $0 skip
		}
		END {
			if (!count) exit
			print "    KTAP version 1\n    1.." count
			for (i = 1; i <= count; i++) print "    " lines[i]
		}' "$name.log"
	echo "$verdict $((++number)) $name$skipped"
done
