# SPDX-License-Identifier: GPL-2.0
#
# Allocations of packet buffers fail at random under traffic. The effect is packet loss. The test needs fault injection,
# so a debug kernel.
#
#	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b; every byte is verified (bystander.py)
#
# lost_copies.py does the same for the copies of a datagram to the members of a group.
#
# LOST_PERCENT is the percentage of buffer allocations that fail, LOST_SECONDS the duration. The kernel selects them
# with its own random numbers, which have no seed.
#
# machine: VM_POISON=1
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

injection=/sys/kernel/debug/failslab
slabs=(/sys/kernel/slab/skbuff_*/failslab)
if [ ! -d "$injection" ] || [ ! -w "${slabs[0]}" ]; then
	skip "A connection survives allocation failures" "this kernel has no failslab"
	finish
fi
cd "${VM_LIB%/*}" || exit

# More than can fail: each failure decrements this count.
MOST=1000000000

# fail PERCENT: from now on this percentage of the network's buffer allocations fails, and no other allocation.
fail() {
	local file
	echo 0 >"$injection/verbose"
	echo Y >"$injection/cache-filter"
	echo N >"$injection/ignore-gfp-wait"
	for file in "${slabs[@]}"; do echo 1 >"$file"; done
	echo "$MOST" >"$injection/times"
	echo "$1" >"$injection/probability"
}

# rdma_rxe has no such counter and does not retry.
if [ "$DRIVER" != ferroce ]; then
	skip "A connection survives allocation failures" "for rxe a packet that cannot be sent is fatal"
	finish
fi
python3 bystander.py >/tmp/bystander 2>&1 &
bystander=$!
check "A connection is active" within 20 has_qp "$DEV" RTS
check "Allocations fail" fail "${LOST_PERCENT:-2}"
sleep $((${LOST_SECONDS:-10} * SLOWNESS))
echo 0 >"$injection/probability"
kill "$bystander"
check "The connection delivers everything" wait "$bystander"
note </tmp/bystander
# both COUNTER: the counter of both devices.
both() { cat /sys/class/infiniband/{"$DEV","$PEER_DEV"}/ports/1/hw_counters/"$1"; }
note "time-outs:" $(both ack_timeouts)
failed=$((MOST - $(cat "$injection/times")))
counted=$(both send_err | awk '{ sum += $1 } END { print sum }')
note "allocations that failed: $failed; packets without memory: $counted"
check "Many allocations failed" [ "$failed" -ge 10 ]
# A super-packet without a buffer is sent as packets, so that not every failure loses one.
check "The devices count packets without memory" [ "$counted" -ge $((failed / 5)) ]

python_tests lost_copies.py
pingpong rc 4 -n 100

finish
