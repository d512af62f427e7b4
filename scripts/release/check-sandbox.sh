#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-sandbox.sh: runs tests/sandbox/caller.sh, that is, ferroce-run, in a container of podman's as a user without
# rights: with the engine's default seccomp profile, no capability, a read-only root and a /dev/shm of 64 MiB. The
# container has the programs of Debian trixie, or of the release that GUEST names.
#
# check-sandbox.sh --bare: the same with a root that has only busybox and musl.
# check-sandbox.sh --tcg: what matters most on QEMU without KVM, and that it is taken where nothing else starts.
# check-sandbox.sh --reproducible: two clones in two places make the same package and archive, byte for byte.
# check-sandbox.sh --many [N]: N calls (1000), 50 at a time; none may fail or leave anything.
# check-sandbox.sh --action: the steps of scripts/action, as they stand, with a release that is a directory.
# check-sandbox.sh --time: how long a call takes, the median of 20, and the memory of a machine at rest.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"
. "$SRC/scripts/root/container.sh"

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
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

# try_docker FILE: the image is built as it stands, on a root of Debian's as there is no registry of images here.
try_docker() {
	local image=localhost/ferroce-run-test base mirror
	mirror=$(debian_mirror)
	base=docker.io/library/$(sed -n 's/^FROM //p' "$1")
	mkdir image
	cp "$1" "$WORK/release/releases/download/v$VERSION"/*.deb image/
	mmdebstrap --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' --format=tar "${base##*:}" - \
		${mirror:+"$mirror"} </dev/null | podman_as import - "$base"
	podman_as build --network host --pull=never --tag "$image" image
	podman_as run --rm --network none --cap-drop all "${LIMITS[@]}" "$image" \
		ferroce-run --topology netns -- ibv_devinfo --list >devices
	podman_as rmi --force "$image" "$base"
	cat devices
	[ "$(grep -cw 'fr[01]' devices)" = 2 ]
}

# reproducible: with other permissions and another time zone, too. The kernels are those of the cache.
reproducible() {
	local name clone
	for name in one another/place; do
		clone=$WORK/$name
		git clone -q "$SRC" "$clone"
		(
			[ "$name" = one ] || { umask 077; export TZ=Asia/Tokyo; }
			"$clone/scripts/release/package.sh" --sandbox "$WORK/packages/$name" >&2
		)
		rm -rf "$CACHE/target-$(key "$clone")" "$CACHE"/.lock-build-"$(key "$clone/build/uml")"
	done
	for name in "$WORK/packages/one"/*; do
		cmp "$name" "$WORK/packages/another/place/${name##*/}"
		echo "ok $((++number)) ${name##*/} is the same twice"
	done
}

# starts NAME [OPTION...]: one test, a command in a container with these options.
starts() {
	local rc=0 verdict=ok
	container "$TREE" "$WORK" "${@:2}" "$guest" /opt/sandbox/bin/ferroce-run -- \
		sh -c 'cat /sys/class/infiniband/*/node_type >stays; exit 3' >"$WORK/log" 2>&1 || rc=$?
	[ "$rc" = 3 ] && grep -q CA "$WORK/stays" || verdict='not ok'
	echo "$verdict $((++number)) $1"
	[ "$verdict" = ok ] || sed 's/^/# /' "$WORK/log"
	rm -f "$WORK/stays"
}

# forbid CALL...: prints a seccomp profile.
forbid() {
	printf '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": [%s], "action": "SCMP_ACT_ERRNO"}]}' \
		"$(printf '"%s",' "$@" | sed 's/,$//')"
}

# places: containers that are less, or have less, than those of caller.sh.
places() {
	local -a SHM=(--shm-size 1m)
	starts "a command runs with 1 MiB of /dev/shm"
	starts "a command runs with a /dev/shm that nothing is executed from" --tmpfs /dev/shm:rw,noexec
	starts "a command runs without /tmp and /run" --read-only-tmpfs=false
	SHM=(--ipc none)
	starts "a command runs without /dev/shm"
	forbid ptrace process_vm_readv process_vm_writev personality >"$WORK/profile"
	starts "a command runs where ptrace is forbidden" --security-opt "seccomp=$WORK/profile"
	forbid seccomp clone3 >"$WORK/profile"
	if container "$TREE" "$WORK" --security-opt "seccomp=$WORK/profile" "$guest" timeout 20 \
		/opt/sandbox/bin/ferroce-run -- true 2>"$WORK/log"; then rc=0; else rc=$?; fi
	[ "$rc" = 125 ] && echo "ok $((++number)) where no machine starts, that is told" ||
		{ echo "not ok $((++number)) where no machine starts, that is told"; sed 's/^/# /' "$WORK/log"; }
}

# make_bare DIRECTORY: busybox, musl, and nothing that a distribution has.
make_bare() {
	local mirror
	mirror=$(debian_mirror)
	debian_root "$1" "$WORK/bare.log" "busybox-static musl" --variant=extract "$SUITE" - ${mirror:+"$mirror"}
	[ -e "$1/bin" ] || ln -s usr/bin "$1/bin"
	[ -e "$1/lib" ] || ln -s usr/lib "$1/lib"
	chroot "$1" /bin/busybox --install /bin
	rm -rf "$1"/{etc,var,tmp,run,home}
	mkdir -p "$1"/{dev,proc,sys,etc}
}

number=0
if [ "${1-}" = --reproducible ]; then
	reproducible
	exit
fi
need_container
need curl curl
need zstd zstd
TREE=$("$SRC/scripts/release/sandbox.sh")
guest=$("$SRC/scripts/root/toolchain.sh" guest)
chmod 777 "$WORK"
cp "$SRC/tests/sandbox/"{lib,caller,bare}.sh "$WORK/"

case ${1-} in
--action)
	"$SRC/scripts/release/package.sh" --sandbox "$WORK/release/releases/download/v$VERSION" >/dev/null
	cd "$WORK"
	need mmdebstrap mmdebstrap
	for name in action gitlab docker; do
		file=$(find "$SRC/scripts/action" -type f -iname "$name*")
		rm -f devices
		# Not as a condition, in which errors would not end it.
		(set -e; "try_$name" "$file") >log 2>&1 &
		if wait $!; then verdict=ok; else verdict='not ok'; sed 's/^/# /' log; fi
		echo "$verdict $((++number)) the steps of ${file##*/}"
		[ "$verdict" = ok ] || failed=1
	done
	exit "${failed:-0}"
	;;
--bare)
	make_bare "$WORK/bare"
	mkdir -m 777 "$WORK/work"
	cp "$WORK/bare.sh" "$WORK/work/"
	container "$TREE" "$WORK/work" --read-only-tmpfs=false "$WORK/bare" /bin/sh bare.sh
	;;
--tcg)
	need qemu-system-x86_64 qemu-system-x86
	need ibv_rc_pingpong ibverbs-utils
	[ -e /etc/libibverbs.d/rxe.driver ] || (lock apt; apt_install /etc/libibverbs.d/rxe.driver ibverbs-providers)
	need setpriv util-linux
	mkdir -p "$WORK/broken/lib"
	cp -rs "$TREE/bin" "$WORK/broken/"
	cp -rs "$TREE/lib/ferroce-sandbox" "$WORK/broken/lib/"
	ln -sf /bin/false "$WORK/broken/lib/ferroce-sandbox/linux"
	cd "$WORK"
	SANDBOX=$TREE BROKEN=$WORK/broken/lib/ferroce-sandbox ENGINE=tcg HOME=$WORK \
		setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups bash caller.sh
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
	places
	;;
esac
