# SPDX-License-Identifier: GPL-2.0
#
# What can be seen from outside: counters, details of queue pairs, tracepoints, events, attributes; and that
# nothing of it fills the log.
#
#	v0 [DEV] ------ v1 [PEER_DEV]         v1 is in namespace b
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"
T=/sys/kernel/tracing

counter() { cat "/sys/class/infiniband/$DEV/ports/1/hw_counters/$1"; }
# detail NAME: of the one RC queue pair, as the driver tells it.
detail() {
	rdma -dd resource show qp link "$DEV" | tr '\n' ' ' | sed 's/link /\n/g' | grep 'type RC' |
		sed -n "s/.*drv_$1 \([0-9]*\).*/\1/p"
}
# of cq|mr|srq NAME: of the one that a process has.
of() {
	rdma -dd resource show "$1" dev "$DEV" | tr '\n' ' ' | sed 's/dev /\n/g' | grep 'comm [^[]' |
		sed -n "s/.*drv_$2 \([0-9]*\).*/\1/p"
}
# with_traffic COMMAND...: while a pingpong runs that never ends by itself.
with_traffic() {
	timeout 600 ibv_rc_pingpong -d "$DEV" -g "$GID4" -n 100000000 -m 2048 >/tmp/server 2>&1 &
	server=$!
	await_listener 18515
	at_peer timeout 600 ibv_rc_pingpong -d "$PEER_DEV" -g "$PEER_GID4" -n 100000000 -m 2048 "$ADDR" \
		>/tmp/client 2>&1 &
	client=$!
	within 60 has_qp "$DEV" RTS
	"$@"
	kill "$server" "$client"
	pkill -x ibv_rc_pingpong
	wait "$server" "$client" 2>/dev/null
}

rxe_names="sent_pkts rcvd_pkts duplicate_request out_of_seq_request rcvd_rnr_err send_rnr_err rcvd_seq_err
	completer_retry_err retry_exceeded_err retry_rnr_exceeded_err send_err link_downed sent_bytes rcvd_bytes
	rdma_sends rdma_recvs ack_deferred"
all_there() { local name; for name in $rxe_names; do counter "$name" >/dev/null || return 1; done; }
check "the counters have rxe's names" all_there
check "rdma statistic shows them" sh -c "rdma statistic show link $DEV/1 | grep -q 'sent_pkts [0-9]'"

# What the core has read it shows for 10 ms.
echo 0 >"/sys/class/infiniband/$DEV/ports/1/hw_counters/lifespan"
for kind in rc uc ud; do
	before="$(counter rdma_sends) $(counter rdma_recvs)"
	size=
	[ "$kind" != ud ] || size="-s 1024"
	pingpong "$kind" 4 -n 20 $size
	sleep 0.1
	set -- $before "$(counter rdma_sends)" "$(counter rdma_recvs)"
	check "$kind: messages are counted when they are sent" [ $(($3 - $1)) = 20 ]
	check "$kind: and when they are received" [ $(($4 - $2)) = 20 ]
done

details() {
	check "a queue pair tells its path MTU" [ "$(detail path_mtu)" = 2048 ]
	check "and the size of its queues" [ "$(detail max_send_wr)" -ge 1 ]
	local before=$(detail sent_pkts) received=$(detail rcvd_pkts)
	sleep 1
	check "and counts what it sends" [ "$(detail sent_pkts)" -gt "$before" ]
	check "and receives" [ "$(detail rcvd_pkts)" -gt "$received" ]
	check "a completion queue tells its room" [ "$(of cq room)" -ge 501 ]
	check "and how many completions wait" [ "$(of cq waiting)" -le "$(of cq room)" ]
	check "and whether any was lost" [ "$(of cq overflowed)" = 0 ]
	check "a region tells its rights" [ "$(of mr access)" = 1 ]
	check "and what it is made of" [ "$(of mr on_demand) $(of mr fast) $(of mr windows)" = "0 0 0" ]
}

