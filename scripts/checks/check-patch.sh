#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-patch.sh: checkpatch.pl --strict, of the stock kernel, on our C in the kernel.
#
# Not of interest: the layout of tracepoints, which is that of the kernel's own (PARENTHESIS_ALIGNMENT,
# OPEN_ENDED_LINE); the cast that virt_to_phys() asks for (VOLATILE); and habits of test modules (the others).

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

cd "$SRC"
kernel=$(scripts/kernel/kernel.sh)
ignored=PARENTHESIS_ALIGNMENT,OPEN_ENDED_LINE,VOLATILE,EMBEDDED_FUNCTION_NAME,MULTIPLE_ASSIGNMENTS,MSLEEP
ignored+=,MACRO_WITH_FLOW_CONTROL
mapfile -t files < <(find include rust/helpers tests/module -name '*.[ch]' ! -name '*.mod.c')
exec scripts/root/in-root.sh perl "$kernel/build/scripts/checkpatch.pl" --strict --no-tree --terse --no-summary \
	--show-types --quiet --max-line-length=120 --ignore "$ignored" -f "${files[@]}"
