# SPDX-License-Identifier: GPL-2.0
#
# Impairments that the driver has built in: DEV loses, repeats, reorders, marks and damages packets that it sends, and
# refuses requests, as the file `impair` in debugfs says.
#
#	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

if [ "$DRIVER" != ferroce ]; then
	skip "Impairments" "$DRIVER has none"
	finish
fi
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
IMPAIR=/sys/kernel/debug/ferroce/$DEV/impair

# impair TEXT: replaces the settings.
impair() { echo "$1" >"$IMPAIR"; }

# Every byte is checked by the ping-pong.
transfers() {
	pingpong rc 4 -n 200 -s 10000 -m 1024 && REVERSE=1 perftest ib_write_bw -s 16384 -n 200 -m 1024 &&
		perftest ib_read_bw -s 16384 -n 200 -m 1024 -o 4
}

# counted COMMAND [NAME WHAT DEVICE COUNTER]...: the command succeeds, and each counter changes meanwhile as it should:
# -gt 0 or -eq 0.
counted() {
	local command=$1 names=() whats=() places=() before=() at
	shift
	for (( ; $#; )); do
		names+=("$1") whats+=("$2") places+=("$3 $4") before+=("$(counter "$3" "$4")")
		shift 4
	done
	# Its own results do not count.
	if ! ("$command") >/tmp/counted 2>&1; then
		note </tmp/counted
		for at in "${!names[@]}"; do not_ok "${names[at]}"; done
		return
	fi
	for at in "${!names[@]}"; do
		check "${names[at]}" [ $(($(counter ${places[at]}) - before[at])) ${whats[at]} ]
	done
}

# impaired NAME TEXT DEVICE COUNTER [NAME DEVICE COUNTER]: transfers succeed with these impairments, and the counters of
# the devices move.
impaired() {
	local more=()
	[ $# -le 4 ] || more=("$5" "-gt 0" "$6" "$7")
	check "$1: set" impair "$2"
	mark "$1"
	counted transfers "$1: transfers succeed, and it is counted" "-gt 0" "$3" "$4" "${more[@]}"
	impair off
}

check "Nothing is impaired at first" grep -qx \
	"loss 0 duplicate 0 reorder 0 mark 0 corrupt 0 rnr 0 nak 0 seed 0 qpn 0" "$IMPAIR"
check "Settings are accepted" impair "seed 7 loss 1000"
check "They can be read" grep -qx \
	"loss 1000 duplicate 0 reorder 0 mark 0 corrupt 0 rnr 0 nak 0 seed 7 qpn 0" "$IMPAIR"
for wrong in "loss" "loss ten" "gain 1" "loss 1000001" "loss 600000 mark 600000" "loss -1"; do
	check_fails "'$wrong' is refused" impair "$wrong"
done
check_fails "A text that is too long is refused" impair "$(printf '%300s' loss)"
check "A refused text changes nothing" grep -q "^loss 1000 .* seed 7 " "$IMPAIR"
check "They are switched off" impair off
grows "Nothing is impaired then" "-eq 0" "$DEV" impaired_pkts transfers

impaired "Loss of 1 %" "seed 1 loss 10000" "$DEV" impaired_pkts \
	"Lost packets are sent again" "$PEER_DEV" out_of_seq_request
impaired "Duplicates" "seed 3 duplicate 50000" "$PEER_DEV" duplicate_request
impaired "Reordering" "seed 4 reorder 50000" "$PEER_DEV" out_of_seq_request
impaired "Marks" "seed 5 mark 50000" "$PEER_DEV" np_ecn_marked_roce_packets \
	"Marks slow the sender down" "$DEV" rp_cnp_handled
impair "seed 5 mark 50000"
unreliable() { REVERSE=1 perftest ib_write_bw -c UC -s 16384 -n 200 -m 1024; }
grows "Marks slow UC down" "-gt 0" "$DEV" rp_cnp_handled unreliable
impair off
impaired "Damage" "seed 6 corrupt 10000" "$PEER_DEV" rx_bad_icrc
impaired "RNR NAKs" "seed 7 rnr 50000" "$DEV" send_rnr_err
impaired "All of them" "seed 8 loss 5000 duplicate 5000 reorder 5000 mark 5000 corrupt 5000 rnr 5000" "$DEV" \
	impaired_pkts

# The server is DEV: it refuses each WRITE.
impair "seed 9 nak 1000000"
ib_write_bw -d "$DEV" -x "$GID4" -F -s 4096 -n 10 >/tmp/server 2>&1 &
server=$!
await_listener 18515
check_fails "A request that is refused fails" at_peer timeout 60 ib_write_bw -d "$PEER_DEV" -x "$PEER_GID4" -F -s 4096 \
	-n 10 "$ADDR"
kill "$server" 2>/dev/null
wait "$server"
impair off

# All packets of a QP that does not exist are lost; those of others are not.
impair "loss 1000000 qpn 1048576"
grows "Only the QP that is named is impaired" "-eq 0" "$DEV" impaired_pkts transfers

# Without a network between them, two QPs of one device use it while there are impairments.
impair "seed 10 duplicate 1000000"
own() {
	ib_write_bw -d "$DEV" -x "$GID4" -F -s 4096 -n 100 -p 18600 >/tmp/server 2>&1 &
	await_listener 18600
	timeout 60 ib_write_bw -d "$DEV" -x "$GID4" -F -s 4096 -n 100 -p 18600 "$ADDR" && wait $!
}
grows "QPs of one device are impaired, too" "-gt 0" "$DEV" impaired_pkts own
impair off
transfers

# Packets that come early wait for the others. Each end of a transfer is DEV, which delays some. Both times, that wait
# and the ACK timeout (-u 18: 1 s), are long enough for a processor that others use.
check "The module is unloaded" rmmod ferroce
check "It is loaded with a reorder buffer" insmod "$KO" reorder_us=200000
set_up_device
set_up_peer
patient_transfers() {
	REVERSE=1 perftest ib_write_bw -s 16384 -n 200 -m 1024 -u 18 &&
		perftest ib_read_bw -s 16384 -n 200 -m 1024 -o 4 -u 18
}
impair "seed 11 reorder 50000"
counted patient_transfers \
	"Reordering is no loss: out_of_seq_request of the receiver" "-eq 0" "$PEER_DEV" out_of_seq_request \
	"Reordering is no loss: completer_retry_err of the receiver" "-eq 0" "$PEER_DEV" completer_retry_err \
	"Nothing is sent again" "-eq 0" "$DEV" completer_retry_err \
	"Early packets wait" "-gt 0" "$PEER_DEV" reordered_pkts
impair "seed 12 reorder 50000 loss 5000"
grows "Losses are still found" "-gt 0" "$DEV" rcvd_seq_err patient_transfers
impair off
check "The device goes away while there are impairments" eval "impair 'loss 1000'; rdma link delete $DEV"
check "Its file goes with it" [ ! -e "$IMPAIR" ]
finish
