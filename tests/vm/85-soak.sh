# SPDX-License-Identifier: GPL-2.0
#
# Everything at once, for a long time: many connections of every service whose bytes are all looked at (soak.py),
# programs that are killed in mid-traffic, connections by the connection manager, over a wire that loses, repeats,
# reorders and damages packets and goes down now and then. In the end as much is there as before, of objects and of
# memory.
#
#	v0 [DEV] --netem-- v1 [PEER_DEV]     v1 is in namespace b
#
# SOAK_SECONDS is how long, SOAK_QPS how many queue pairs are verified, SEED steers the chance. These seconds are as
# long on every kernel, those of VM_TIMEOUT are not: 1500 are 3000 on umdebug.
#
# vm: TOPOLOGY=netns
# long: TOPOLOGY=netns KERNEL=umdebug VM_TIMEOUT=1500 VM_MEMORY=4G VM_ENV='SOAK_SECONDS=1800 SOAK_QPS=500'

. "$VM_LIB"
. "${VM_LIB%/*}/wait.sh"

if [ "$DRIVER" != ferroce ]; then
	skip "a long time" "rdma_rxe makes no progress over such a wire"
	finish
fi
export SOAK_SECONDS=${SOAK_SECONDS:-20} SOAK_QPS=${SOAK_QPS:-40}
seed=${SEED:-4791}
# Slab caches keep partly filled pages. A queue pair whose program was killed has some 100 KiB.
slack_kib=4096
modprobe -a rdma_ucm 2>/dev/null
cd "${VM_LIB%/*}" || exit

# objects: how much of everything there is, in both devices.
objects() { rdma resource show | sed 's/^[0-9]*: //'; }

one() { # WORD...: one of them
	local words=("$@")
	echo "${words[RANDOM % $#]}"
}

# until_end: whether there is time for one more.
until_end() { [ "$SECONDS" -lt "$end" ]; }

# flap: the link is down for a moment. It forgets its neighbours then, also those that were to stay.
flap() {
	ip link set v0 down
	sleep "0.$((RANDOM % 3))"
	keep_neighbours
	ip link set v0 up
}

weather() {
	RANDOM=$seed
	while until_end; do
		wire=$(one "loss 0%" "loss 1%" "loss 1% duplicate 2%" "delay 1ms 1ms reorder 10%" "corrupt 1%" \
			"limit 5 delay 1ms")
		RANDOM=$((seed + SECONDS))
		tc qdisc replace dev v0 root netem $wire
		at_peer tc qdisc replace dev v1 root netem $wire
		sleep "$((RANDOM % 3)).$((RANDOM % 10))"
		[ $((RANDOM % 4)) != 0 ] || flap
	done
	tc qdisc del dev v0 root
	at_peer tc qdisc del dev v1 root
}

# killed PORT SERVER CLIENT: both ends, until one of them is killed; the other ends by itself, or is killed later.
killed() {
	local server client
	timeout 20 $2 &
	server=$!
	sleep 0.3
	ip netns exec b timeout 20 $3 &
	client=$!
	sleep "$(one 0 1 2).$((RANDOM % 10))"
	# timeout leads a group of its own.
	kill -9 -- "-$(one $server $client)"
	sleep 0.3
	kill -9 -- -$server -$client
	wait $server $client
} >/dev/null 2>&1

programs() {
	local tool port=19000
	RANDOM=$((seed + 1))
	while until_end; do
		port=$((port + 1))
		tool=$(one ib_write_bw ib_read_bw "ib_send_bw -r 64" ib_atomic_bw "ib_send_bw -c UD" \
			"ib_write_bw -c UC")
		tool="$tool -p $port -F -D 30 -q 4"
		[[ $tool != *UD* ]] || tool=${tool% -q 4}
		killed $port "$tool -d $DEV -x $GID4" "$tool -d $PEER_DEV -x $PEER_GID4 $ADDR"
		port=$((port + 1))
		killed $port "rping -s -a $ADDR -p $port" "rping -c -a $ADDR -p $port -S 4000"
		RANDOM=$((seed + SECONDS))
	done
}

programs_are_gone() { [ "$(objects)" = "$before" ]; }

# soaked SECONDS: everything at once, for so long; until nothing of it is left.
soaked() {
	end=$((SECONDS + $1))
	weather & pids=($!)
	programs & pids+=($!)
	SOAK_SECONDS=$1 python_tests soak.py
	wait "${pids[@]}"
	check "as many objects are there as before" within 60 programs_are_gone
	[ "$(objects)" = "$before" ] || objects | note
	note "kernel memory after $1 s: $(kernel_memory | tee /tmp/memory) KiB"
}

# The link goes down, but its addresses stay.
sysctl -qw net.ipv6.conf.v0.keep_addr_on_down=1
check "the neighbours are known" keep_neighbours
before=$(objects)
note "kernel memory at first: $(kernel_memory) KiB"
# The first half fills caches.
soaked $((SOAK_SECONDS / 2))
half=$(</tmp/memory)
soaked $((SOAK_SECONDS / 2))
check "in the second half kernel memory has not grown by more than $slack_kib KiB" \
	[ $(($(</tmp/memory) - half)) -lt "$slack_kib" ]
pingpong rc 4 -n 100
check "the devices go" eval 'rdma link del "$DEV" && rdma link del "$PEER_DEV"'
check "the driver is unloaded" within 20 unload "$DRIVER"
check "and comes back" eval 'set_up_device && set_up_peer'

finish
