# SPDX-License-Identifier: GPL-2.0
#
# A peer that sends garbage to port 4791 while connections are open; see hostile_wire.py and wire.py. drops.py sends one
# crafted packet for each drop reason; crafted.py sends packets that change what a QP does.
#
#	v0 [DEV] ------ v1 [PEER_DEV], garbage     v1 is in namespace b
#
# WIRE_PACKETS is the number of packets, SEED seeds the random choices.
#
# vm: TOPOLOGY=netns KERNEL=umdebug
# long: TOPOLOGY=netns KERNEL=uml VM_TIMEOUT=3000 VM_ENV=WIRE_PACKETS=10000000
# long: TOPOLOGY=netns KERNEL=umdebug VM_TIMEOUT=1500 VM_ENV=WIRE_PACKETS=2000000

. "$VM_LIB"

cd "${VM_LIB%/*}" || exit
modprobe -a rdma_ucm 2>/dev/null
python_tests hostile_wire.py
asked() { [ "$(cat "/sys/class/infiniband/$DEV/ports/1/cm_rx_msgs/req")" -gt 0 ]; }
check "The connection manager receives connection requests" asked

# counted NAME: true if the device's counter is above zero.
counters=/sys/class/infiniband/$DEV/ports/1/hw_counters
counted() { [ "$(cat "$counters/$1")" -gt 0 ]; }

if [ "$DRIVER" = ferroce ]; then
	grep -v '^0$' "$counters"/rx_* | sed 's/.*\///' | note
	for reason in rx_bad_icrc rx_bad_pkey rx_wrong_service rx_ahead_of_sequence rx_stale_response rx_unknown_qp \
		rx_unknown_opcode rx_too_short rx_wrong_source rx_bad_pad rx_bad_version rx_bad_qkey; do
		check "The device counts drops as $reason" within 2 counted "$reason"
	done
	python_tests drops.py
	python_tests crafted.py
else
	skip "The device counts drops by reason" "rdma_rxe does not count them"
fi
check "The log is not flooded" log_is_not_flooded
pingpong rc 4 -n 100
pingpong rc 6 -n 100
REVERSE=1
pingpong rc 4 -n 100
managed "rping over the connection manager" "rping -s -a $ADDR -C 10 -V" "rping -c -a $ADDR -C 10 -V"
check "The device is removed" timeout 60 rdma link del "$DEV"
check "The device is added again" add_device "$DEV" "$DRIVER" "$NETDEV"

finish
