#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build.sh [-k KERNEL] [TARGET-OR-VARIABLE...]: builds ferroce.ko for one of our kernels, and
# prints its path. The module in tests/module is built as well. KERNEL is stock (default), debug, kcsan, uml
# or umdebug. What follows is handed to make, for example CLIPPY=1 or W=1.
#
# Objects lie in build/KERNEL, so that a source tree serves several kernels at once; the module
# of the stock kernel is copied to the top as well.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

kernel=stock
while getopts k: option; do
	case $option in
	k) kernel=$OPTARG ;;
	*) die "usage: build.sh [-k KERNEL] [MAKE-ARGUMENT...]" ;;
	esac
done
shift $((OPTIND - 1))

read -ra args <<<"$(make_arguments "$kernel")"
dir=$("$SRC/scripts/kernel.sh" -k "$kernel")
# Modules of user-mode Linux lie anywhere in its address space.
! is_user_mode "$kernel" || args+=("KRUSTFLAGS=-Crelocation-model=static -Ccode-model=large")

# Clippy takes rustc's place, so it needs objects of its own.
objects=$SRC/build/$kernel
case " $* " in *" CLIPPY=1 "*) objects=$SRC/build/clippy-$kernel ;; esac
# Objects of another kernel version are worthless, and Kbuild would not notice.
if [ -e "$objects/.kernel" ] && [ "$(<"$objects/.kernel")" != "$dir" ]; then
	rm -rf "$objects"
fi
mkdir -p "$objects"
lock "build-$(key "$objects")"
echo "$dir" >"$objects/.kernel"

# BTF needs the kernel's vmlinux, which Debian does not ship unpacked; its absence is no news.
"$SRC/scripts/in-root.sh" make --no-print-directory -C "$dir/build" "${args[@]}" \
	M="$SRC" MO="$objects" FERROCE_TESTS=m -j"$(nproc)" "$@" modules </dev/null 2>&1 |
	sed -u -e '/Skipping BTF generation/d' -e '/make\[[0-9]*\]: .*ing directory/d' >&2
module=$objects/rust/ferroce.ko
if [ "$objects" = "$SRC/build/stock" ]; then
	cmp -s "$module" "$SRC/ferroce.ko" || cp "$module" "$SRC/ferroce.ko"
	module=$SRC/ferroce.ko
fi
echo "$module"
