# SPDX-License-Identifier: GPL-2.0
#
# Performance management of a port; see mad.py.
#
#	v0 [DEV] ------ v1 [PEER_DEV]         v1 is in namespace b
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"
modprobe ib_umad
cd "${VM_LIB%/*}" && exec python3 mad.py
