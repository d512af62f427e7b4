# SPDX-License-Identifier: GPL-2.0
#
# Sourced by check.sh. Finds the inputs of a step: files of the tree, and settings.
#
# A step on a machine does not depend on files that only other scripts of tests/vm need, nor on the tests of the host.
# A script or a program there needs the files that it names (`name.py`, or an import), those that they name, and those
# that no file names.

# reached: "SCRIPT FILE" for each script of tests/vm and each file there that it needs.
reached() {
	awk '
		function need(script, name, parts, i) {
			if (!(name in names) || (script, name) in seen) return
			seen[script, name]
			print path[script], path[name]
			for (i = split(names[name], parts, " "); i > 0; i--) need(script, parts[i])
		}
		FNR == 1 { name = FILENAME; sub(/.*\//, "", name); path[name] = FILENAME; names[name] = "" }
		/^ *(import|from) / { names[name] = names[name] " " $2 ".py" }
		{
			for (rest = $0; match(rest, /[a-z0-9_-]+\.(py|sh)/); rest = substr(rest, RSTART + RLENGTH))
				names[name] = names[name] " " substr(rest, RSTART, RLENGTH)
		}
		END { for (name in names) if (name ~ /\.sh$/) need(name, name) }' tests/vm/*/*.sh tests/vm/*/*.py
}

# hashed: "HASH FILE" for each file of the tree except Documentation; nothing without git.
hashed() {
	git rev-parse --git-dir >/dev/null 2>&1 || return 0
	# git may still list deleted files.
	git ls-files -z --cached --others --exclude-standard -- ':!Documentation' | xargs -0 sha256sum 2>/dev/null || :
}

# sources REACHED HASHED NAME: the cache key of a step, a hash of its inputs, from the output of the functions above;
# nothing without git.
sources() {
	local script=
	[ -n "$2" ] || return 0
	case $3 in vm/*) script=${3%%:*} script=$(vm_script "${script#vm/}") ;; esac
	key "${KVER-} ${FLAVOUR-} ${GUEST-} ${DRIVER-} ${PEER_DRIVER-} ${TOPOLOGY-} ${QUICK-} ${VM_ENV-}" \
		"${VM_CMDLINE-} ${FUZZ_SECONDS-}" \
		"$(awk -v script="$script" '
			NR == FNR { if ($1 == script) mine[$2]; else others[$2]; next }
			script && $2 ~ /^tests\/(bench|fuzz|host|loom)\// { next }
			!script || $2 in mine || !($2 in others)' <(echo "$1") <(echo "$2"))"
}
