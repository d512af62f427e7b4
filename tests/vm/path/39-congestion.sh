# SPDX-License-Identifier: GPL-2.0
#
# Explicit congestion notification: packets are marked by a queue or by a peer, marks cause CNPs, CNPs slow queue pairs
# down and stop none.
#
#	v0 [DEV] ------ v1 [PEER_DEV]                     v1 is in namespace b, and forges packets
# and the devices beside the switch of switch.sh.
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"
. "${VM_LIB%/*}/switch.sh"

if [ "$DRIVER" != ferroce ]; then
	skip "Congestion control" "$DRIVER has none"
	finish
fi

# congested NAME COMMAND...: traffic from frc to frd meets congestion. The receiver notices, and the sender slows down.
congested() {
	local name=$1 marked sent handled lost
	shift
	marked=$(counter frd np_ecn_marked_roce_packets)
	sent=$(counter frd np_cnp_sent)
	handled=$(counter frc rp_cnp_handled)
	lost=$(dropped)
	"$@"
	marked=$(($(counter frd np_ecn_marked_roce_packets) - marked))
	sent=$(($(counter frd np_cnp_sent) - sent))
	handled=$(($(counter frc rp_cnp_handled) - handled))
	lost=$(($(dropped) - lost))
	note "$name: $marked packets marked, $sent CNPs sent, $handled handled, $lost packets dropped" \
		"$(grep -A1 'BW average' /tmp/client | tail -n 1)"
	check "$name: the receiver counts marks" [ "$marked" -gt 0 ]
	check "$name: it sends no more CNPs than that" [ "$sent" -gt 0 -a "$sent" -le "$marked" ]
	check "$name: the sender handles them" [ "$handled" -gt 0 -a "$handled" -le "$sent" ]
}

# The client sends. REVERSE=1 makes our end the client.
sends() { REVERSE=1 perftest "$@"; }

crowd() {
	local DEV=frc PEER_DEV=frd ADDR=10.9.0.1 PEER_ADDR=10.9.0.2 GID4 PEER_GID4
	GID4=$(gid_index frc 10.9.0.1) PEER_GID4=$(gid_index frd 10.9.0.2)
	within 20 port_is frc ACTIVE
	within 20 ping -c 1 -W 2 10.9.0.2
	congested "WRITE" sends ib_write_bw -s 65536 -n 400
	congested "SEND" sends ib_send_bw -s 65536 -n 400
	# The responder slows down.
	congested "READ" perftest ib_read_bw -s 65536 -n 400
	# At 200 Mbit/s and on a busy machine, an ACK may take longer than the default timeout of 67 ms. 18 is 1 s.
	congested "Eight queue pairs" sends ib_write_bw -s 65536 -n 100 -q 8 -u 18
}

if switch_set_up && queue 200 fq_codel limit 2000 ecn ce_threshold 200us; then
	crowd
else
	skip "A queue that marks packets" "this kernel has no bridge, no tbf or no fq_codel"
fi
pingpong rc 4 -n 100
pingpong rc 6 -n 100
cd "${VM_LIB%/*}" || exit
python_tests congestion.py

# Without DCQCN nothing is marked, and CNPs are dropped.
check "The module is unloaded" rmmod ferroce
check "It is loaded without DCQCN" insmod "$KO" dcqcn=0
set_up_device
set_up_peer
export GID4 GID6 PEER_GID4 PEER_GID6
python_tests congestion.py not_capable not_handled
finish
