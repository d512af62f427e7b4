# SPDX-License-Identifier: GPL-2.0
#
# QEMU's live migration over RDMA, of a virtual machine on an emulated processor; see migrate.py.

. ./lib.sh

tells() { sed -n 's/.* paused for .*/, &/p' "$1"; }

compare "live migration" --topology netns -- python3 migrate.py
compare "live migration, all memory pinned" --topology netns -- python3 migrate.py rdma-pin-all
