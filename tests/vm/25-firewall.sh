# SPDX-License-Identifier: GPL-2.0
#
# A firewall that swallows the packets of a connection at work, for good or for a while; see firewall.py.
#
#	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

cd "${VM_LIB%/*}" || exit
python_tests firewall.py
pingpong rc 4 -n 100

finish
