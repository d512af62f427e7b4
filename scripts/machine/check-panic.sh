#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-panic.sh: what a panic of Rust code does, with the kernel's own Rust support and with that which is built into
# the module. A module whose initialisation looks beyond the end of an array is loaded on the default kernel and on
# Debian's own (or KVER): both must name the place in the log, in the same words, and end the task by a BUG.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

mkdir -p "$SRC/build"
work=$(mktemp -d "$SRC/build/panic.XXXXXX")
trap 'rm -rf "$work"' EXIT
LOG=$work/log
. "$SRC/scripts/checks/tap.sh"

# planted: a copy of the tree whose module panics when it is loaded.
planted() {
	local read='let (some, at) = core::hint::black_box(([0u8; 3], 7)); pr_info!("{}", some[at]);'
	mkdir -p "$work/tree"
	(cd "$SRC" && git ls-files -z | xargs -0 cp --parents -t "$work/tree")
	[ ! -e "$SRC/rust/linux" ] || cp -r "$SRC/rust/linux" "$work/tree/rust/"
	sed -i "/^impl kernel::Module for FerroceModule/,/^}/ s/^    fn init(.*{\$/&\n        $read/" \
		"$work/tree/rust/driver/main.rs"
	grep -q 'some\[at\]' "$work/tree/rust/driver/main.rs"
}

# dies: the machine that loads it dies; sets console.
dies() {
	local rc=0
	TMPDIR=$work "$work/tree/scripts/vm.sh" "$SRC/scripts/machine/panic-guest.sh" >"$LOG" 2>&1 || rc=$?
	console=$(ls -d "$work"/ferroce-vm.*/a/console)
	[ "$rc" = 125 ]
}

# message: what the kernel says of it, less the time and the place in the file.
message() {
	tr -d '\r' <"$console" | sed -n -E 's/^.*(panicked at [^:]*|index out of bounds.*)(:[0-9]+:[0-9]+:)?$/\1/p'
}

planted
export DRIVER=none TOPOLOGY=single VM_COLD=1 FERROCE_TESTS=n
for way in own "built in"; do
	[ "$way" = own ] || export KVER=${KVER:-$SUITE}
	rm -rf "$work"/ferroce-vm.*
	VM_FILES=$("$work/tree/scripts/build.sh" 2>"$LOG") ||
		{ tail -n 20 "$LOG" >&2; die "it does not build"; }
	export VM_FILES
	console=$LOG
	check "$way: the machine dies" dies
	message >"$work/${way// /-}"
	said=$work/${way// /-}
	check "$way: the log says of what" grep -qx 'index out of bounds: the len is 3 but the index is 7' "$said"
	check "$way: and where" grep -q '^panicked at rust/driver/main.rs' "$said"
	check "$way: and the end is a BUG" grep -q 'kernel BUG at' "$console"
done
check "both say the same" cmp "$work/own" "$work/built-in"
finish
