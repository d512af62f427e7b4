#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# doc.sh: makes HTML in build/doc: the pages of Documentation, and the items of the crates that Cargo knows, private
# ones too. A warning is an error. Of rdma and driver only the kernel's build could make it, which has no target for
# modules out of its tree.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

cd "$SRC"
TOOLCHAIN=docs scripts/root/in-root.sh sphinx-build -C -nWq -D root_doc=index -D project=ferroce -b html Documentation \
	build/doc
crates() { # MANIFEST ARGUMENT...
	scripts/root/in-root.sh bash -ec '
		out=$1
		shift
		RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --document-private-items --manifest-path "$@"
		mkdir -p "$out"
		cp -r "$CARGO_TARGET_DIR/doc/." "$out/"' doc build/doc/crates "$@"
}
crates tests/Cargo.toml -p roce
crates tools/provider/Cargo.toml
crates tools/ferroce-run/Cargo.toml
