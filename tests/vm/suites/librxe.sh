# SPDX-License-Identifier: GPL-2.0
#
# Faults of a release of rdma-core that a user would blame the driver for: see librxe.py.
#
# vm: TOPOLOGY=single

. "$VM_LIB"

RELEASE=$(dpkg-query -W -f '${source:Upstream-Version}' rdma-core)
export RELEASE
note "rdma-core $RELEASE"
python_tests librxe.py
finish