# apart NAME: the value of the one counter of queue pairs that there is.
apart() { rdma statistic qp show link "$DEV/1" | tr '\n' ' ' | sed -n "s/.*$1 \([0-9]*\).*/\1/p"; }
# rises VALUE COMMAND...: what the command prints is more than that.
rises() { [ "$("${@:2}")" -gt "$1" ]; }
counted_apart() {
	local qpn sum before
	qpn=$(rdma resource show qp link "$DEV/1" | sed -n 's/.*lqpn \([0-9]*\).* state RTS.* pid .*/\1/p')
	sum=$(counter sent_pkts)
	check "a queue pair can be counted apart" rdma statistic qp bind link "$DEV/1" lqpn "$qpn"
	check "its counter counts what it sends" within 5 rises 0 apart sent_pkts
	before=$(apart rcvd_bytes)
	check "and the bytes that it receives" within 5 rises "$before" apart rcvd_bytes
	check "the port counts them, too" rises "$sum" counter sent_pkts
	sum=$(counter sent_pkts)
	check "but not twice" [ "$(apart sent_pkts)" -lt "$sum" ]
	check "the queue pair leaves its counter" rdma statistic qp unbind link "$DEV/1" \
		cntn "$(rdma statistic qp show link "$DEV/1" | sed -n 's/.*cntn \([0-9]*\).*/\1/p')" lqpn "$qpn"
	check "and what was counted stays with the port" [ "$(counter sent_pkts)" -ge "$sum" ]
}

# counters: each counter of queue pairs on a line; numbers and of_counter PATTERN NAME read that.
counters() { rdma statistic qp show link "$DEV/1" | tr '\n' ' ' | sed 's/link /\n/g'; }
numbers() { counters | sed -n 's/.* cntn \([0-9]*\) .*/\1/p' | sort -u; }
of_counter() { counters | grep -e "$1" | sed -n "s/.* $2 \([0-9]*\).*/\1/p"; }
# qpns: the queue pairs of the pingpongs.
qpns() { rdma resource show qp link "$DEV/1" | sed -n 's/.*lqpn \([0-9]*\) .*state RTS.* pid .*/\1/p'; }
# beside KIND COMMAND...: while a second pingpong runs that never ends by itself.
beside() {
	local ours theirs
	timeout 600 "ibv_$1_pingpong" -d "$DEV" -g "$GID4" -p 18516 -n 100000000 -s 1024 >/dev/null 2>&1 &
	ours=$!
	await_listener 18516
	at_peer timeout 600 "ibv_$1_pingpong" -d "$PEER_DEV" -g "$PEER_GID4" -p 18516 -n 100000000 -s 1024 "$ADDR" \
		>/dev/null 2>&1 &
	theirs=$!
	within 60 eval '[ "$(qpns | wc -l)" = 2 ]'
	"${@:2}"
	kill "$ours" "$theirs"
	wait "$ours" "$theirs" 2>/dev/null
}
bind_both() {
	local qpn number
	first=$(qpns | grep -vw "$alone") second=$alone
	for qpn in "$first" "$second"; do
		check "queue pair $qpn can be counted apart" rdma statistic qp bind link "$DEV/1" lqpn "$qpn"
	done
	check "two that are counted apart have two counters" eval '[ "$(numbers | wc -l)" = 2 ]'
	check "none of them is number 0" eval '! numbers | grep -x 0'
	for qpn in "$first" "$second"; do
		check "one is that of queue pair $qpn" eval '[ "$(counters | grep -c "LQPN: <'"$qpn"'>")" = 1 ]'
		number=$(of_counter "LQPN: <$qpn>" sent_pkts)
		check "and it counts" within 5 rises "$number" of_counter "LQPN: <$qpn>" sent_pkts
	done
}
two_apart() {
	local alone first second sum
	alone=$(qpns)
	beside rc bind_both
	# What the first has counted is the port's from now on.
	check "the counter of the one that is gone goes" within 20 eval '[ "$(numbers | wc -l)" = 1 ]'
	sum=$(counter sent_pkts)
	check "the port counts what the other one sends" within 5 rises "$sum" counter sent_pkts
	check "the other one leaves its counter" rdma statistic qp unbind link "$DEV/1" cntn "$(numbers)" lqpn "$second"
}
two_types() {
	local type
	check "two types have two counters" within 5 eval '[ "$(numbers | wc -l)" = 2 ]'
	for type in RC UD; do
		check "one is that of $type, and counts" within 5 rises 0 of_counter "qp-type $type" sent_pkts
	done
}
by_type() {
	check "there is a counter for each type of queue pair" within 5 rises 0 apart sent_pkts
	check "of the type that is there" sh -c "rdma statistic qp show link $DEV/1 | grep -q 'qp-type RC'"
}

