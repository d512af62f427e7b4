#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-sandbox.sh: runs tests/sandbox/caller.sh, that is, ferroce-run, in a container of podman's as a user without
# rights: with the engine's default seccomp profile, no capability, a read-only root and a /dev/shm of 64 MiB. The
# container has the programs of Debian trixie, or of the release that GUEST names.
#
# check-sandbox.sh --many [N]: N calls (1000), 50 at a time; none may fail or leave anything.
# check-sandbox.sh --action: the steps of scripts/action, as they stand, with a release that is a directory.
# check-sandbox.sh --time: how long a call takes, the median of 20, and the memory of a machine at rest.

set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$SRC/scripts/container.sh"

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
need_container
need curl curl
need zstd zstd
TREE=$("$SRC/scripts/sandbox.sh")
guest=$("$SRC/scripts/toolchain.sh" guest)
chmod 777 "$WORK"
cp "$SRC/tests/sandbox/"{lib,caller}.sh "$WORK/"

# block FILE START: the lines of a file that are indented deeper than its line START, which is before them.
block() {
	awk -v start="$2" '
		{ match($0, /^ */) }
		inside && RLENGTH <= indent && NF { inside = 0; print "" }
		inside { sub(/^ *(- )?/, ""); print }
		$0 ~ start { inside = 1; indent = RLENGTH }' "$1"
}

# try_action FILE: the two steps of the action, each in a shell of its own, as a runner does.
try_action() {
	local steps
	export RUNNER_TEMP=$WORK/temp GITHUB_PATH=$WORK/path REPOSITORY=file://$WORK/release VERSION
	export RUN='pwd; ls /sys/class/infiniband >devices' TOPOLOGY=netns NODES=2 OPTIONS='--timeout 60s'
	mkdir "$RUNNER_TEMP"
	mapfile -d '' steps < <(block "$1" '^ *run: \\|$' | awk -v RS= -v ORS='\0' 1)
	bash -eo pipefail -c "${steps[0]}"
	PATH=$PATH:$(<"$GITHUB_PATH") bash -eo pipefail -c "${steps[1]}"
	[ "$(paste -sd ' ' devices)" = "fr0 fr1" ]
}

# try_gitlab FILE: the job's lines in one shell, as a runner does.
try_gitlab() {
	printf 'test:\n\tls /sys/class/infiniband >devices\n' >Makefile
	FERROCE_VERSION=$VERSION FERROCE_URL=file://$WORK/release/releases/download as_root bash -eo pipefail -c \
		"mount -t tmpfs opt /opt; $(block "$1" '^ *before_script:$'; block "$1" '^ *script:$')"
	[ "$(paste -sd ' ' devices)" = "fr0 fr1" ]
}

case ${1-} in
--action)
	"$SRC/scripts/package.sh" --sandbox "$WORK/release/releases/download/v$VERSION" >/dev/null
	cd "$WORK"
	number=0
	for name in action gitlab; do
		file=$(echo "$SRC/scripts/action/$name"*.yml)
		rm -f devices
		# Not as a condition, in which errors would not end it.
		(set -e; "try_$name" "$file") >log 2>&1 &
		if wait $!; then verdict=ok; else verdict='not ok'; sed 's/^/# /' log; fi
		echo "$verdict $((++number)) the steps of ${file##*/}"
		[ "$verdict" = ok ] || failed=1
	done
	exit "${failed:-0}"
	;;
--many)
	cd "$WORK"
	mkdir home
	export HOME=$WORK/home
	seq "${2:-1000}" | xargs -P 50 -I{} "$TREE/bin/ferroce-run" --memory 256M --cpus 1 -- \
		sh -c 'ibv_devinfo -d $FERROCE_DEVICE >/dev/null 2>&1; echo {} done' >done
	left=$(pgrep -c -x linux || true)
	[ "$(wc -l <done)" = "${2:-1000}" ] && [ "$left" = 0 ] && [ -z "$(ls -A home)" ] ||
		die "of ${2:-1000} calls $(wc -l <done) have ended well, $left kernels are left"
	echo "ok 1 ${2:-1000} calls, 50 at a time"
	;;
--time)
	for _ in {1..20}; do
		start=$(date +%s%N)
		"$TREE/bin/ferroce-run" -- true
		echo $((($(date +%s%N) - start) / 1000000))
	done | sort -n | sed -n '10s/$/ ms from the call to its end, median of 20/p'
	"$TREE/bin/ferroce-run" -- sleep 3 &
	sleep 2
	pid=$(pgrep -o -x linux)
	awk '/^Pss:/ { print $2 " kB for the kernel and all memory of the machine" }' "/proc/$pid/smaps_rollup"
	wait
	;;
'')
	mkdir -m 777 "$WORK/small"
	container "$TREE" "$WORK" --tmpfs /srv/small:rw,size=4m,mode=1777 "$guest" bash caller.sh
	;;
esac
