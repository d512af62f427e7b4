#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# rust-mode.sh KDIR: prints the arguments of make that build the module for this tree of a kernel, which scripts/
# kernel-needs.sh has accepted. Nothing if the kernel was built with Rust, its tree has the metadata of its crates, and
# this machine has the rustc that built them; FERROCE_BUNDLED=y else, or if that is set: see rust/bundled.mk.
#
# Needs nothing of this tree.

set -euo pipefail

version=$(rustc --version) || { echo "ferroce: rustc does not run: 'rustc --version' says why" >&2; exit 1; }
number=$(echo "$version" | awk '{ split($2, v, /[.-]/); print v[1] * 100000 + v[2] * 100 + v[3] }')
config=$1/include/config/auto.conf
if [ "${FERROCE_BUNDLED-}" != y ] && [ -e "$1/rust/libkernel.rmeta" ] && grep -qx CONFIG_RUST=y "$config" &&
	grep -qx "CONFIG_RUSTC_VERSION=$number" "$config"; then
	exit
fi
# The kernel's Makefile asks for this where flags depend on the compiler.
echo "FERROCE_BUNDLED=y CONFIG_RUSTC_VERSION=$number"
