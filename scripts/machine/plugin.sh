#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# plugin.sh QEMU: builds the plugin of TCG in tests/plugin and prints its file. Exits with 77, skipped, if this QEMU
# emulates no PC or does not load it: then it was built without plugins, or wants another version of their interface.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

if [ "${1-}" != qemu-system-x86_64 ]; then
	echo "skipped: the plugin reads the instructions of QEMU's PC, not of ${1:-user-mode Linux}" >&2
	exit 77
fi
plugin=$CACHE/plugin-$(key "$(cat "$SRC"/tests/plugin/*)").so
if [ ! -e "$plugin" ]; then
	say CC "the plugin of QEMU"
	"$SRC/scripts/root/in-root.sh" gcc -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared \
		-o "$plugin.$$" "$SRC"/tests/plugin/*.c
	mv "$plugin.$$" "$plugin"
fi
if ! why=$(echo quit | "$1" -accel tcg -machine none -nodefaults -display none -monitor stdio \
	-plugin "file=$plugin" 2>&1); then
	echo "skipped: this QEMU does not load the plugin: $(tail -n 1 <<<"$why")" >&2
	exit 77
fi
echo "$plugin"
