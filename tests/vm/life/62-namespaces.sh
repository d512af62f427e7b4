# SPDX-License-Identifier: GPL-2.0
#
# Devices that belong to network namespaces (`rdma system set netns exclusive`).
#
#	v0 [DEV] ------ v1                    in the first namespace
#	c0 [X] in c ------ d0 [Y] in d        10.0.8.1 and 10.0.8.2
#
# vm: TOPOLOGY=single KERNEL=umdebug

. "$VM_LIB"
modprobe -a rdma_ucm

in_c() { ip netns exec c "$@"; }
in_d() { ip netns exec d "$@"; }

# ready NAME COMMAND...: QP 1 of the device is usable; the command runs `rdma` in the right namespace.
ready() {
	local name=$1
	shift
	"$@" rdma resource show qp link "$name" | grep -q 'type GSI state RTS'
}

# connects NAME SERVER-IN CLIENT-IN ADDRESS
connects() {
	local name=$1 pid
	$2 timeout 60 rping -s -a "$4" -C 10 -V >/tmp/server 2>&1 &
	pid=$!
	within 30 cm_listens $2
	check "$name" $3 timeout 60 rping -c -a "$4" -C 10 -V
	check "$name, the other end" wait "$pid"
}

rdma link del "$DEV"
rdma system set netns exclusive || {
	skip "Exclusive mode" "$(rdma system set netns exclusive 2>&1)"
	finish
}
ip netns add c
ip netns add d
ip link add c0 netns c type veth peer name d0 netns d
address c0 10.0.8.1 fd08::1 c
address d0 10.0.8.2 fd08::2 d
ip -n c link set lo up
ip -n d link set lo up

check "rdma link add creates a device inside a namespace" in_c rdma link add X type "$LINK_TYPE" netdev c0
check "rdma link add creates a device in another namespace" in_d rdma link add Y type "$LINK_TYPE" netdev d0
check "The first namespace does not see the devices" sh -c '! rdma link | grep -q "[XY]/1"'
check "Each namespace sees its own device" sh -c \
	'ip netns exec c rdma link | grep -q X/1 && ip netns exec d rdma link | grep -q Y/1'
check "A namespace does not see the device of another" sh -c '! ip netns exec c rdma link | grep -q Y/1'
check "QP 1 of each device is ready" sh -c "$(declare -f ready); ready X ip netns exec c && ready Y ip netns exec d"
connects "rping from d to c" in_c in_d 10.0.8.1
connects "rping from c to d" in_d in_c 10.0.8.2
connects "rping inside c" in_c in_c 10.0.8.1

# A name for the first namespace, so that a device can be moved back.
ip netns attach first 1

# A device that moves to another namespace takes its QP 1 along.
check "The first namespace has a device" add_device "$DEV" "$DRIVER" "$NETDEV"
check "The device moves to c" rdma dev set "$DEV" netns c
if [ "$DRIVER" = ferroce ]; then
	check "QP 1 of the moved device is ready" within 5 ready "$DEV" in_c
	check "The device moves back" in_c rdma dev set "$DEV" netns first
	check "QP 1 of the device is ready again" within 5 ready "$DEV"
	check "The device has its addresses again" within 10 has_gid "$DEV" "$ADDR"
	connects "rping in the first namespace" "" "" "$ADDR"
else
	skip "QP 1 of the moved device is ready" "rxe: QP 1 is made only once"
fi
check "The kernel log has no complaint about QP 1" sh -c '! dmesg | grep -q "Couldn.t"'

# The device of a netdev that moves follows it: a script that then moves the device finds it where it should be.
if [ "$DRIVER" = ferroce ]; then
	is_in_c() { in_c rdma link | grep -q "$DEV/1 .*netdev $NETDEV"; }
	check "The netdev moves to c" ip link set "$NETDEV" netns c
	check "Its device is in c as well" within 10 is_in_c
	check "The first namespace does not see it" sh -c "! rdma link | grep -q $DEV/"
	check "A late move of the device fails at once" not timeout 5 rdma dev set "$DEV" netns c
	check "The netdev moves back" ip -n c link set "$NETDEV" netns first
	check "Its device is back as well" within 10 sh -c "rdma link | grep -q '$DEV/1 .*netdev $NETDEV'"
	check "The device moves to c alone" rdma dev set "$DEV" netns c
	check "Its netdev comes after it" ip link set "$NETDEV" netns c
	check "Both are in c" within 10 is_in_c
fi

# Delete a namespace while its device is in use.
in_d timeout 60 rping -s -a 10.0.8.2 >/tmp/server 2>&1 &
server=$!
sleep 2
in_c timeout 60 rping -c -a 10.0.8.2 -C 100000 >/tmp/client 2>&1 &
client=$!
at_work() { in_d rdma resource show qp | grep -q 'type RC state RTS'; }
check "A connection is active" within 20 at_work
sleep 1
ip netns del d
pkill -9 -x rping
wait "$server" "$client" 2>/dev/null
ip netns del c
check "The driver unloads after the namespaces are deleted" within 30 unload "$DRIVER"
finish
