# SPDX-License-Identifier: GPL-2.0
#
# A wire that loses, repeats, delays, reorders and damages packets, in both directions. Every byte arrives all
# the same, and nothing is retried for ever.
#
#	v0 [DEV] --netem-- v1 [PEER_DEV]     v1 is in namespace b
#
# vm: TOPOLOGY=netns

. "$VM_LIB"

# wire WORD...: what netem does to packets, both ways, and nothing else: a change would keep what is not named.
wire() {
	tc qdisc del dev v0 root 2>/dev/null
	at_peer tc qdisc del dev v1 root 2>/dev/null
	tc qdisc add dev v0 root netem limit 5000 "$@" || return
	at_peer tc qdisc add dev v1 root netem limit 5000 "$@"
}

# patient OPTION...: a ping-pong. Each end leaves when it has received everything. If the wire loses the
# last acknowledgement of the one that left first, nobody is left to repeat it, and the other's last send
# fails, as it must. That alone is no failure: the same is tried again.
patient() {
	local number=$KTAP_NUMBER failed=$KTAP_FAILED try
	for try in {1..6}; do
		KTAP_NUMBER=$number KTAP_FAILED=$failed
		pingpong "$@" >/tmp/attempt && break
		left_alone server client || left_alone client server || break
		note "attempt $try: the last acknowledgement was lost"
	done
	cat /tmp/attempt
}

# left_alone LEFT OTHER: the end LEFT has received everything, and OTHER's last send was not acknowledged.
left_alone() {
	grep -q 'iters in' "/tmp/$1" && grep -q 'retry counter exceeded (12) for wr_id 2' "/tmp/$2"
}

# dropped: how many packets netem took away.
dropped() {
	{ tc -s qdisc show dev v0; at_peer tc -s qdisc show dev v1; } |
		sed -n 's/.*dropped \([0-9]*\),.*/\1/p' | awk '{ sum += $1 } END { print sum }'
}

# counted NAME: a counter of DEV.
counted() { cat "/sys/class/infiniband/$DEV/ports/1/hw_counters/$1"; }

# crowded RATE: a queue that warns, behind a gate of so many Mbit/s, both ways. The gate lets the longest burst pass
# whole: one that it has to split is never warned of.
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
	skip "a bad wire" "this kernel has no sch_netem"
	finish
fi

# The neighbours know each other before the wire is bad: the RDMA core asks for an address for a second only, and a
# connection whose question was lost is none.
for address in "$PEER_ADDR" "$PEER_ADDR6"; do within 20 ping -c 1 -W 2 "$address"; done
check "the neighbours stay known" keep_neighbours

transfers() {
	patient rc 4 -n 200 -s 10000 -m 1024
	patient rc 6 -n 100 -s 10000 -m 4096
	perftest ib_write_bw -s 16384 -n 200 -m 1024
	perftest ib_send_bw -s 16384 -n 200 -m 1024
	perftest ib_read_bw -s 16384 -n 200 -m 1024 -o 4
}

check "the wire loses" wire loss 1%
mark "loss"
transfers
check "packets were lost" [ "$(dropped)" -gt 0 ]
before=$(counted duplicate_request)
check "the wire repeats" wire duplicate 5%
mark "duplicates"
transfers
check "requests came twice" [ "$(counted duplicate_request)" -gt "$before" ]
if [ "$DRIVER" = ferroce ] && [ "$PEER_DRIVER" = ferroce ]; then
	before=$(counted out_of_seq_request)
	check "the wire reorders" wire delay 2ms 1ms reorder 10%
	mark "reordering"
	transfers
	check "requests overtook each other" [ "$(counted out_of_seq_request)" -gt "$before" ]
	check "the wire does everything" wire loss 1% duplicate 2% delay 1ms 1ms reorder 5% corrupt 0.5%
	mark "everything"
	transfers
	# A queue so short that most bursts find it full: what is sent is refused, or lost with a warning (NET_XMIT_CN).
	check "the wire takes little" wire limit 3 delay 5ms
	mark "a full queue"
	before=$(counted send_err)
	transfers
	# A slow processor may never have had a fourth packet in time: more of them.
	for _ in {1..10}; do
		[ "$(dropped)" = 0 ] || [ "$(counted send_err)" = "$before" ] || break
		perftest ib_read_bw -s 16384 -n 200 -m 1024 -o 16
	done
	check "packets were refused" [ "$(dropped)" -gt 0 ]
	check "and counted as errors of sending" [ "$(counted send_err)" -gt "$before" ]
	if crowded 40; then
		mark "a queue that warns"
		before=$(counted tx_congested)
		transfers
		# Nor may it have filled the gate: a narrower one.
		for rate in 20 10 5 3 2; do
			[ "$(dropped)" = 0 ] || [ "$(counted tx_congested)" = "$before" ] || break
			check "a gate of $rate Mbit/s" crowded "$rate"
			perftest ib_read_bw -s 16384 -n 200 -m 1024 -o 16
		done
		check "packets were dropped" [ "$(dropped)" -gt 0 ]
		check "with a warning, which is counted" [ "$(counted tx_congested)" -gt "$before" ]
	else
		skip "a queue that warns" "this kernel has no tbf or no fq_codel"
	fi
else
	skip "reordering, and full queues" "rdma_rxe makes no progress"
fi
before=$(counted rx_bad_icrc)
check "the wire damages" wire corrupt 1%
mark "corruption"
transfers
if [ "$DRIVER" = ferroce ]; then
	check "damaged packets were noticed" [ "$(counted rx_bad_icrc)" -gt "$before" ]
else
	skip "damaged packets were noticed" "rdma_rxe does not count them"
fi
# A long wire: a round trip takes about as long as a time-out.
check "the wire is long" wire delay 20ms
mark "delay"
patient rc 4 -n 20 -s 10000

finish
