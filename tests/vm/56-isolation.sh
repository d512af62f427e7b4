# SPDX-License-Identifier: GPL-2.0
#
# What belongs to one process or one namespace is nobody else's, whatever numbers others know of it; see isolation.py,
# foreign_gid.py, groups_apart.py, outsider.py and vrf.py. Groups of processes have as much as they may; see
# rdma_group.py.
#
#	v0 [DEV], owner ------ v1 [PEER_DEV]     v1 is in namespace b, and one of the strangers
#	v0.5                                     a VLAN that goes to namespace c and comes back
#	m0 [Z] in c                              a macvlan over v0 in namespace c
#	c0 [X] in c ------ d0 [Y] in d           exclusive mode: 10.0.8.1 and 10.0.8.2
#
# vm: TOPOLOGY=netns

. "$VM_LIB"

in_c() { ip netns exec c "$@"; }
in_d() { ip netns exec d "$@"; }

# ready NAME COMMAND...: a device's QP 1 can be used; the command runs `rdma` in the right namespace.
ready() { "${@:2}" rdma resource show qp link "$1" | grep -q 'type GSI state RTS'; }

# reached: the device of d, from c.
reached() {
	in_d timeout 60 rping -s -a 10.0.8.2 -C 10 -V >/tmp/server 2>&1 &
	local server=$!
	within 30 cm_listens in_d && in_c timeout 60 rping -c -a 10.0.8.2 -C 10 -V && wait "$server"
}

# vlan NAMESPACE TEST...: with an address of the VLAN there, which the core makes a GID of DEV wherever it is.
FOREIGN_ADDR=10.5.0.1
vlan() {
	address v0.5 "$FOREIGN_ADDR" fd05::1 "$1"
	FOREIGN=$(gid_index "$DEV" "$FOREIGN_ADDR") FOREIGN_ADDR=$FOREIGN_ADDR python_tests foreign_gid.py "${@:2}"
}

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

# device_above: over an interface that is on top of DEV's, in another namespace.
device_above() {
	ip netns add c
	modprobe macvlan 2>/dev/null
	ip link add link v0 name m0 netns c type macvlan mode bridge || return
	address m0 10.6.0.1 fd06::1 c
	check "a device over a macvlan in c" in_c rdma link add Z type "$DRIVER" netdev m0
	ABOVE=Z ABOVE_GID=$(gid_index Z 10.6.0.1) python_tests groups_apart.py
	check "it goes" in_c rdma link del Z
	ip netns del c
}

# exclusive: every namespace of ours must be gone before.
exclusive() {
	rdma link del "$DEV" && rdma link del "$PEER_DEV" && ip netns del b && within 20 rdma system set netns exclusive
}

cd "${VM_LIB%/*}" || exit
python_tests isolation.py
python_tests rdma_group.py
[ "$DRIVER" = rxe ] || python_tests vrf.py

if [ "$DRIVER" = rxe ]; then
	skip "addresses in other namespaces" "rxe: sends from them"
else
	moved_away || skip "addresses in other namespaces" "this kernel has no VLANs"
	device_above || skip "groups in other namespaces" "this kernel has no macvlans"
fi

if [ "$DRIVER" = rxe ]; then
	skip "exclusive mode" "rxe: all devices are in the first namespace"
elif exclusive >/tmp/exclusive; then
	modprobe -a rdma_ucm ib_umad 2>/dev/null
	ip netns add c
	ip netns add d
	ip link add c0 netns c type veth peer name d0 netns d
	address c0 10.0.8.1 fd08::1 c
	address d0 10.0.8.2 fd08::2 d
	check "a device in c" in_c rdma link add X type "$DRIVER" netdev c0
	check "a device in d" in_d rdma link add Y type "$DRIVER" netdev d0
	check "they are ready" within 10 eval 'ready X in_c && ready Y in_d'
	check "sysfs in c has its own device" in_c test -e /sys/class/infiniband/X
	check_fails "and not the one of d" in_c test -e /sys/class/infiniband/Y
	OTHER=Y python_tests outsider.py device_files lists queries resources changes
	check "the device of d works after all that" reached
	OTHER=Y python_tests outsider.py deletion
	ip netns del c
	ip netns del d
else
	skip "exclusive mode" "$(tail -n 1 /tmp/exclusive)"
fi
check "the log is not flooded with all that" log_is_not_flooded
finish
