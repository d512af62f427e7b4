#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# in-root.sh COMMAND...: runs a command in the toolchain root, in the current directory, with the
# source tree, the cache and /tmp at the paths they have outside.
#
# Everything is mounted in a namespace of the command's own: nothing is left behind, and several
# may run at once. FERROCE_BIND="DIR..." makes more directories visible.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

# seed_target DIRECTORY: makes cargo's directory for a new checkout, with the crates of others that other checkouts have
# built of late. They depend on nothing in the tree, and cargo finds out which of them are what this one needs. Records
# of what is built are copied before the crates, as another cargo may be at work.
seed_target() (
	lock "seed-${1##*-}"
	[ ! -d "$1/debug" ] || exit 0
	new=$(mktemp -d "$CACHE/try.XXXXXX")
	names=$(cat "$SRC"/{tests,tools/provider}/Cargo.lock | names_of_others | paste -sd '|')
	find "$CACHE"/target-* -maxdepth 3 -name .fingerprint -printf '%T@ %h\n' 2>/dev/null | sort -rn |
		while read -r _ profile; do
			to=$new/${profile#"$CACHE"/target-*/}
			mkdir -p "$to/.fingerprint"
			units=$(find "$profile/.fingerprint" -mindepth 1 -maxdepth 1 -mtime -14 -printf '%f\n' |
				grep -xE "($names)-[0-9a-f]{16}" | grep -vxFf <(ls "$to/.fingerprint")) || continue
			(cd "$profile" && {
				sed 's|^|.fingerprint/|' <<<"$units"
				printf '%s\n' build/* deps/* | grep -F -- "$(sed 's/.*-/-/' <<<"$units")"
			} | tar -c -T -) | tar -x -C "$to" || break
		done || true
	chmod 755 "$new"
	rm -rf "$1"
	mv -T "$new" "$1"
)

# names_of_others: filters Cargo.lock: the names of packages that are not of the tree.
names_of_others() {
	awk '/^name = / { name = $3 } /^source = / { gsub(/"/, "", name); print name }' | sort -u
}

if [ "${1-}" = --inside ]; then
	root=$2 cwd=$3
	shift 3
	mount --bind "$root" "$root"
	for dir in /dev /proc /sys; do
		mount --rbind "$dir" "$root$dir"
	done
	for dir in /tmp "$SRC" "$CACHE" ${FERROCE_BIND-}; do
		mkdir -p "$root$dir"
		mount --bind "$dir" "$root$dir"
	done
	# The root was made perhaps long ago: names are resolved and servers trusted as on the host.
	for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
		[ -e "$file" ] || continue
		[ -f "$root$file" ] && [ ! -L "$root$file" ] || {
			rm -f "$root$file"
			mkdir -p "$root${file%/*}"
			: >"$root$file"
		}
		mount --bind "$(realpath "$file")" "$root$file"
	done
	[ -d "$root$cwd" ] || cwd=$SRC
	export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	export HOME=/root LC_ALL=C.UTF-8
	# A host toolchain's settings would be obeyed by the root's.
	unset RUSTFLAGS RUSTC RUSTUP_HOME RUSTUP_TOOLCHAIN CC LD_LIBRARY_PATH LD_PRELOAD
	export CARGO_HOME=$CACHE/cargo CARGO_TARGET_DIR=$CACHE/target-$(key "$SRC")
	[ "$1" != cargo ] || [ -d "$CARGO_TARGET_DIR/debug" ] || seed_target "$CARGO_TARGET_DIR"
	mkdir -p "$root$CARGO_TARGET_DIR"
	echo "$SRC" >"$root$CARGO_TARGET_DIR/checkout"
	touch "$root$CARGO_TARGET_DIR"
	exec chroot "$root" /bin/bash -c 'cd "$1" && shift && exec "$@"' in-root "$cwd" "$@"
fi

[ $# -gt 0 ] || die "usage: in-root.sh COMMAND..."
root=$("$SRC/scripts/root/toolchain.sh")
FERROCE_CACHE=$CACHE as_root "$SRC/scripts/root/in-root.sh" --inside "$root" "$PWD" "$@"
