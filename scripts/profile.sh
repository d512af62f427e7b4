#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# make profile [WHAT="--path veth --who ferroce"]: the functions in which a run of the benchmark spends its time; see
# Documentation/performance.rst.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

need python3 python3-minimal
need perf linux-perf
# shellcheck disable=SC2086
PYTHONPATH=$SRC/scripts exec python3 -m bench.profile ${WHAT-} "$@"
