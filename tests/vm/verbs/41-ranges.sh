# SPDX-License-Identifier: GPL-2.0
#
# Attributes that are wider than their fields, as programs set them, and attributes that are refused; see ranges.py.
#
#	v0 [DEV], VLAN v0.9 of MTU 1500 ------ v1 [PEER_DEV] in namespace b
#
# vm: TOPOLOGY=netns KERNEL=umdebug
# vm: TOPOLOGY=netns PEER_DRIVER=rxe KERNEL=umdebug
# long: TOPOLOGY=netns

. "$VM_LIB"

modprobe 8021q 2>/dev/null
ip link add link "$NETDEV" name v0.9 type vlan id 9
check "A VLAN has an address" address v0.9 10.9.0.1 fd00::91
check "It has a smaller MTU" ip link set v0.9 mtu 1500
NARROW_GID=$(gid_index "$DEV" 10.9.0.1) python_tests ranges.py
finish
