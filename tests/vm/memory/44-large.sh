# SPDX-License-Identifier: GPL-2.0
#
# The longest message, the longest scatter/gather list, and empty ones; see large.py.
#
#	v0 [DEV] ------ v1      two QPs of one device talk to each other
#
# vm: TOPOLOGY=single KERNEL=umdebug
# long: TOPOLOGY=single VM_ENV=LARGE=1 VM_TIMEOUT=1800

cd "${VM_LIB%/*}" && exec python3 large.py
