# SPDX-License-Identifier: GPL-2.0
#
# A firewall drops the packets of an active connection, for a while or until the end; see firewall.py.
#
#	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

cd "${VM_LIB%/*}" || exit
python_tests firewall.py
pingpong rc 4 -n 100

finish
