#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-frames.sh [MODULE]: no function of the module takes more of the stack than the kernel's own limit for C
# (CONFIG_FRAME_WARN, 2048 bytes), which rustc does not check. The stack of a kernel thread has 16 KiB, and consumers
# call with much of it in use.

set -euo pipefail
cd "$(dirname "$0")/../.."
module=${1:-${FERROCE_KO:-ferroce.ko}}
limit=2048

if [ ! -e "$module" ]; then
	echo "check-frames: $module is missing, build first" >&2
	exit 1
fi
# frames: BYTES FUNCTION of each, the largest first.
frames() {
	objdump -d --no-show-raw-insn "$module" | awk '
		/^[0-9a-f]+ <.*>:$/ { name = $2 }
		match($0, /sub +\$0x[0-9a-f]+,%rsp/) {
			sub(/.*\$0x/, ""); sub(/,.*/, "")
			print "0x" $0, name
		}' | while read -r bytes name; do echo "$((bytes)) $name"; done | sort -rn | c++filt
}
all=$(frames)
if [ -z "$all" ]; then
	echo "check-frames: no frame in $module" >&2
	exit 1
fi
wrong=$(awk -v limit="$limit" '$1 > limit' <<<"$all")
if [ -n "$wrong" ]; then
	printf '%s\n' "$wrong"
	echo "check-frames: these functions take more than $limit bytes of the stack"
	exit 1
fi
echo "check-frames: the largest frame has ${all%% *} bytes"
