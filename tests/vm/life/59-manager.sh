# SPDX-License-Identifier: GPL-2.0
#
# The general services QP (GSI) and the connection manager survive changes of the interface: a link that goes down and
# up at any moment, another MTU, other addresses. Also many connections.
#
#	v0 [DEV] ------ v1 [PEER_DEV]         v1 is in namespace b
#
# CM_CONNECTIONS=1000 is the number of connections of cmtime, FLAPS=20 the number of changes. SEED seeds their times.
#
# vm: TOPOLOGY=netns VM_TIMEOUT=1200 KERNEL=umdebug
# long: TOPOLOGY=netns KERNEL=uml VM_TIMEOUT=1200 VM_ENV=CM_CONNECTIONS=1000

. "$VM_LIB"
modprobe -a rdma_ucm
CM_CONNECTIONS=${CM_CONNECTIONS:-200}
FLAPS=${FLAPS:-12}
seeded
note "seed ${SEED:-4791}"

# gsi_is STATE: the GSI QPs of both devices are in this state.
gsi_is() {
	[ "$(rdma resource show qp link "$DEV" | grep -c "type GSI state $1")" = 1 ] &&
		[ "$(rdma resource show qp link "$PEER_DEV" | grep -c "type GSI state $1")" = 1 ]
}

# back: restores the state of the set-up.
back() {
	ip link set "$NETDEV" mtu "$MTU" up
	address "$NETDEV" "$ADDR" "$ADDR6" 2>/dev/null
	at_peer ip link set "$PEER_NETDEV" mtu "$MTU" up
	# The neighbour entries of both ends may be stale.
	ip neigh flush all
	at_peer ip neigh flush all
	within 10 has_gid "$DEV" "$ADDR" && within 10 has_gid "$DEV" "$ADDR6"
}

connects() { managed "$1" "rping -s -a $ADDR -C 5 -V" "rping -c -a $ADDR -C 5 -V"; }

check "The GSI QPs are ready" gsi_is RTS
connects "rping, to begin with"

# A request sent while the link is down is lost, with no other effect.
timeout 60 rping -s -a "$ADDR" -C 5 >/tmp/server 2>&1 &
server=$!
sleep 1
at_peer timeout 30 rping -c -a "$ADDR" -C 5 >/tmp/client 2>&1 &
client=$!
sleep 0.1
at_peer ip link set "$PEER_NETDEV" down
ip link set "$NETDEV" down
sleep 3
# Kill by name: a process started in a namespace is the child of a shell and would connect later.
pkill -x rping
wait "$client" "$server" 2>/dev/null
if [ "$DRIVER" = ferroce ]; then
	check "The GSI QPs are ready after requests were sent while the link was down" gsi_is RTS
	back
	connects "rping after the link is up again"
else
	skip "The GSI QPs are ready after requests were sent while the link was down" "rxe: QP 1 stays in ERR"
	rdma link del "$DEV"
	at_peer rdma link del "$PEER_DEV"
	back
	set_up_peer
	set_up_device
fi

# storm NAME COMMAND...: calls the command with 0, 1, 2, ... while connections are established.
storm() {
	local name=$1 round pids=()
	shift
	touch /tmp/storm
	bash -c 'while [ -e /tmp/storm ]; do timeout 10 rping -s -a "$0" -C 2; done' "$ADDR" >/dev/null 2>&1 &
	pids+=($!)
	at_peer bash -c 'while [ -e /tmp/storm ]; do timeout 5 rping -c -a "$0" -C 2; done' "$ADDR" >/dev/null 2>&1 &
	pids+=($!)
	for ((round = 0; round < FLAPS; round++)); do
		"$@" "$round" >/dev/null 2>&1
		sleep "0.$((RANDOM % 6))"
	done
	rm -f /tmp/storm
	wait "${pids[@]}" 2>/dev/null
	back
	check "$name: both GSI QPs are ready" gsi_is RTS
	connects "$name: rping afterwards"
}

flap() { ip link set "$NETDEV" "$([ $(($1 % 2)) = 0 ] && echo down || echo up)"; }
resize() {
	local mtus=(1500 600 1280 4200)
	ip link set "$NETDEV" mtu "${mtus[$1 % 4]}"
	at_peer ip link set "$PEER_NETDEV" mtu "${mtus[$1 % 4]}"
}
readdress() {
	if [ $(($1 % 2)) = 0 ]; then
		ip addr flush dev "$NETDEV"
	else
		address "$NETDEV" "$ADDR" "$ADDR6"
	fi
}
remac() { ip link set "$NETDEV" address "02:00:00:00:00:$((10 + $1))"; }
if [ "$DRIVER" = ferroce ]; then
	storm "Link down and up" flap
	storm "MTU changes" resize
	storm "Addresses change" readdress
	storm "Ethernet addresses change" remac
else
	skip "Connections under changes of the interface" "rxe: QP 1 stays in ERR"
fi

TRAFFIC_SECONDS=300
managed "cmtime with $CM_CONNECTIONS connections" "cmtime -b $ADDR -c $CM_CONNECTIONS" \
	"cmtime -b $PEER_ADDR -s $ADDR -c $CM_CONNECTIONS"
dd if=/dev/urandom of=/tmp/rcopy.in bs=1M count=1 2>/dev/null
timeout 60 rcopy >/tmp/server 2>&1 &
server=$!
within 30 cm_listens
check "rcopy succeeds" at_peer timeout 60 rcopy /tmp/rcopy.in "$ADDR:/tmp/rcopy.out"
kill "$server" 2>/dev/null
wait "$server" 2>/dev/null
check "rcopy copies every byte" cmp /tmp/rcopy.in /tmp/rcopy.out
managed "rdma_server and rdma_client" "rdma_server" "rdma_client -s $ADDR"
managed "rstream, small" "rstream -b $ADDR -S 64 -C 50" "rstream -s $ADDR -S 64 -C 50"
managed "rstream, large" "rstream -b $ADDR -S 65536 -C 20" "rstream -s $ADDR -S 65536 -C 20"
check "Every connection identifier is destroyed" \
	within 20 sh -c '! rdma resource show cm_id | grep -q "lqpn"'
finish
