#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-panics.sh [OBJECTS]: no code of ours can panic. A panic in the kernel is a crash of the machine, and
# for the protocol a remote peer chooses the bytes.
#
# Reads the objects that the build left: what the compiler could not prove impossible is a reference to
# core::panicking. Generic code of the core is compiled into the driver, so both are read.
# scripts/checks/panics lists what is still there and why; it only shrinks.

set -euo pipefail
cd "$(dirname "$0")/../.."
objects=${1:-build/stock/rust}
list=scripts/checks/panics
wrong=0

# Names as in the source, without the compiler's hashes.
plain() { c++filt | sed 's/\[[0-9a-f]*\]//g; s/::h[0-9a-f]\{16\}//g'; }

# The panics that an object refers to.
panics() {
	nm -u "$1" | awk '/panicking|unwrap_failed|expect_failed|_index_[a-z_]*fail/ { print $2 }' |
		plain | sort -u
}

# The functions that refer to one: relocations, below the head of each function.
culprits() { # OBJECT PANIC
	objdump -dr --no-show-raw-insn "$1" | awk '
		/^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name) }
		/R_X86_64_/ { target = $NF; sub(/[-+]0x[0-9a-f]+$/, "", target); print name, target }' |
		sort -u | plain | grep -F " $2" | sed "s/^/    from /; s/ [^ ]*$//" | head -12
}

listed() { sed -n "s|^$1  *\([^ ]*\).*|\1|p" "$list"; }

for name in roce/lib.o rdma/lib.o driver/main.o; do
	object=$objects/$name
	if [ ! -e "$object" ]; then
		echo "check-panics: $object is missing, build first" >&2
		exit 1
	fi
	while read -r panic; do
		echo "$name: may reach $panic"
		culprits "$object" "$panic"
		wrong=$((wrong + 1))
	done < <(comm -23 <(panics "$object") <(listed "$name" | sort -u))
	while read -r panic; do
		echo "$list: $name does not refer to $panic any more"
		wrong=$((wrong + 1))
	done < <(comm -13 <(panics "$object") <(listed "$name" | sort -u))
done

if [ "$wrong" -gt 0 ]; then
	echo "check-panics: $wrong wrong"
	exit 1
fi
echo "check-panics: no panic but the $(grep -vc '^#' "$list" || true) that are listed"
