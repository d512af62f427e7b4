# SPDX-License-Identifier: GPL-2.0
#
# The verbs as an application calls them through rdma-core's Python binding: see verbs.py. The attributes that the
# device reports: see limits.py. Memory that a user may register: see memlock.py. Queues created by attributes: see
# attributes.py.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# vm: TOPOLOGY=single KERNEL=umdebug

. "$VM_LIB"

python_tests verbs.py
python_tests limits.py
python_tests memlock.py
python_tests attributes.py
finish
