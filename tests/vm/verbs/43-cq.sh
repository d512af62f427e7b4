# SPDX-License-Identifier: GPL-2.0
#
# Completion queues through rdma-core's Python binding; see cq.py. CQ_TESTS selects tests.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# vm: TOPOLOGY=single KERNEL=umdebug
# vm: TOPOLOGY=single PROVIDER=direct KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=kcsan

cd "${VM_LIB%/*}" && exec python3 cq.py ${CQ_TESTS-}
