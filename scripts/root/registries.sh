#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# registries.sh: fetches CRATES and a package of Python, builds them and their tests, and prints the directory:
#
#	NAME                  sources of a crate
#	NAME/programs         its tests and examples
#	python/lib            the package of Python
#	python/tests          its tests
#
# No package is changed, and each crate's own lock file says what it is built with.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

# crate NAME VERSION
crate() {
	local kind program
	cargo info --quiet "$1@$2" >/dev/null
	cp -r "$CARGO_HOME"/registry/src/*/"$1-$2" "$1"
	cd "$1"
	cargo test --locked --all-features --no-run 2>&1 | tee messages >&2
	mkdir programs
	sed -nE 's/^ *Executable (unittests|tests).* \((.*)\)$/\1 \2/p' messages | while read -r kind program; do
		case $kind in
		unittests) cp "$program" programs/unittests ;;
		tests)
			kind=${program##*/}
			cp "$program" "programs/${kind%-*}"
			;;
		esac
	done
	find "$CARGO_TARGET_DIR/debug/examples" -type f -perm -100 ! -name '*-*' -exec cp {} programs/ \;
	cd ..
	rm -rf "$CARGO_TARGET_DIR"
}

# python: the program is the published one; the tests are part of the sources only.
python() {
	local options=(--quiet --no-deps)
	pip install "${options[@]}" --root-user-action ignore --only-binary :all: --target clang \
		"libclang==$PYTHON_LIBCLANG"
	pip install "${options[@]}" --root-user-action ignore --only-binary :all: --target python/lib \
		"ibverbs==$PYTHON_IBVERBS"
	pip download "${options[@]}" --no-build-isolation --no-binary :all: "ibverbs==$PYTHON_IBVERBS"
	tar -x --strip-components 1 --no-same-owner -f ibverbs-*.tar.gz -C python
}

if [ "${1-}" = --inside ]; then
	cd "$2"
	python
	# The libclang has no headers of its own. Lints that are newer than a crate are no errors of it.
	LIBCLANG_PATH=$2/clang/clang/native
	BINDGEN_EXTRA_CLANG_ARGS="-isystem $(gcc -print-file-name=include)"
	RUSTFLAGS="--cap-lints warn"
	CARGO_TARGET_DIR=$2/target CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never
	export LIBCLANG_PATH BINDGEN_EXTRA_CLANG_ARGS RUSTFLAGS CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG \
		CARGO_INCREMENTAL CARGO_TERM_COLOR
	for name in $CRATES; do crate "${name%@*}" "${name#*@}"; done
	rm -rf clang
	exit
fi

export TOOLCHAIN=registries
root=$("$SRC/scripts/root/toolchain.sh")
out=$CACHE/registries-$(key "$root $CRATES $PYTHON_IBVERBS $PYTHON_LIBCLANG" "$(<"$SRC/scripts/root/registries.sh")")
if [ ! -d "$out" ]; then
	lock registries
	if [ ! -d "$out" ]; then
		say BUILD "the tests of $CRATES, and of Python's ibverbs, some minutes"
		rm -rf "$out.new"
		mkdir "$out.new"
		"$SRC/scripts/root/in-root.sh" "$SRC/scripts/root/registries.sh" --inside "$out.new" </dev/null \
			>"$CACHE/registries.log" 2>&1 || die "cannot build them; see $CACHE/registries.log"
		chmod -R a+rX "$out.new"
		mv "$out.new" "$out"
	fi
fi
hand_out "$out"
