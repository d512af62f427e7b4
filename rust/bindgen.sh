#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# bindgen.sh OUTPUT PROBE HEADER BINDGEN-ARGUMENT...: writes Rust declarations of what HEADER includes, less the types
# that the kernel's bindings crate knows whole: those are to be taken from there. PROBE is the command that compiles
# standard input against the kernel's crates.
#
# The compiler is asked which these are, since headers packages have the crate's metadata but not always its source.

set -eu
output=$1 probe=$2
shift 2

# errors ERROR CODE: prints those names on standard input for which CODE, with that name for NAME, has this error. It is
# the name of the kernel's type or, if the kernel's crate has none, of one like those that bindgen only names.
errors() {
	names=$(cat)
	{
		echo "$names" | sed 's/.*/struct & { _unused: [u8; 0] }/' | paste -s -d ' '
		echo 'const _: () = { use kernel::bindings::*;'
		echo "$names" | awk -v code="$2" '{ line = code; sub(/NAME/, $0, line); print line }'
		echo '};'
	} | $probe --error-format=short 2>&1 >/dev/null |
		sed -n "s/^<anon>:\([0-9]*\):.* error\[$1\].*/\1/p" | sort -u >"$output.lines"
	# Two lines come before the first name.
	echo "$names" | awk 'NR == FNR { at[$1 - 2]; next } FNR in at' "$output.lines" -
}

bindgen "$@" >"$output.all"
names=$(sed -n -E 's/^pub (struct|union) ([A-Za-z0-9_]+)[ (].*/\2/p' "$output.all" | sort -u)
enums=$(sed -n -E 's/^pub struct ([A-Za-z0-9_]+)\(.*/\1/p' "$output.all")
rm "$output.all"

# E0308: it has another size than none. E0609: it has none, but neither has it the field of those only named.
known=$(echo "$names" | errors E0308 'const _: [(); 0] = [(); size_of::<NAME>()];')
[ -n "$known" ] || { echo "ferroce: the compiler cannot read the kernel's crates" >&2; exit 1; }
known=$known'
'$(echo "$names" | grep -vxF "$known" | errors E0609 'const _: fn(&NAME) = |t| { let _ = &t._unused; };')
# E0610: it is an integer. Those enums are structures here for every kernel.
integers=$(echo "$enums" | errors E0610 'const _: fn(NAME) = |t| { let _ = t.0; };')
known=$(echo "$known" | grep -vxF "${integers:-.}")
rm "$output.lines"

# What holds bit-fields is generic, so not among the names.
bindgen --blocklist-type "__BindgenBitfieldUnit|$(echo "$known" | paste -s -d '|')" "$@" >"$output"