traced() {
	local event=$1 pattern=$2
	within 5 grep -q "$event: $pattern" $T/trace
}
tracepoints() {
	echo > $T/trace
	echo 1 >$T/events/ferroce/enable
	check "packets that come in are traced" traced ferroce_packet_in \
		'dest_qpn=[0-9]* opcode=0x0[0-9a-f] psn=0x[0-9a-f]* bytes=[0-9]'
	check "and those that go out" traced ferroce_packet_out 'dest_qpn=[0-9]* opcode=0x'
	echo 0 >$T/events/ferroce/enable
}

states_and_drops() {
	local step
	echo > $T/trace
	echo 1 >$T/events/ferroce/ferroce_qp_state/enable
	echo 1 >$T/events/ferroce/ferroce_packet_drop/enable
	pingpong rc 4 -n 10
	for step in 'from=RESET to=INIT' 'from=INIT to=RTR' 'from=RTR to=RTS' 'from=RTS to=RESET'; do
		check "a queue pair that goes $step is traced" traced ferroce_qp_state "qpn=[0-9]* $step"
	done
	at_peer python3 -c '
import socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) as out:
    out.sendto(struct.pack(">HHHH8s", 0xC000, 4791, 16, 0, b"nonsense"), (sys.argv[1], 0))' "$ADDR"
	check "dropped packets are traced with their reason" traced ferroce_packet_drop 'reason=rx_'
	echo 0 >$T/events/ferroce/enable
}
shared_receives() {
	sleep 2 | ibv_srq_pingpong -d "$DEV" -g "$GID4" -r 77 >/dev/null 2>&1 &
	server=$!
	check "a shared receive queue tells what waits" within 10 eval '[ "$(of srq waiting)" = 77 ]'
	check "and how much can" [ "$(of srq max_wr)" -ge 77 ]
	check "and below what it calls" [ "$(of srq limit)" = 0 ]
	pkill -x ibv_srq_pingpon
	wait "$server" 2>/dev/null
}

if [ "$DRIVER" = ferroce ]; then
	with_traffic details
	shared_receives
	with_traffic counted_apart
	with_traffic two_apart
	rdma statistic qp set link "$DEV/1" auto type on
	before=$(counter sent_pkts)
	with_traffic by_type
	with_traffic beside ud two_types
	check "a counter whose queue pairs are gone goes" eval '[ -z "$(apart sent_pkts)" ]'
	check "and what it had counted stays with the port" rises "$before" counter sent_pkts
	rdma statistic qp set link "$DEV/1" auto off
else
	skip "details" "for ferroce"
fi
if [ "$DRIVER" != ferroce ]; then
	skip "tracepoints" "for ferroce"
elif [ ! -e "$T/events/ferroce" ]; then
	skip "tracepoints" "this kernel has no tracing"
else
	with_traffic tracepoints
	states_and_drops
fi

# Events of the port reach a process that waits for them.
timeout 60 stdbuf -oL ibv_asyncwatch -d "$DEV" >/tmp/events 2>&1 &
watcher=$!
within 20 test -s /tmp/events
ip link set "$NETDEV" down
within 20 port_is "$DEV" DOWN
ip link set "$NETDEV" up
within 5 port_is "$DEV" ACTIVE
ip addr add 10.0.9.9/24 dev "$NETDEV"
seen() { grep -q "$1" /tmp/events; }
check "a link that goes down is an event" within 20 seen PORT_ERR
check "and one that comes up" within 20 seen PORT_ACTIVE
check "and a new address" within 20 seen GID_CHANGE
kill "$watcher"
wait "$watcher" 2>/dev/null
ip addr del 10.0.9.9/24 dev "$NETDEV"
address "$NETDEV" "$ADDR" "$ADDR6" 2>/dev/null

# What ibv_devinfo shows is what there is.
check "port: active" attribute_is "$DEV" state PORT_ACTIVE
check "port: MTU of 4096" attribute_is "$DEV" active_mtu 4096
check "port: one P_Key" attribute_is "$DEV" pkey_tbl_len 1
check "port: Ethernet" attribute_is "$DEV" link_layer Ethernet
if [ "$DRIVER" = ferroce ]; then
	check "device: multicast groups" attribute_is "$DEV" max_mcast_grp 512
	check "device: queue pairs of a group" attribute_is "$DEV" max_mcast_qp_attach 64
	check "device: all of them" attribute_is "$DEV" max_total_mcast_qp_attach 32768
fi
check "the log has nothing of all that at error level" nothing_at_error_level
check "the module can go, with its tracepoints" unload "$DRIVER"
finish
