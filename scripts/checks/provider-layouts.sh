#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# provider-layouts.sh RDMA-CORE [TAG...]: checks the provider with the layouts of releases of libibverbs, whose headers
# come from a git repository of rdma-core. The provider runs over tests/provider/stand_in.c, which stands in for
# libibverbs and the kernel. RUNNER="valgrind -q ..." runs it in something. PROVIDER_ARCH=arm64 checks it for that
# architecture, with the cross compiler and the emulator of that toolchain root.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

repository=${1?"usage: provider-layouts.sh RDMA-CORE [TAG...]"}
shift
[ $# -gt 0 ] || set -- v36.0 v39.0 v43.0 v44.0 v45.0 v50.0 v54.0 v56.0 v57.0 v59.0 v61.0 v62.0 v63.0 v64.0 HEAD
library=$("$SRC/scripts/release/provider.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiler=(gcc) inside=()
if [ "${PROVIDER_ARCH-}" = arm64 ]; then
	compiler=(env TOOLCHAIN="$SUITE-arm64-programs" "$SRC/scripts/root/in-root.sh" aarch64-linux-gnu-gcc)
	inside=(env TOOLCHAIN="$SUITE-arm64-programs" "$SRC/scripts/root/in-root.sh")
	RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
fi

show() { git -C "$repository" show "$1:$2"; }

# headers TAG: unpacks the release, and publishes its headers as its build would.
headers() {
	local from=$work/$1/source to=$work/$1/include pabi
	mkdir -p "$from" "$to"/{infiniband,kernel-abi}
	git -C "$repository" archive "$1" libibverbs kernel-headers ccan util buildlib/make_abi_structs.py |
		tar -x -C "$from"
	ln -s "$from"/libibverbs/*.h "$from/kernel-headers/rdma/ib_user_ioctl_verbs.h" "$to/infiniband"
	ln -s "$from/kernel-headers/rdma" "$from/ccan" "$from/util" "$to"
	python3 "$from/buildlib/make_abi_structs.py" "$from/kernel-headers/rdma/ib_user_verbs.h" \
		"$to/kernel-abi/ib_user_verbs.h"
	pabi=$(show "$1" CMakeLists.txt | sed -n 's/.*IBVERBS_PABI_VERSION "\([0-9]*\)".*/\1/p')
	cat >"$to/config.h" <<-END
		#define HAVE_STATEMENT_EXPR 1
		#define HAVE_BUILTIN_TYPES_COMPATIBLE_P 1
		#define HAVE_TYPEOF 1
		#define SIZEOF_LONG 8
		#define IBVERBS_PABI_VERSION $pabi
	END
	echo "$pabi"
}

# compile DIRECTORY FLAG...: checks sizes and offsets, and makes the stand-in, and the program that checks the rest.
compile() {
	local dir=$1
	shift
	"$SRC/scripts/checks/provider-abi.py" --layouts >"$dir/layouts.c"
	"${compiler[@]}" "$@" -std=gnu11 -w -I"$dir/include" -fsyntax-only "$dir/layouts.c"
	"${compiler[@]}" "$@" -std=gnu11 -g -O1 -w -I"$dir/include" -fPIC -shared -Wl,-soname,libibverbs.so.1 \
		-o "$dir/libibverbs.so.1" "$SRC/tests/provider/stand_in.c"
	"${compiler[@]}" "$@" -std=gnu11 -g -O1 -w -I"$dir/include" -o "$dir/check" \
		"$SRC"/tests/provider/{check,counters,posting,xrc}.c "$dir/libibverbs.so.1"
}

# run DIRECTORY ARGUMENT...: what the provider says of a kernel without the ABI is expected.
run() {
	local dir=$1 log=$1/log rc=0
	shift
	"${inside[@]}" env RDMAV_DRIVERS=ferroce LD_LIBRARY_PATH="$dir" ${RUNNER-} "$dir/check" "$@" 2>"$log" || rc=$?
	grep -v '^ferroce: fr0: the module in the kernel does not have the ABI' "$log" >&2 || :
	return $rc
}

check() { # TAG
	local dir=$work/$1 release pabi flags=()
	pabi=$(headers "$1")
	release=$(show "$1" CMakeLists.txt | sed -n 's/^set(PACKAGE_VERSION "\([0-9]*\).*/\1/p')
	! show "$1" libibverbs/libibverbs.map.in | grep -q ibv_cmd_query_port_speed || flags+=(-DHAS_PORT_SPEED)
	! show "$1" libibverbs/libibverbs.map.in | grep -q ibv_cmd_create_comp_cntr || flags+=(-DHAS_COMP_CNTR)
	# The header of the tree is found as <rdma/ferroce-abi.h>, beside those of the release.
	ln -s "$SRC/include/uapi/rdma/ferroce-abi.h" "$dir/source/kernel-headers/rdma"
	compile "$dir" -DPABI="$pabi" -DRELEASE="$release" "${flags[@]}"
	run "$dir" "$library/libferroce-rdmav$pabi.so" || die "the provider fails with the layouts of $1"
	echo "provider-layouts: $1: number $pabi, good"
}

# check_unknown TAG NUMBER FLAG...: a release that has another number, or lacks what tells its layout. The provider
# says so, once, and registers nothing.
check_unknown() {
	local dir=$work/$1 said
	compile "$dir" -DPABI="$2" -DRELEASE=65 "${@:3}"
	said=$(run "$dir" "$library/libferroce-rdmav65.so" unknown 2>&1) ||
		die "the provider takes an unknown libibverbs"
	[ "$(grep -c '^ferroce: this libibverbs ' <<<"$said")" = 1 ] || die "the provider says of it: $said"
	echo "provider-layouts: an unknown number $2: refused"
}

for tag; do
	check "$tag"
done
check_unknown "$tag" 66 -DHAS_PORT_SPEED
check_unknown "$tag" 64
