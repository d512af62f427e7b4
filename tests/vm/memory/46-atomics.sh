# SPDX-License-Identifier: GPL-2.0
#
# Atomic operations, atomic WRITEs, FLUSHes, and invalidated keys; see atomics.py.
#
#	v0 [DEV] ------ v1      v1 is in namespace b
#
# vm: TOPOLOGY=single KERNEL=umdebug
# vm: TOPOLOGY=single VM_ENV=LOCAL_PATH=0 KERNEL=umdebug

cd "${VM_LIB%/*}" && exec python3 atomics.py
