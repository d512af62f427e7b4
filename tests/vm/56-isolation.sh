# SPDX-License-Identifier: GPL-2.0
#
# What belongs to one process or one namespace is nobody else's, whatever numbers others know of it; see isolation.py
# and outsider.py.
#
#	v0 [DEV], owner ------ v1 [PEER_DEV]     v1 is in namespace b, and one of the strangers
#	c0 [X] in c ------ d0 [Y] in d           exclusive mode: 10.0.8.1 and 10.0.8.2
#
# vm: TOPOLOGY=netns

. "$VM_LIB"
. "${VM_LIB%/*}/wait.sh"

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

# exclusive: every namespace of ours must be gone before.
exclusive() {
	rdma link del "$DEV" && rdma link del "$PEER_DEV" && ip netns del b && within 20 rdma system set netns exclusive
}

cd "${VM_LIB%/*}" || exit
python_tests isolation.py

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
finish
