#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# make bench [QUICK=1]: ferroce beside rdma_rxe, siw, TCP and memcpy, alternately in one boot of a user-mode
# kernel. The figures are listed in scripts/bench/figures.py and explained in
# Documentation/performance.rst. Results go to build/bench, or to BENCH_OUT.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

need python3 python3-minimal
options=()
[ -z "${QUICK-}" ] || options+=(--quick)
PYTHONPATH=$SRC/scripts exec python3 -m bench "${options[@]}" --out "${BENCH_OUT:-$SRC/build/bench}" "$@"
