# SPDX-License-Identifier: GPL-2.0
#
# Common to all scripts: the places of the tree and of the cache, messages, locks, and the differences
# between the kernels. Sourced, never run.

# Not exported on purpose: each script sources this file itself.
SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/versions
. "$SRC/scripts/versions"

CACHE=${FERROCE_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ferroce}
mkdir -p "$CACHE"
CACHE=$(cd "$CACHE" && pwd -P)

# Progress and errors go to standard error: standard output is for answers.
say() { printf '  %-7s %s\n' "$1" "${*:2}" >&2; }
die() {
	printf 'ferroce: %s\n' "$*" >&2
	exit 1
}

# What apt says when it does not reach an archive.
NO_NETWORK='(Temporary failure resolving|Could not (connect|resolve|wait)|Cannot initiate|Unable to connect'
NO_NETWORK+='|Network is unreachable|Connection (timed out|failed|refused|reset)|Failed to fetch)'

# blame LOG: prints why a step has failed, where the cause is this machine: its disk, its clock or its network. A log on
# a full disk may be empty.
blame() {
	local tmp=${TMPDIR:-/tmp}
	if grep -qsi 'no space left' "$1" || [ "$(free_mib "$CACHE")" -lt 16 ] || [ "$(free_mib "$tmp")" -lt 16 ]; then
		echo "no space is left in $CACHE or in $tmp; make room, or set FERROCE_CACHE or TMPDIR to another place"
	elif grep -qs 'is not valid yet' "$1"; then
		echo "the clock of this machine is behind, $(date); set it"
	elif grep -qsE "$NO_NETWORK" "$1"; then
		echo "the archive cannot be reached ($(grep -m 1 -oE "$NO_NETWORK.*" "$1")); try again when it can"
	fi
}

# fail LOG TEXT...: as die, with the cause, or with the end of the log if the cause is not known.
fail() {
	local log=$1 cause
	shift
	cause=$(blame "$log")
	[ -z "$cause" ] || die "$*: $cause"
	tail -n 20 "$log" >&2
	die "$*; the whole log is $log"
}

free_mib() { df --output=avail -B 1M "$1" | tail -n 1; } # DIRECTORY

# need_room MIB WHAT: fails at once if the disk of the cache has less left than a step takes.
need_room() {
	local free
	free=$(free_mib "$CACHE")
	[ "$free" -ge "$1" ] || die "$2 takes $1 MiB, and the disk of $CACHE has $((free)); make room, or set" \
		"FERROCE_CACHE to another place"
}

# uptime_seconds: prints for how long this machine runs: setting the date changes that and SECONDS, and not this.
uptime_seconds() {
	local up
	read -r up _ </proc/uptime
	echo "${up%%.*}"
}

# memory_limits [CGROUP]: prints the files that may have the limit of this process's cgroup, of version 1 and of 2. In a
# container, the one at the top may be its own.
memory_limits() {
	local of=/sys/fs/cgroup
	sed -n -e "s|^[0-9]*:memory:\(.*\)|$of/memory\1/memory.limit_in_bytes|p" \
		-e "s|^0::\(.*\)|$of\1/memory.max|p" "${1:-/proc/self/cgroup}"
	echo "$of/memory/memory.limit_in_bytes"
	echo "$of/memory.max"
}

# machines_at_once NUMBER [MEMINFO [LIMIT]]: prints so many, or how many machines of 2 GiB there is memory for, which it
# says; LIMIT is a file with that of this process, as containers have it.
machines_at_once() {
	local number=$1 kib limit each=2500000
	kib=$(awk '$1 == "MemAvailable:" { print $2 }' "${2:-/proc/meminfo}")
	for limit in $(cat ${3:-$(memory_limits)} 2>/dev/null || :); do
		if [[ $limit =~ ^[0-9]{1,18}$ ]] && [ $((limit / 1024)) -lt "$kib" ]; then kib=$((limit / 1024)); fi
	done
	if [ $((number * each)) -gt "$kib" ]; then
		number=$((kib / each > 0 ? kib / each : 1))
		say MEMORY "$((kib / 1024)) MiB are free: $number of $1 steps at once"
	fi
	echo "$number"
}

# from_the_future PATH: whether that, or something in it, is dated later than now.
from_the_future() { [ -n "$(find "$1" -newermt "@$(($(date +%s) + 60))" -print -quit)" ]; }

