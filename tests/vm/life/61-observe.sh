# SPDX-License-Identifier: GPL-2.0
#
# Everything observable from outside: counters, details of QPs, tracepoints, events, attributes. None of it may flood
# the log.
#
#	v0 [DEV] ------ v1 [PEER_DEV]         v1 is in namespace b
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"
T=/sys/kernel/tracing

# numbers_in WORD PATTERN NAME COMMAND...: of what a command lists, where each part begins with the word, prints the
# number after the name in the parts that match the pattern. Without a pipe, each part of which would be a process.
numbers_in() {
	local text part parts
	text=$("${@:4}")
	text=${text//$'\n'/ }
	mapfile -t parts <<<"${text//"$1 "/$'\n'}"
	for part in "${parts[@]}"; do
		if [[ $part =~ $2 && $part =~ .*"$3 "([0-9]+) ]]; then echo "${BASH_REMATCH[1]}"; fi
	done
}
# detail NAME: a detail of the only RC QP, as the driver reports it.
detail() { numbers_in link 'type RC' "drv_$1" rdma -dd resource show qp link "$DEV"; }
# of cq|mr|srq NAME: a detail of the only one that a process owns.
of() { numbers_in dev 'comm [^[]' "drv_$2" rdma -dd resource show "$1" dev "$DEV"; }
# with_traffic COMMAND...: runs the command while an endless ping-pong runs.
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
all_there() { local name; for name in $rxe_names; do counter "$DEV" "$name" >/dev/null || return 1; done; }
check "The counters have rxe's names" all_there
check "rdma statistic shows the counters" sh -c "rdma statistic show link $DEV/1 | grep -q 'sent_pkts [0-9]'"

# The core caches counters for 10 ms.
echo 0 >"/sys/class/infiniband/$DEV/ports/1/hw_counters/lifespan"
for kind in rc uc ud; do
	before="$(counter "$DEV" rdma_sends) $(counter "$DEV" rdma_recvs)"
	size=
	[ "$kind" != ud ] || size="-s 1024"
	pingpong "$kind" 4 -n 20 $size
	sleep 0.1
	set -- $before "$(counter "$DEV" rdma_sends)" "$(counter "$DEV" rdma_recvs)"
	check "$kind: sent messages are counted" [ $(($3 - $1)) = 20 ]
	check "$kind: received messages are counted" [ $(($4 - $2)) = 20 ]
done

details() {
	check "A QP shows its path MTU" [ "$(detail path_mtu)" = 2048 ]
	check "A QP shows its congestion window" [ "$(detail cwnd)" -ge 1 ]
	check "A QP that no CNP has slowed down has no rate" [ -z "$(detail rate_mbit_s)" ]
	check "A QP shows the size of its queues" [ "$(detail max_send_wr)" -ge 1 ]
	local before=$(detail sent_pkts) received=$(detail rcvd_pkts)
	sleep 1
	check "A QP counts the packets it sends" [ "$(detail sent_pkts)" -gt "$before" ]
	check "A QP counts the packets it receives" [ "$(detail rcvd_pkts)" -gt "$received" ]
	check "A CQ shows its capacity" [ "$(of cq room)" -ge 501 ]
	check "A CQ shows how many completions wait" [ "$(of cq waiting)" -le "$(of cq room)" ]
	check "A CQ shows whether it overflowed" [ "$(of cq overflowed)" = 0 ]
	check "An MR shows its access rights" [ "$(of mr access)" = 1 ]
	check "An MR shows its type" [ "$(of mr on_demand) $(of mr fast) $(of mr windows)" = "0 0 0" ]
}

# apart NAME: the value of a counter of the only QP counter.
apart() { of_counter . "$1"; }
# rises VALUE COMMAND...: the command prints more than the value.
rises() { [ "$("${@:2}")" -gt "$1" ]; }
counted_apart() {
	local qpn sum before
	qpn=$(rdma resource show qp link "$DEV/1" | sed -n 's/.*lqpn \([0-9]*\).* state RTS.* pid .*/\1/p')
	sum=$(counter "$DEV" sent_pkts)
	check "A QP can be bound to its own counter" rdma statistic qp bind link "$DEV/1" lqpn "$qpn"
	check "Its counter counts the packets it sends" within 5 rises 0 apart sent_pkts
	before=$(apart rcvd_bytes)
	check "Its counter counts the bytes it receives" within 5 rises "$before" apart rcvd_bytes
	check "The port counts its packets as well" rises "$sum" counter "$DEV" sent_pkts
	sum=$(counter "$DEV" sent_pkts)
	check "The port does not count them twice" [ "$(apart sent_pkts)" -lt "$sum" ]
	check "The QP can be unbound from its counter" rdma statistic qp unbind link "$DEV/1" \
		cntn "$(rdma statistic qp show link "$DEV/1" | sed -n 's/.*cntn \([0-9]*\).*/\1/p')" lqpn "$qpn"
	check "The port keeps the counts of the unbound counter" [ "$(counter "$DEV" sent_pkts)" -ge "$sum" ]
}

# of_counter PATTERN NAME: a value of each QP counter that matches. numbers: their numbers.
of_counter() { numbers_in link "$1" " $2" rdma statistic qp show link "$DEV/1"; }
numbers() { of_counter . cntn | sort -u; }
# qpns: the QPs of the ping-pongs.
qpns() { rdma resource show qp link "$DEV/1" | sed -n 's/.*lqpn \([0-9]*\) .*state RTS.* pid .*/\1/p'; }
# beside KIND COMMAND...: runs the command while a second endless ping-pong runs.
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
		check "QP $qpn can be bound to its own counter" rdma statistic qp bind link "$DEV/1" lqpn "$qpn"
	done
	check "Two bound QPs have two counters" eval '[ "$(numbers | wc -l)" = 2 ]'
	check "Neither counter has number 0" eval '! numbers | grep -x 0'
	for qpn in "$first" "$second"; do
		check "QP $qpn has one counter" eval '[ "$(of_counter "LQPN: <'"$qpn"'>" cntn | wc -l)" = 1 ]'
		number=$(of_counter "LQPN: <$qpn>" sent_pkts)
		check "The counter of QP $qpn counts" within 5 rises "$number" of_counter "LQPN: <$qpn>" sent_pkts
	done
}
two_apart() {
	local alone first second sum
	alone=$(qpns)
	beside rc bind_both
	# From now on the port includes the counts of the first QP.
	check "The counter of a destroyed QP is freed" within 20 eval '[ "$(numbers | wc -l)" = 1 ]'
	sum=$(counter "$DEV" sent_pkts)
	check "The port counts the packets of the other QP" within 5 rises "$sum" counter "$DEV" sent_pkts
	check "The other QP can be unbound" rdma statistic qp unbind link "$DEV/1" cntn "$(numbers)" lqpn "$second"
}
two_types() {
	local type
	check "Two QP types have two counters" within 5 eval '[ "$(numbers | wc -l)" = 2 ]'
	for type in RC UD; do
		check "The counter of type $type counts" within 5 rises 0 of_counter "qp-type $type" sent_pkts
	done
}
by_type() {
	check "Automatic binding creates a counter for a QP type" within 5 rises 0 apart sent_pkts
	check "The counter shows its QP type" sh -c "rdma statistic qp show link $DEV/1 | grep -q 'qp-type RC'"
}

