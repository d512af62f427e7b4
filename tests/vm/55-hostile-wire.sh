# SPDX-License-Identifier: GPL-2.0
#
# A peer that sends garbage to port 4791, while connections are open; see wire.py. They may break, since
# whoever has the peer's address may speak for it; the driver may not.
#
#	v0 [DEV] ------ v1 [PEER_DEV], garbage     v1 is in namespace b
#
# WIRE_PACKETS is the number of packets, SEED steers the chance.
#
# vm: TOPOLOGY=netns

. "$VM_LIB"
. "${VM_LIB%/*}/wait.sh"

packets=${WIRE_PACKETS:-20000}

numbers() { rdma resource show qp link "$DEV" | sed -n 's/.* lqpn \([0-9]*\) .*type RC .*/\1/p'; }

timeout 120 ibv_rc_pingpong -d "$DEV" -g "$GID4" -n 100000000 >/tmp/server 2>&1 &
server=$!
await_listener 18515
at_peer timeout 120 ibv_rc_pingpong -d "$PEER_DEV" -g "$PEER_GID4" -n 100000000 "$ADDR" >/tmp/client 2>&1 &
client=$!
within 10 has_qp "$DEV" RTS
mark "garbage"
# shellcheck disable=SC2046
check "$packets packets of garbage are sent" \
	at_peer timeout 100 python3 "${VM_LIB%/*}/wire.py" "$ADDR" "$PEER_ADDR" "$packets" $(numbers)
# counted NAME: the device has counted such a thing.
counted() { [ "$(cat "/sys/class/infiniband/$DEV/ports/1/hw_counters/$1")" -gt 0 ]; }

if [ "$DRIVER" = ferroce ]; then
	for reason in rx_bad_icrc rx_bad_pkey rx_wrong_service rx_ahead_of_sequence rx_stale_response \
		rx_unknown_qp rx_unknown_opcode rx_too_short; do
		check "packets were dropped as $reason" within 2 counted "$reason"
	done
else
	skip "packets were dropped for many reasons" "rdma_rxe does not count them"
fi
kill -9 "$server" "$client"
wait "$server" "$client" 2>/dev/null
pingpong rc 4 -n 100
pingpong rc 6 -n 100
REVERSE=1
pingpong rc 4 -n 100

finish