# stop_children: ends all that this script has started, and what that has: Ctrl-C does not reach the background.
stop_children() {
	local children top=$BASHPID
	# Some end while the list is read.
	children=$({ cat /proc/[0-9]*/status 2>/dev/null || :; } | awk -v top="$top" '
		$1 == "Pid:" { pid = $2 }
		$1 == "PPid:" { parent[pid] = $2 }
		END {
			for (pid in parent) {
				for (above = parent[pid]; above != top && above in parent; above = parent[above]) ;
				if (above == top) print pid
			}
		}')
	# Those that looked are among them, and gone.
	kill $children 2>/dev/null || :
}

# stop_with_children: when this script is told to end, it ends what it has started.
stop_with_children() {
	trap stop_children EXIT
	trap 'exit 130' INT TERM
}

# key TEXT...: a short name for a set of inputs.
key() { printf '%s\n' "$*" | tr -s ' \n' '\n\n' | sha256sum | cut -c1-12; }

# hand_out ENTRY: prints an entry of the cache, and says to cache.sh that it is in use.
hand_out() {
	touch -c "$1" 2>/dev/null || :
	echo "$1"
}

# lock NAME: one process at a time; released when the script ends.
lock() {
	exec {lock_fd}>"$CACHE/.lock-$1"
	flock -n "$lock_fd" && return
	say WAIT "another process works on $1"
	flock "$lock_fd"
}

# debian_mirror: prints the archive that this machine's own apt reads Debian from, or FERROCE_MIRROR if that is set;
# nothing if the machine has none.
debian_mirror() {
	if [ -n "${FERROCE_MIRROR-}" ]; then
		echo "$FERROCE_MIRROR"
	elif command -v apt-get >/dev/null; then
		apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Label: Debian' 2>/dev/null | sed -n 1p
	fi
}

# debian_root DIRECTORY LOG PACKAGES MMDEBSTRAP-ARGUMENT...: makes a root of Debian there. The arguments are options,
# the release, `-` and sources. A mirror may lag behind, so that its lists have expired; they are signed all the same.
debian_root() {
	local new=$1 log=$2 packages=$3 options argument
	shift 3
	need mmdebstrap mmdebstrap
	need unshare util-linux
	as_root rm -rf "$new"
	mkdir "$new"
	# Nothing must survive a power cut before the root has its name, so dpkg need not wait for the disk.
	options=(--dpkgopt=force-unsafe-io --aptopt='Acquire::Check-Valid-Until "false"' --include="${packages// /,}")
	if [ "$(id -u)" = 0 ]; then
		# The place of `-` is that of the directory.
		for argument; do
			[ "$argument" != - ] || argument=$new
			options+=("$argument")
		done
		as_root mmdebstrap --format=directory "${options[@]}" >"$log" 2>&1 </dev/null &&
			find "$new/dev" -mindepth 1 -delete
	else
		# A tar stream: the unpacking user owns the files, and mmdebstrap's own user namespace need not reach
		# the cache.
		mmdebstrap "${options[@]}" --format=tar "$@" 2>"$log" </dev/null |
			as_root tar -x --numeric-owner -C "$new" --exclude='./dev/*' 2>>"$log"
	fi || fail "$log" "cannot make a root of Debian"
}

# apt_install COMMAND PACKAGE: unless another process has done so meanwhile.
apt_install() {
	command -v "$1" >/dev/null && return
	say APT "$2, about half a minute"
	(DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND
	apt-get -qq update &&
		apt-get -qq install -o DPkg::Lock::Timeout=600 -y --no-install-recommends "$2") \
		</dev/null >"$CACHE/apt-$2.log" 2>&1
}

# need COMMAND PACKAGE: installs as root, asks otherwise.
need() {
	command -v "$1" >/dev/null && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		# In a subshell, which releases the lock when it ends.
		(lock apt && apt_install "$@") || fail "$CACHE/apt-$2.log" "cannot install $2"
	else
		die "'$1' is missing; install it first: sudo apt-get install $2"
	fi
}

# check_kernel NAME: fails if there is no such kernel.
check_kernel() {
	case $1 in
	stock | debug | debugrt | kcsan | uml | umdebug) ;;
	*) die "KERNEL is stock, debug, debugrt, kcsan, uml or umdebug, not '$1'" ;;
	esac
}

