#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# cache.sh: removes from the cache what has not been used for longest, until it holds at most FERROCE_CACHE_MIB
# (30720). check.sh begins with it.
#
# Only what a script can make again is removed: entries that are named after a hash of their inputs. An entry that was
# used within the last four hours stays, whatever its size, because a process may still read it. What cargo built under
# a clock that was ahead is removed at once. So is what it built for a checkout that is gone, unless it is the newest
# with crates: from there the next checkout takes those of others (see in-root.sh).

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

limit=${FERROCE_CACHE_MIB:-30720}
[[ $limit =~ ^[1-9][0-9]*$ ]] || die "FERROCE_CACHE_MIB is a number of MiB, more than 0"
limit=$((limit * 1024))

# discard ENTRY: it gets another name first, so that a script finds all of it or nothing.
discard() {
	as_root mv -T "$1" "$1.old" && as_root rm -rf --one-file-system "$1.old"
}

lock cache
cd "$CACHE"
as_root rm -rf --one-file-system ./*-????????????.old
# What was interrupted, and is not made any more.
find . -maxdepth 1 -regextype posix-extended -regex '\./(.*-[0-9a-f]{12}\.new|(boot|try|rust)\..{6})' -mmin +240 |
	while read -r entry; do as_root rm -rf --one-file-system "$entry"; done

newest=
while read -r owner; do
	crates=${owner%/*}/debug/.fingerprint
	# Cargo, too, takes an object for newer than a source if a clock that has been set back says so.
	if from_the_future "$owner"; then
		discard "${owner%/*}"
	elif [ ! -d "$(<"$owner")" ] && { [ -n "$newest" ] || [ ! -d "$crates" ]; }; then
		discard "${owner%/*}"
	elif [ -d "$crates" ]; then
		newest=${newest:-$owner}
	fi
done < <(ls -t target-*/checkout 2>/dev/null)

total=$(as_root du -skx . | cut -f1)
find . -maxdepth 1 -regextype posix-extended -regex '\./[a-z]+(-[a-z]+)*-[0-9a-f]{12}' -mmin +240 -printf '%T@ %f\n' |
	sort -n | while read -r _ entry && [ "$total" -gt "$limit" ]; do
	size=$(as_root du -skx "$entry" | cut -f1)
	say CLEAN "$entry, $((size / 1024)) MiB"
	discard "$entry"
	total=$((total - size))
done
