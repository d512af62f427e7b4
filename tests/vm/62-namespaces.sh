# SPDX-License-Identifier: GPL-2.0
#
# Devices that belong to network namespaces (`rdma system set netns exclusive`).
#
#	v0 [DEV] ------ v1                    in the first namespace
#	c0 [X] in c ------ d0 [Y] in d        10.0.8.1 and 10.0.8.2
#
# vm: TOPOLOGY=single

. "$VM_LIB"
modprobe -a rdma_ucm

in_c() { ip netns exec c "$@"; }
in_d() { ip netns exec d "$@"; }

# ready NAME COMMAND...: a device's QP 1 can be used; the command runs `rdma` in the right namespace.
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
	skip "exclusive mode" "$(rdma system set netns exclusive 2>&1)"
	finish
}
ip netns add c
ip netns add d
ip link add c0 netns c type veth peer name d0 netns d
address c0 10.0.8.1 fd08::1 c
address d0 10.0.8.2 fd08::2 d
ip -n c link set lo up
ip -n d link set lo up

check "a device is made inside a namespace" in_c rdma link add X type "$DRIVER" netdev c0
check "another in the other" in_d rdma link add Y type "$DRIVER" netdev d0
check "the first namespace does not see them" sh -c '! rdma link | grep -q "[XY]/1"'
check "each is seen in its own" sh -c \
	'ip netns exec c rdma link | grep -q X/1 && ip netns exec d rdma link | grep -q Y/1'
check "and not in the other" sh -c '! ip netns exec c rdma link | grep -q Y/1'
check "their QP 1 is ready" sh -c "$(declare -f ready); ready X ip netns exec c && ready Y ip netns exec d"
connects "rping from d to c" in_c in_d 10.0.8.1
connects "rping from c to d" in_d in_c 10.0.8.2
connects "rping inside c" in_c in_c 10.0.8.1

# The name by which a device is sent back here.
ip netns attach first 1

# A device that moves takes its QP 1 along.
check "a device in the first namespace" add_device "$DEV" "$DRIVER" "$NETDEV"
check "goes to c" rdma dev set "$DEV" netns c
if [ "$DRIVER" = ferroce ]; then
	check "where its QP 1 is ready" within 5 ready "$DEV" in_c
	check "and comes back" in_c rdma dev set "$DEV" netns first
	check "with its QP 1" within 5 ready "$DEV"
	check "and its addresses" within 10 has_gid "$DEV" "$ADDR"
	connects "rping in the first namespace" "" "" "$ADDR"
else
	skip "where its QP 1 is ready" "rxe: QP 1 is made only once"
fi
check "the kernel had nothing to say about QP 1" sh -c '! dmesg | grep -q "Couldn.t"'

# A namespace goes while its device works.
in_d timeout 60 rping -s -a 10.0.8.2 >/tmp/server 2>&1 &
server=$!
sleep 2
in_c timeout 60 rping -c -a 10.0.8.2 -C 100000 >/tmp/client 2>&1 &
client=$!
at_work() { in_d rdma resource show qp | grep -q 'type RC state RTS'; }
check "a connection is at work" within 20 at_work
sleep 1
ip netns del d
pkill -9 -x rping
wait "$server" "$client" 2>/dev/null
ip netns del c
check "the module can go when the namespaces are gone" within 30 unload "$DRIVER"
finish