traced() {
	local event=$1 pattern=$2
	within 5 grep -q "$event: $pattern" $T/trace
}
tracepoints() {
	echo > $T/trace
	echo 1 >$T/events/ferroce/enable
	check "Received packets are traced" traced ferroce_packet_in \
		'dest_qpn=[0-9]* opcode=0x0[0-9a-f] psn=0x[0-9a-f]* bytes=[0-9]'
	check "Sent packets are traced" traced ferroce_packet_out 'dest_qpn=[0-9]* opcode=0x'
	echo 0 >$T/events/ferroce/enable
}

states_and_drops() {
	local step
	echo > $T/trace
	echo 1 >$T/events/ferroce/ferroce_qp_state/enable
	echo 1 >$T/events/ferroce/ferroce_packet_drop/enable
	pingpong rc 4 -n 10
	for step in 'from=RESET to=INIT' 'from=INIT to=RTR' 'from=RTR to=RTS' 'from=RTS to=RESET'; do
		check "A QP transition $step is traced" traced ferroce_qp_state "qpn=[0-9]* $step"
	done
	at_peer python3 -c '
import socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) as out:
    out.sendto(struct.pack(">HHHH8s", 0xC000, 4791, 16, 0, b"nonsense"), (sys.argv[1], 0))' "$ADDR"
	check "Dropped packets are traced with their reason" traced ferroce_packet_drop 'reason=rx_'
	echo 0 >$T/events/ferroce/enable
}
shared_receives() {
	sleep 2 | ibv_srq_pingpong -d "$DEV" -g "$GID4" -r 77 >/dev/null 2>&1 &
	server=$!
	check "An SRQ shows how many receives wait" within 10 eval '[ "$(of srq waiting)" = 77 ]'
	check "An SRQ shows its capacity" [ "$(of srq max_wr)" -ge 77 ]
	check "An SRQ shows its limit" [ "$(of srq limit)" = 0 ]
	pkill -x ibv_srq_pingpon
	wait "$server" 2>/dev/null
}

if [ "$DRIVER" = ferroce ]; then
	with_traffic details
	shared_receives
	with_traffic counted_apart
	with_traffic two_apart
	rdma statistic qp set link "$DEV/1" auto type on
	before=$(counter "$DEV" sent_pkts)
	with_traffic by_type
	with_traffic beside ud two_types
	check "A counter without QPs is freed" eval '[ -z "$(apart sent_pkts)" ]'
	check "The port keeps the counts of the freed counter" rises "$before" counter "$DEV" sent_pkts
	rdma statistic qp set link "$DEV/1" auto off
else
	skip "Details" "for ferroce"
fi
if [ "$DRIVER" != ferroce ]; then
	skip "Tracepoints" "for ferroce"
elif [ ! -e "$T/events/ferroce" ]; then
	skip "Tracepoints" "this kernel has no tracing"
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
check "A link that goes down is an event" within 20 seen PORT_ERR
check "A link that comes up is an event" within 20 seen PORT_ACTIVE
check "A new address is an event" within 20 seen GID_CHANGE
kill "$watcher"
wait "$watcher" 2>/dev/null
ip addr del 10.0.9.9/24 dev "$NETDEV"
address "$NETDEV" "$ADDR" "$ADDR6" 2>/dev/null

# The attributes that ibv_devinfo shows.
check "The port is active" attribute_is "$DEV" state PORT_ACTIVE
check "The port has an MTU of 4096" attribute_is "$DEV" active_mtu 4096
check "The port has one P_Key" attribute_is "$DEV" pkey_tbl_len 1
check "The port has link layer Ethernet" attribute_is "$DEV" link_layer Ethernet
if [ "$DRIVER" = ferroce ]; then
	check "The device shows the number of multicast groups" attribute_is "$DEV" max_mcast_grp 512
	check "The device shows the number of QPs of a group" attribute_is "$DEV" max_mcast_qp_attach 64
	check "The device shows the number of all QPs in groups" attribute_is "$DEV" max_total_mcast_qp_attach 32768
fi
check "The log contains no errors" nothing_at_error_level
check "The driver unloads with its tracepoints" unload "$DRIVER"
finish
