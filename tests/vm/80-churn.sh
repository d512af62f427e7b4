# SPDX-License-Identifier: GPL-2.0
#
# Load, add, traffic, kill -9 in mid-traffic, remove, unload; again and again. Nothing may grow.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# CHURN_ROUNDS is the number of rounds (10; 100 for a release), SEED steers the chance.
#
# vm: TOPOLOGY=single KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=kcsan

. "$VM_LIB"

rounds=${CHURN_ROUNDS:-10}
seeded
note "seed ${SEED:-4791}"
# Slab caches keep partly filled pages; with either driver they grow by some 300 KiB, and little with rounds.
# A leak of the smallest ring would show.
slack_kib=$((600 + rounds * 8))
# Debug kernels keep what was freed for a while, to see who uses it.
[ "$SLOWNESS" = 1 ] || slack_kib=$((slack_kib + 2048))

no_qps() { [ "$(qps "$DEV")" = 0 ]; }

# round: one life of the driver. KILLED counts the kills that met a client in the middle of its work.
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
	# Large messages and a long run, so that there is always something in flight.
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
check "a first round" round
check "a second round" round
before=$(kernel_memory)
done_rounds=0
for ((i = 1; i <= rounds; i++)); do
	mark "churn $i"
	round >/tmp/round 2>&1 || { note </tmp/round; break; }
	done_rounds=$i
done
check "$rounds rounds" [ "$done_rounds" = "$rounds" ]
check "every kill met a client at work" [ "$KILLED" = $((rounds + 2)) ]
# What is freed in batches, some seconds later, comes back; what leaks does not.
flat() {
	after=$(kernel_memory)
	[ $((after - before)) -lt "$slack_kib" ]
}
check "kernel memory has not grown by more than $slack_kib KiB" within 30 flat
note "kernel memory: $before KiB before, $after KiB after $rounds rounds"
# The set-up is made again, for whoever shares the machine.
check "the device comes back" set_up_device

finish
