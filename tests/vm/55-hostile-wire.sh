# SPDX-License-Identifier: GPL-2.0
#
# A peer that sends garbage to port 4791, while connections are open; see hostile_wire.py and wire.py. And for each
# reason to drop a packet, one that is made for it; see drops.py.
#
#	v0 [DEV] ------ v1 [PEER_DEV], garbage     v1 is in namespace b
#
# WIRE_PACKETS is the number of packets, SEED steers the chance.
#
# vm: TOPOLOGY=netns KERNEL=umdebug
# long: TOPOLOGY=netns KERNEL=uml VM_TIMEOUT=3000 VM_ENV=WIRE_PACKETS=10000000
# long: TOPOLOGY=netns KERNEL=umdebug VM_TIMEOUT=1500 VM_ENV=WIRE_PACKETS=2000000

. "$VM_LIB"

cd "${VM_LIB%/*}" || exit
modprobe -a rdma_ucm 2>/dev/null
python_tests hostile_wire.py
asked() { [ "$(cat "/sys/class/infiniband/$DEV/ports/1/cm_rx_msgs/req")" -gt 0 ]; }
check "the connection manager was asked for connections" asked

# counted NAME: the device has counted such a thing.
counters=/sys/class/infiniband/$DEV/ports/1/hw_counters
counted() { [ "$(cat "$counters/$1")" -gt 0 ]; }

if [ "$DRIVER" = ferroce ]; then
	grep -v '^0$' "$counters"/rx_* | sed 's/.*\///' | note
	for reason in rx_bad_icrc rx_bad_pkey rx_wrong_service rx_ahead_of_sequence rx_stale_response rx_unknown_qp \
		rx_unknown_opcode rx_too_short rx_wrong_source rx_bad_pad rx_bad_version rx_bad_qkey; do
		check "packets were dropped as $reason" within 2 counted "$reason"
	done
	python_tests drops.py
else
	skip "packets were dropped for many reasons" "rdma_rxe does not count them"
fi
check "the log is not flooded with all that" log_is_not_flooded
pingpong rc 4 -n 100
pingpong rc 6 -n 100
REVERSE=1
pingpong rc 4 -n 100
managed "rping over the connection manager" "rping -s -a $ADDR -C 10 -V" "rping -c -a $ADDR -C 10 -V"
check "the device goes" timeout 60 rdma link del "$DEV"
check "and comes back" add_device "$DEV" "$DRIVER" "$NETDEV"

finish
