#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Captures rdma_rxe in a virtual machine. From the top of the tree:
#
#	DRIVER=none VM_FILES=tests/vectors/capture.py VM_OUT=OUT make vm RUN=tests/vectors/capture.sh
#
# writes the captures to OUT/a.

set -euo pipefail
exec python3 "$(dirname "$0")/capture.py" /out
