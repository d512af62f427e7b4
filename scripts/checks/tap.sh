# SPDX-License-Identifier: GPL-2.0
#
# Results of a script on the host as lines of KTAP. Sourced by scripts/check-*.sh, which set LOG to the file that tells
# why a command has failed; a script may define tell_why itself. The last line is `finish`.

number=0
failed=0

tell_why() { tail -n 20 "$LOG" | sed 's/^/# /'; }

# check NAME COMMAND...: one test.
check() {
	local name=$1
	shift
	number=$((number + 1))
	if "$@"; then
		echo "ok $number $name"
	else
		failed=1
		echo "not ok $number $name"
		tell_why
	fi
}

# logged COMMAND...: what it prints goes to LOG.
logged() { "$@" >"$LOG" 2>&1; }

finish() {
	echo "1..$number"
	exit "$failed"
}