# make_arguments KERNEL TREE: how Kbuild is called in this tree of one of our kernels, in words without spaces in them.
make_arguments() {
	local compiler arch=x86
	case $1 in
	# With the compiler that made the configuration.
	stock)
		compiler=$(sed -n 's/^CONFIG_CC_VERSION_TEXT="\([^ ]*\) .*/\1/p' "$2/.config")
		! grep -q '^CONFIG_ARM64=y' "$2/.config" || arch=arm64
		echo "ARCH=$arch CROSS_COMPILE=${compiler%gcc*} CC=$compiler"
		;;
	# The kernel's Rust and KASAN go together only where clang compiles both.
	debug | debugrt | kcsan) echo ARCH=x86 LLVM=1 ;;
	# Of the same sources come the same bytes.
	uml)
		echo ARCH=um KBUILD_BUILD_TIMESTAMP=2026-01-01 KBUILD_BUILD_VERSION=1 KBUILD_BUILD_USER=ferroce \
			KBUILD_BUILD_HOST=ferroce
		;;
	umdebug) echo ARCH=um LLVM=1 ;;
	esac
}

# base_kernel: the directory of the stock kernel that our own are made from. Its flavour is only a configuration, which
# theirs replaces.
base_kernel() { FLAVOUR=amd64 "$SRC/scripts/kernel/kernel.sh"; }

# flavour: prints FLAVOUR as Debian calls it; `cloud` and `rt` are those of amd64, `16k` that of arm64.
flavour() {
	case ${FLAVOUR-} in
	'') echo amd64 ;;
	cloud | rt) echo "$FLAVOUR-amd64" ;;
	16k) echo arm64-16k ;;
	amd64 | cloud-amd64 | rt-amd64 | arm64 | arm64-16k | cloud-arm64 | rt-arm64) echo "$FLAVOUR" ;;
	*) die "FLAVOUR is amd64, cloud-amd64, rt-amd64, arm64, arm64-16k, cloud-arm64 or rt-arm64," \
		"not '$FLAVOUR'" ;;
	esac
}

# architecture_of RELEASE-OR-FLAVOUR: amd64 or arm64.
architecture_of() {
	case $1 in
	*arm64*) echo arm64 ;;
	*) echo amd64 ;;
	esac
}

# origin_of KVER: "SUITE ARCHIVE..." of KERNEL_MARKS; nothing for a mark that is not there.
origin_of() {
	local mark=${1%%-*}
	case $mark in
	*+*) mark=+${mark#*+} ;;
	*) mark=- ;;
	esac
	awk -v mark="$mark" '$1 == mark { $1 = ""; print substr($0, 2) }' <<<"$KERNEL_MARKS"
}

# toolchain_of RELEASE: the toolchain root that builds for that kernel; see toolchain.sh.
toolchain_of() {
	local origin
	origin=$(origin_of "$1")
	case $1 in
	*arm64*) echo "${origin%% *}-arm64" ;;
	*) echo "${origin%% *}" ;;
	esac
}

# copy_sources DIRECTORY PATH...: copies files of the tree below these paths, if they are newer than those there, and
# nothing that builds have left.
copy_sources() {
	local to=$1 name built=()
	shift
	set -f
	for name in $("$SRC/scripts/kernel/fresh.sh" --names); do built+=(! -name "$name"); done
	set +f
	(cd "$SRC" && find "$@" -type f ! -name '.*' "${built[@]}" -exec cp -u --parents {} "$to/" \;)
}

# vm_script NAME: the script of that name in a folder of tests/vm, below SRC.
vm_script() { (cd "$SRC" && echo tests/vm/*/"$1.sh"); }

# is_user_mode KERNEL: whether it is user-mode Linux, which needs no QEMU.
is_user_mode() {
	case $1 in
	uml | umdebug) ;;
	*) return 1 ;;
	esac
}

# as_root COMMAND...: runs it with the rights to mount and to own files, in a mount namespace of
# its own so that nothing leaks. A normal user gets a user namespace with a full range of ids.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		unshare --mount --propagation private -- "$@"
		return
	fi
	need newuidmap uidmap
	unshare --user --map-root-user --map-auto --mount --propagation private -- "$@"
}
