# SPDX-License-Identifier: GPL-2.0
#
# The objects of a process or a namespace are inaccessible to others, whatever numbers others know; see isolation.py,
# foreign_gid.py, groups_apart.py, outsider.py and vrf.py. RDMA cgroups limit the objects of their processes; see
# rdma_group.py.
#
#	v0 [DEV], owner ------ v1 [PEER_DEV]     v1 is in namespace b, with one of the strangers
#	v0.5                                     a VLAN that moves to namespace c and back
#	m0 [Z] in c                              a macvlan over v0 in namespace c
#	c0 [X] in c ------ d0 [Y] in d           exclusive mode: 10.0.8.1 and 10.0.8.2
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

in_c() { ip netns exec c "$@"; }
in_d() { ip netns exec d "$@"; }

# ready NAME COMMAND...: QP 1 of the device is usable; the command runs `rdma` in the right namespace.
ready() { "${@:2}" rdma resource show qp link "$1" | grep -q 'type GSI state RTS'; }

# reached: c can connect to the device of d.
reached() {
	in_d timeout 60 rping -s -a 10.0.8.2 -C 10 -V >/tmp/server 2>&1 &
	local server=$!
	within 30 cm_listens in_d && in_c timeout 60 rping -c -a 10.0.8.2 -C 10 -V && wait "$server"
}

# vlan NAMESPACE TEST...: gives the VLAN an address in that namespace, and runs tests with the index of its GID. The
# core offers it to DEV in any namespace; the driver refuses it unless it is in the namespace of DEV.
FOREIGN_ADDR=10.5.0.1
vlan() {
	address v0.5 "$FOREIGN_ADDR" fd05::1 "$1"
	if [ -z "$1" ]; then
		FOREIGN=$(gid_index "$DEV" "$FOREIGN_ADDR")
	else
		check "The address of another namespace is no GID" within 10 refuses_gid "$FOREIGN_ADDR"
	fi
	FOREIGN=$FOREIGN FOREIGN_ADDR=$FOREIGN_ADDR python_tests foreign_gid.py "${@:2}"
}

# refuses_gid ADDRESS: the core has offered the address to DEV, and it is no GID.
refuses_gid() { dmesg | grep -q "$DEV: add_roce_gid GID add failed" && ! has_gid "$DEV" "$1"; }

moved_away() {
	ip netns add c
	ip -n c link set lo up
	modprobe 8021q 2>/dev/null
	ip link add link v0 name v0.5 type vlan id 5 || return
	vlan "" usable
	ip link set v0.5 netns c
	vlan c connections redirected datagrams
	ip netns attach first 1
	ip -n c link set v0.5 netns first
	vlan "" usable
	ip link del v0.5
	ip netns del first
	ip netns del c
}

# device_above: a device on a netdev stacked on DEV's netdev, in another namespace.
device_above() {
	ip netns add c
	modprobe macvlan 2>/dev/null
	ip link add link v0 name m0 netns c type macvlan mode bridge || return
	address m0 10.6.0.1 fd06::1 c
	check "A macvlan in c carries a device" in_c rdma link add Z type "$LINK_TYPE" netdev m0
	ABOVE=Z ABOVE_GID=$(gid_index Z 10.6.0.1) python_tests groups_apart.py
	check "The device over a macvlan is removed" in_c rdma link del Z
	ip netns del c
}

# exclusive: every other namespace of this test must be deleted first.
exclusive() {
	rdma link del "$DEV" && rdma link del "$PEER_DEV" && ip netns del b && within 20 rdma system set netns exclusive
}

cd "${VM_LIB%/*}" || exit
python_tests isolation.py
python_tests rdma_group.py
[ "$DRIVER" = rxe ] || python_tests vrf.py

if [ "$DRIVER" = rxe ]; then
	skip "Addresses in other namespaces" "rxe: sends from them"
else
	moved_away || skip "Addresses in other namespaces" "this kernel has no VLANs"
	device_above || skip "Groups in other namespaces" "this kernel has no macvlans"
fi

if [ "$DRIVER" = rxe ]; then
	skip "Exclusive mode" "rxe: all devices are in the first namespace"
elif exclusive >/tmp/exclusive; then
	modprobe -a rdma_ucm ib_umad 2>/dev/null
	ip netns add c
	ip netns add d
	ip link add c0 netns c type veth peer name d0 netns d
	address c0 10.0.8.1 fd08::1 c
	address d0 10.0.8.2 fd08::2 d
	check "Namespace c has a device" in_c rdma link add X type "$LINK_TYPE" netdev c0
	check "Namespace d has a device" in_d rdma link add Y type "$LINK_TYPE" netdev d0
	check "Both devices are ready" within 10 eval 'ready X in_c && ready Y in_d'
	check "sysfs in c shows its own device" in_c test -e /sys/class/infiniband/X
	check_fails "sysfs in c does not show the device of d" in_c test -e /sys/class/infiniband/Y
	OTHER=Y python_tests outsider.py device_files lists queries resources changes
	check "The device of d still works" reached
	OTHER=Y python_tests outsider.py deletion
	ip netns del c
	ip netns del d
else
	skip "Exclusive mode" "$(tail -n 1 /tmp/exclusive)"
fi
check "The log is not flooded" log_is_not_flooded
finish
