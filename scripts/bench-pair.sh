#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench-pair.sh HOST [OPTION...]: ferroce, rdma_rxe and TCP in turn over the network between this machine and HOST,
# which ssh reaches as root, or as a user with sudo. Prints the table of `make bench`, with NIC and settings of both
# machines; table, picture and results.json go to build/bench-pair, or to --out DIR. Options: see --help.
#
# Both machines need the module ferroce, rdma_rxe, and some packages, whose names are told; nothing is installed.
# Modules and RDMA links that are added are removed at the end, also after ^C.

set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
PYTHONPATH=$here exec python3 -m bench.pair --out "${here%/*}/build/bench-pair" "$@"
