# SPDX-License-Identifier: GPL-2.0
#
# A wire that drops, duplicates, delays, reorders and corrupts packets in both directions. Every byte must arrive, and
# no retry may last forever.
#
#	v0 [DEV] --netem-- v1 [PEER_DEV]     v1 is in namespace b
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

# wire WORD...: replaces the netem configuration in both directions. A change would keep the settings that are not
# named.
wire() {
	tc qdisc del dev v0 root 2>/dev/null
	at_peer tc qdisc del dev v1 root 2>/dev/null
	tc qdisc add dev v0 root netem limit 5000 "$@" || return
	at_peer tc qdisc add dev v1 root netem limit 5000 "$@"
}

# patient OPTION...: a ping-pong. Each end exits when it has received everything. If the wire drops the last ACK of the
# end that exits first, no process can repeat it, and the last send of the other end fails, as it must. That alone is
# not a failure: try again.
patient() {
	local number=$KTAP_NUMBER failed=$KTAP_FAILED try
	for try in {1..6}; do
		KTAP_NUMBER=$number KTAP_FAILED=$failed
		pingpong "$@" >/tmp/attempt && break
		left_alone server client || left_alone client server || break
		note "attempt $try: the last ACK was lost"
	done
	cat /tmp/attempt
}

# left_alone LEFT OTHER: the end LEFT received everything, and OTHER's last send was not acknowledged.
left_alone() {
	grep -q 'iters in' "/tmp/$1" && grep -q 'retry counter exceeded (12) for wr_id 2' "/tmp/$2"
}

# dropped_by_netem: number of packets it dropped.
dropped_by_netem() {
	{ tc -s qdisc show dev v0; at_peer tc -s qdisc show dev v1; } | sum_of_drops
}

# counted NAME: a counter of DEV.
counted() { counter "$DEV" "$1"; }

# crowded RATE: in both directions, a queue that marks congestion behind a rate limit in Mbit/s. The limiter passes the
# longest burst whole: tbf reports no congestion for a burst that it splits.
crowded() {
	crowded_at v0 "$1" && crowded_at v1 "$1" at_peer
}

crowded_at() { # DEVICE RATE COMMAND...
	local dev=$1 rate=$2
	shift 2
	"$@" tc qdisc replace dev "$dev" root handle 1: tbf rate "${rate}mbit" burst 80000 limit 200000 &&
		"$@" tc qdisc replace dev "$dev" parent 1: fq_codel limit 2
}

if ! wire loss 0%; then
	skip "A bad wire" "this kernel has no sch_netem"
	finish
fi

# Resolve the neighbours while the wire is good: the RDMA core waits only one second for an address, and a connection
# request without one fails.
for address in "$PEER_ADDR" "$PEER_ADDR6"; do within 20 ping -c 1 -W 2 "$address"; done
check "The neighbour entries stay" keep_neighbours

transfers() {
	patient rc 4 -n 200 -s 10000 -m 1024
	patient rc 6 -n 100 -s 10000 -m 4096
	perftest ib_write_bw -s 16384 -n 200 -m 1024
	perftest ib_send_bw -s 16384 -n 200 -m 1024
	perftest ib_read_bw -s 16384 -n 200 -m 1024 -o 4
}

check "netem drops packets" wire loss 1%
mark "loss"
transfers
check "Packets were dropped" [ "$(dropped_by_netem)" -gt 0 ]
before=$(counted duplicate_request)
check "netem duplicates packets" wire duplicate 5%
mark "duplicates"
transfers
check "The device counts duplicate requests" [ "$(counted duplicate_request)" -gt "$before" ]
if [ "$DRIVER" = ferroce ] && [ "$PEER_DRIVER" = ferroce ]; then
	before=$(counted out_of_seq_request)
	check "netem reorders packets" wire delay 2ms 1ms reorder 10%
	mark "reordering"
	transfers
	check "The device counts requests out of order" [ "$(counted out_of_seq_request)" -gt "$before" ]
	check "netem does all of these" wire loss 1% duplicate 2% delay 1ms 1ms reorder 5% corrupt 0.5%
	mark "everything"
	transfers
	# A queue so short that most bursts fill it: it refuses packets, or drops them with NET_XMIT_CN.
	check "netem has a short queue" wire limit 3 delay 5ms
	mark "a full queue"
	before=$(counted send_err)
	transfers
	# A slow CPU may never have sent a fourth packet in time: send more.
	for _ in {1..10}; do
		[ "$(dropped_by_netem)" = 0 ] || [ "$(counted send_err)" = "$before" ] || break
		perftest ib_read_bw -s 16384 -n 200 -m 1024 -o 16
	done
	check "The queue dropped packets" [ "$(dropped_by_netem)" -gt 0 ]
	check "The device counts them as send errors" [ "$(counted send_err)" -gt "$before" ]
	if crowded 40; then
		mark "a queue that warns"
		before=$(counted tx_congested)
		transfers
		# The queue behind the limiter may not have filled either: lower the rate.
		for rate in 20 10 5 3 2; do
			[ "$(dropped_by_netem)" = 0 ] || [ "$(counted tx_congested)" = "$before" ] || break
			check "The rate limit is $rate Mbit/s" crowded "$rate"
			perftest ib_read_bw -s 16384 -n 200 -m 1024 -o 16
		done
		check "The queue dropped packets with NET_XMIT_CN" [ "$(dropped_by_netem)" -gt 0 ]
		check "The device counts them in tx_congested" [ "$(counted tx_congested)" -gt "$before" ]
	else
		skip "A queue that marks congestion" "this kernel has no tbf or no fq_codel"
	fi
else
	skip "Reordering, and full queues" "rdma_rxe makes no progress"
fi
before=$(counted rx_bad_icrc)
check "netem corrupts packets" wire corrupt 1%
mark "corruption"
transfers
if [ "$DRIVER" = ferroce ]; then
	check "The device notices corrupted packets" [ "$(counted rx_bad_icrc)" -gt "$before" ]
else
	skip "The device notices corrupted packets" "rdma_rxe does not count them"
fi
# A long wire: the round trip takes about as long as a timeout.
check "netem delays packets by 20 ms" wire delay 20ms
mark "delay"
patient rc 4 -n 20 -s 10000

finish
