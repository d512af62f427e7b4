# SPDX-License-Identifier: GPL-2.0
#
# Memory for packets runs out under traffic, again and again, by chance: that is loss like any other. It takes a
# kernel that can be told to fail: one of the debug kernels.
#
#	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b; each byte is looked at (bystander.py)
#
# So are the copies of a datagram for a group's members (lost_copies.py).
#
# LOST_PERCENT is how many allocations of buffers fail, LOST_SECONDS how long. Which ones is the kernel's own chance,
# which has no seed.
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

injection=/sys/kernel/debug/failslab
slabs=(/sys/kernel/slab/skbuff_*/failslab)
if [ ! -d "$injection" ] || [ ! -w "${slabs[0]}" ]; then
	skip "memory for packets runs out under traffic" "this kernel has no failslab"
	finish
fi
cd "${VM_LIB%/*}" || exit

# More than can fail: each that does counts one down from there.
MOST=1000000000

# fail PERCENT: so many allocations of buffers of the network, and nothing else, fail from now on.
fail() {
	local file
	echo 0 >"$injection/verbose"
	echo Y >"$injection/cache-filter"
	echo N >"$injection/ignore-gfp-wait"
	for file in "${slabs[@]}"; do echo 1 >"$file"; done
	echo "$MOST" >"$injection/times"
	echo "$1" >"$injection/probability"
}

# rdma_rxe has no such counter, and does not try again.
if [ "$DRIVER" != ferroce ]; then
	skip "memory for packets runs out under traffic" "for rxe a packet that cannot be sent is fatal"
	finish
fi
python3 bystander.py >/tmp/bystander 2>&1 &
bystander=$!
check "a connection is at work" within 20 has_qp "$DEV" RTS
check "allocations fail" fail "${LOST_PERCENT:-2}"
sleep $((${LOST_SECONDS:-10} * SLOWNESS))
echo 0 >"$injection/probability"
kill "$bystander"
check "the connection delivered everything" wait "$bystander"
note </tmp/bystander
# both COUNTER: of one device, and of the other.
both() { cat /sys/class/infiniband/{"$DEV","$PEER_DEV"}/ports/1/hw_counters/"$1"; }
note "time-outs:" $(both ack_timeouts)
failed=$((MOST - $(cat "$injection/times")))
counted=$(both send_err | awk '{ sum += $1 } END { print sum }')
note "allocations that failed: $failed; packets without memory: $counted"
check "many allocations did fail" [ "$failed" -ge 10 ]
# Each costs one packet or more, but a few are of others.
check "each is counted" [ "$counted" -ge $((failed * 3 / 4)) ]

python_tests lost_copies.py
pingpong rc 4 -n 100

finish
