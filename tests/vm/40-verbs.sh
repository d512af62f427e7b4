# SPDX-License-Identifier: GPL-2.0
#
# The verbs as an application calls them, through rdma-core's own Python binding; see verbs.py.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# vm: TOPOLOGY=single

cd "${VM_LIB%/*}" && exec python3 verbs.py
