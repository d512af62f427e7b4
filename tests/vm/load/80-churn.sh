# SPDX-License-Identifier: GPL-2.0
#
# Load, add, traffic, kill -9 under traffic, remove, unload, repeated. Memory use must not grow.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# CHURN_ROUNDS is the number of rounds (10; 100 for a release), SEED seeds the random choices.
#
# vm: TOPOLOGY=single KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=kcsan

. "$VM_LIB"

rounds=${CHURN_ROUNDS:-10}
seeded
note "seed ${SEED:-4791}"
# Slab caches keep partially filled pages. With either driver they grow by about 300 KiB, and little with the rounds. A
# leak of the smallest ring would show.
slack_kib=$((600 + rounds * 8))
# Debug kernels quarantine freed memory for a while.
[ "$SLOWNESS" = 1 ] || slack_kib=$((slack_kib + 2048))

no_qps() { [ "$(qps "$DEV")" = 0 ]; }

# round: one life of the driver. KILLED counts the kills of an active client.
KILLED=0
round() {
	local server client gid pid
	load_driver "$DRIVER" || return
	add_device "$DEV" "$DRIVER" "$NETDEV" || return
	gid=$(gid_index "$DEV" "$ADDR") || return
	timeout 60 ibv_rc_pingpong -d "$DEV" -g "$gid" -c -n 20 >/tmp/server 2>&1 &
	server=$!
	await_listener 18515 || return
	timeout 60 ibv_rc_pingpong -d "$DEV" -g "$gid" -c -n 20 "$ADDR" >/tmp/client 2>&1 || return
	wait "$server" || return
	# Large messages and a long run, so that packets are always in flight.
	ib_write_bw -d "$DEV" -x "$gid" -F -s 65536 -n 1000000 >/tmp/server 2>&1 &
	server=$!
	await_listener 18515 || return
	ib_write_bw -d "$DEV" -x "$gid" -F -s 65536 -n 1000000 "$ADDR" >/tmp/client 2>&1 &
	client=$!
	within 60 has_qp "$DEV" RTS || return
	sleep "0.$((RANDOM % 3))"
	kill -0 "$client" && KILLED=$((KILLED + 1))
	kill -9 "$client"
	if [ $((RANDOM % 2)) = 0 ]; then kill -9 "$server"; else kill "$server"; fi
	for pid in "$client" "$server"; do within 20 not kill -0 "$pid" || return; done
	wait "$client" "$server" 2>/dev/null
	within 5 no_qps || return
	rdma link del "$DEV" || return
	unload "$DRIVER"
}

rdma link del "$DEV"
unload "$DRIVER"
# The first rounds fill caches.
check "The first round passes" round
check "The second round passes" round
before=$(kernel_memory)
done_rounds=0
for ((i = 1; i <= rounds; i++)); do
	mark "churn $i"
	round >/tmp/round 2>&1 || { note </tmp/round; break; }
	done_rounds=$i
done
check "$rounds rounds pass" [ "$done_rounds" = "$rounds" ]
check "Every kill hits an active client" [ "$KILLED" = $((rounds + 2)) ]
# Memory that is freed in batches returns after some seconds; leaked memory does not.
flat() {
	after=$(kernel_memory)
	[ $((after - before)) -lt "$slack_kib" ]
}
check "Kernel memory does not grow by more than $slack_kib KiB" within 30 flat
note "kernel memory: $before KiB before, $after KiB after $rounds rounds"
# Restore the set-up for other users of the machine.
check "The device is set up again" set_up_device

finish
