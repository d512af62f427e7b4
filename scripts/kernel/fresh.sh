#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# fresh.sh KDIR: removes what a build in this tree has left for another kernel, another configuration or another rustc,
# which Kbuild would not notice. fresh.sh --clean removes it in any case; --names prints patterns of what builds leave.
#
# Needs nothing but this tree.

set -euo pipefail
cd "$(dirname "$0")/../.."

NAMES='*.o *.ko *.mod *.mod.c *.rmeta *.rlib *.so .*.cmd .*.d *generated*.rs target.json rustc_cfg'

clean() {
	local name options=()
	set -f
	for name in $NAMES; do options+=(-o -name "$name"); done
	find rust tests -path tests/target -prune -o -type f \( "${options[@]:1}" \) \
		-exec rm -f {} + 2>/dev/null || true
	rm -f rust/.built-for
}

case ${1-} in
--names) printf '%s\n' "$NAMES" ;;
--clean) clean ;;
*)
	stamp=$({
		rustc --version
		cat "$1/include/generated/utsrelease.h" "$1/include/config/auto.conf" "$1/Module.symvers"
	} | sha256sum)
	if [ -e rust/.built-for ] && [ "$(<rust/.built-for)" != "$stamp" ]; then clean; fi
	echo "$stamp" >rust/.built-for
	;;
esac
