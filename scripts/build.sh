#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build.sh [-k KERNEL] [TARGET-OR-VARIABLE...]: builds ferroce.ko for one of our kernels, and
# prints its path. The module in tests/module is built as well. KERNEL is stock (default), debug,
# debugrt, kcsan, uml or umdebug. What follows is handed to make, for example CLIPPY=1 or W=1.
#
# Objects lie in build/KERNEL, or in build/RELEASE where KVER or FLAVOUR choose the stock kernel, so that a source tree
# serves several kernels at once; the module of the stock kernel is copied to the top as well. `build.sh --objects
# [-k KERNEL]` only prints that directory.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

kernel=stock
only_objects=
[ "${1-}" != --objects ] || { only_objects=1; shift; }
while getopts k: option; do
	case $option in
	k) kernel=$OPTARG ;;
	*) die "usage: build.sh [-k KERNEL] [MAKE-ARGUMENT...]" ;;
	esac
done
shift $((OPTIND - 1))

check_kernel "$kernel"
dir=$("$SRC/scripts/kernel/kernel.sh" -k "$kernel")
read -ra args <<<"$(make_arguments "$kernel" "$dir/build")"
# Our own kernels are built like the stock kernel that they were made from.
stock=$dir
[ "$kernel" = stock ] || stock=$(base_kernel)
TOOLCHAIN=$(toolchain_of "$(<"$stock/release")")
export TOOLCHAIN
# Modules of user-mode Linux lie anywhere in its address space. The same sources give the same ones, wherever they and
# the kernel lie.
remap="--remap-path-prefix=$SRC/= --remap-path-prefix=$dir/build/="
! is_user_mode "$kernel" || args+=("KCFLAGS=-fmacro-prefix-map=$dir/build/="
	"KRUSTFLAGS=-Crelocation-model=static -Ccode-model=large $remap")

# Clippy takes rustc's place, so it needs objects of its own.
name=$kernel
[ -z "${KVER-}${FLAVOUR-}" ] || [ "$kernel" != stock ] || name=$(<"$dir/release")
# A debug kernel of another kernel than the default.
[ "$kernel" = stock ] || [ ! -e "$stock/headers" ] || name=$kernel-$(<"$stock/release")
[ -z "${FERROCE_BUNDLED-}" ] || name=bundled-$name
case " $* " in *" CLIPPY=1 "*) name=clippy-$name ;; esac
objects=$SRC/build/$name
if [ -n "$only_objects" ]; then
	echo "$objects"
	exit
fi
mkdir -p "$objects"
lock "build-$(key "$objects")"
# Objects of another kernel version are worthless, and Kbuild would not notice. Nor would it notice a change to a source
# that is older than an object by a clock that has been set back.
if [ -e "$objects/.kernel" ] && [ "$(<"$objects/.kernel")" != "$dir" ]; then
	rm -rf "$objects"
elif from_the_future "$objects"; then
	say CLOCK "it has been set back since the last build; building all again"
	rm -rf "$objects"
fi
mkdir -p "$objects"
echo "$dir" >"$objects/.kernel"

mode=$("$SRC/scripts/root/in-root.sh" "$SRC/scripts/kernel/rust-mode.sh" "$dir/build" </dev/null)
args+=($mode)
[ -z "$mode" ] || "$SRC/scripts/kernel/rust-tree.sh"

# Before 6.13, Kbuild puts objects beside the sources, so these are copied to where the objects belong.
M=$SRC
place=("MO=$objects")
# Panics and locks name their places in the sources, not those of this machine.
is_user_mode "$kernel" || place+=("KRUSTFLAGS=--remap-path-prefix=$SRC/=")
# The Makefile of a headers package only includes the one that its flavours share.
if ! grep -qw MO "$dir/build/Makefile" $(sed -n 's|^include \(/.*\)|\1|p' "$dir/build/Makefile"); then
	copy_sources "$objects" Kbuild include scripts/versions rust tests/module
	M=$objects
	place=("KRUSTFLAGS=--remap-path-prefix=$objects/=")
elif [ -e "$objects/rust/Kbuild" ]; then
	# Copies of sources, which make would find before those of the tree.
	rm -rf "$objects"
	mkdir -p "$objects"
	echo "$dir" >"$objects/.kernel"
fi

time="a minute"
[ -z "$mode" ] || time="2 minutes"
[ -e "$objects/rust/ferroce.ko" ] || say BUILD "the module for $(<"$dir/release"), about $time"
# BTF needs the kernel's vmlinux, which Debian does not ship unpacked; its absence is no news.
"$SRC/scripts/root/in-root.sh" make --no-print-directory -C "$dir/build" "${args[@]}" \
	M="$M" "${place[@]}" FERROCE_TESTS="${FERROCE_TESTS:-m}" -j"$(nproc)" "$@" modules </dev/null 2>&1 |
	sed -u -e '/Skipping BTF generation/d' -e '/make\[[0-9]*\]: .*ing directory/d' >&2
module=$objects/rust/ferroce.ko
if [ "$kernel" = stock ] && [[ $name != clippy-* && $name != bundled-* ]]; then
	cmp -s "$module" "$SRC/ferroce.ko" || cp "$module" "$SRC/ferroce.ko"
	module=$SRC/ferroce.ko
fi
echo "$module"
