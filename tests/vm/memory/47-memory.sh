# SPDX-License-Identifier: GPL-2.0
#
# Memory regions that change, and regions at the ends of the address space; see memory.py.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# vm: TOPOLOGY=single KERNEL=umdebug

cd "${VM_LIB%/*}" && exec python3 memory.py
