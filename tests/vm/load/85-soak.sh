# SPDX-License-Identifier: GPL-2.0
#
# Everything together for a long time: many connections of every service with every byte verified (soak.py), programs
# killed under traffic, connections of the connection manager, over a wire that drops, duplicates, reorders and corrupts
# packets and sometimes goes down. At the end, objects and memory must be back to where they started.
#
#	v0 [DEV] --netem-- v1 [PEER_DEV]     v1 is in namespace b
#
# rdma_rxe does not complete this test, so it is skipped (unless HOSTILE_ANYWAY=1).
#
# SOAK_SECONDS is the duration, SOAK_QPS the number of verified QPs, SEED seeds the random choices. These seconds are
# the same on every kernel, those of VM_TIMEOUT are not: 1500 become 3000 on umdebug. Only debug has kmemleak.
#
# vm: TOPOLOGY=netns KERNEL=umdebug
# long: TOPOLOGY=netns KERNEL=umdebug VM_TIMEOUT=1500 VM_MEMORY=4G VM_ENV='SOAK_SECONDS=1800 SOAK_QPS=500'
# long: TOPOLOGY=netns KERNEL=debug VM_TIMEOUT=1500 VM_MEMORY=4G VM_ENV='SOAK_SECONDS=1800 SOAK_QPS=500'

. "$VM_LIB"

if [ "$DRIVER" != ferroce ] && [ -z "${HOSTILE_ANYWAY-}" ]; then
	skip "A long time" "rdma_rxe makes no progress over such a wire"
	finish
fi
export SOAK_SECONDS=${SOAK_SECONDS:-20} SOAK_QPS=${SOAK_QPS:-40}
note "seed ${SEED:-4791}"
# Slab caches keep 600 to 800 KiB of partially filled pages.
slack_kib=2048
# Debug kernels quarantine freed memory for a while.
[ "$SLOWNESS" = 1 ] || slack_kib=4096
modprobe -a rdma_ucm 2>/dev/null
cd "${VM_LIB%/*}" || exit

# objects: the number of objects of each type in both devices.
objects() { rdma resource show | sed 's/^[0-9]*: //'; }

one() { # WORD...: one of them, as $chosen
	local words=("$@")
	chosen=${words[RANDOM % $#]}
}

# count EVENT [NUMBER]: adds to the count of an event; counted EVENT: prints the count.
count() { echo "${2-1}" >>"/tmp/soak.$1"; }
counted() { cat "/tmp/soak.$1" 2>/dev/null | awk '{ sum += $1 } END { print sum + 0 }'; }

# goes_on [EVENT...]: true if time is left, or if one of the events has not happened since `soaked` began. A slow
# machine gets up to twenty times as long, multiplied by its known slowness.
goes_on() {
	local what
	[ "$SECONDS" -ge "$end" ] || return 0
	for what; do
		[ "$(counted "$what")" -gt "${had[$what]}" ] || [ "$SECONDS" -ge "$late" ] || return 0
	done
	return 1
}

# wire WORD...: replaces the netem configuration in both directions. A change would keep the settings that are not
# named.
wire() {
	local dropped
	dropped=$({ tc -s qdisc show dev v0; at_peer tc -s qdisc show dev v1; } |
		awk '$1 == "qdisc" { ours = $2 == "netem" }
			ours && sub(/.*dropped /, "") { sum += $1 }
			END { print sum + 0 }')
	count drops "$dropped"
	tc qdisc del dev v0 root 2>/dev/null
	at_peer tc qdisc del dev v1 root 2>/dev/null
	[ $# -gt 0 ] || return 0
	tc qdisc add dev v0 root netem "$@" && at_peer tc qdisc add dev v1 root netem "$@" || count refused
}

links_are_up() { port_is "$DEV" ACTIVE && port_is "$PEER_DEV" ACTIVE; }

# flap: takes the link down for a moment. This removes all neighbour entries, also permanent ones.
flap() {
	count flaps
	ip link set v0 down
	sleep "0.$((RANDOM % 3))"
	keep_neighbours
	ip link set v0 up
	within 20 links_are_up
	count flaps_over
}

# weather: changes the wire until programs() is done. Every fourth change ends with a flap.
weather() {
	local number=0 chosen
	seeded $((half * 2))
	while [ ! -e /tmp/over ]; do
		one "loss 0%" "loss 1%" "loss 1% duplicate 2%" "delay 1ms 1ms reorder 10%" "corrupt 1%" \
			"limit 5 delay 1ms"
		wire $chosen
		sleep "$((RANDOM % 3)).$((RANDOM % 10))"
		[ $((number++ % 4)) != 1 ] || flap
	done
	wire
}

# connected PROGRAM: it has a QP in RTS.
connected() { rdma resource show qp | grep -q "state RTS .*comm $1"; }

# killed PORT SERVER CLIENT: runs both ends until one is killed. The other ends by itself or is killed later. Most are
# connected by then; only those count.
killed() {
	local server client program=${2%% *} chosen
	timeout $((60 * SLOWNESS)) $2 &
	server=$!
	within 20 listens "$1" "$program"
	ip netns exec b timeout $((60 * SLOWNESS)) $3 &
	client=$!
	[ $((RANDOM % 4)) = 0 ] || within 10 connected "$program"
	one 0 0 1 2
	sleep "$chosen.$((RANDOM % 10))"
	count tries
	! connected "$program" || count "kills_$(one_of "$program")"
	# timeout leads its own process group.
	one "$server" "$client"
	kill -9 -- "-$chosen"
	sleep 0.3
	kill -9 -- -$server -$client
	wait $server $client
} >/dev/null 2>&1

# one_of PROGRAM: "rping", or "perftest" for all others.
one_of() { [ "$1" = rping ] && echo rping || echo perftest; }

# listens PORT PROGRAM: a server of that name listens.
listens() {
	if [ "$2" = rping ]; then cm_listens; else [ -n "$(ss -Hltn "sport = :$1")" ]; fi
}

# finished PORT: runs a connection of the connection manager without a kill. The client must succeed unless a flap
# happened. It also reports success if the server exits, so count its pings. A bad wire may drop several connection
# manager messages, each repeated after four seconds.
finished() {
	local server flaps rc=0 pings=20
	flaps=$(counted flaps)
	timeout $((120 * SLOWNESS)) rping -s -a "$ADDR" -p "$1" -S 4000 -C $pings -V >/tmp/server 2>&1 &
	server=$!
	within 20 cm_listens
	at_peer timeout $((120 * SLOWNESS)) rping -c -a "$ADDR" -p "$1" -S 4000 -C $pings -V -v >/tmp/client 2>&1 ||
		rc=$?
	if [ "$rc" = 0 ] && [ "$(grep -c '^ping data: ' /tmp/client)" = $pings ]; then
		count finished
	elif [ "$flaps" = "$(counted flaps_over)" ] && [ "$flaps" = "$(counted flaps)" ]; then
		count failed
		{ echo "rping -c returned $rc:"; tail -n 5 /tmp/server /tmp/client; } >>/tmp/failed
	fi
	kill -9 -- "-$server"
	wait $server
} >/dev/null 2>&1

programs() {
	local tool port=19000 number=0 chosen
	seeded $((half * 2 + 1))
	while goes_on finished kills_rping kills_perftest flaps; do
		port=$((port + 1))
		if [ $((number++ % 3)) = 0 ]; then
			finished $port
		else
			killed $port "rping -s -a $ADDR -p $port -S 4000" "rping -c -a $ADDR -p $port -S 4000"
		fi
		one ib_write_bw ib_read_bw "ib_send_bw -r 64" ib_atomic_bw "ib_send_bw -c UD" "ib_write_bw -c UC"
		port=$((port + 1))
		tool="$chosen -p $port -F -D $((30 * SLOWNESS)) -q 4"
		[[ $tool != *UD* ]] || tool=${tool% -q 4}
		killed $port "$tool -d $DEV -x $GID4" "$tool -d $PEER_DEV -x $PEER_GID4 $ADDR"
	done
	touch /tmp/over
}

programs_are_gone() { [ "$(objects)" = "$before" ]; }

# soaked SECONDS: runs everything for that long, then waits until all of it has ended.
half=0
soaked() {
	local what pids
	half=$((half + 1))
	local -A had
	for what in finished kills_rping kills_perftest flaps; do had[$what]=$(counted "$what"); done
	end=$((SECONDS + $1)) late=$((SECONDS + 20 * SLOWNESS * $1))
	rm -f /tmp/over
	weather & pids=($!)
	programs & pids+=($!)
	SOAK_SECONDS=$1 python_tests soak.py
	wait "${pids[@]}"
	check "The number of objects is as before" within 60 programs_are_gone
	[ "$(objects)" = "$before" ] || objects | note
	note "kernel memory after $1 s: $(kernel_memory | tee /tmp/memory) KiB"
}

# many EVENT MINIMUM: the event happened at least that often.
many() { [ "$(counted "$1")" -ge "$2" ]; }

# The link goes down, but its addresses stay.
sysctl -qw net.ipv6.conf.v0.keep_addr_on_down=1
check "The neighbour entries are permanent" keep_neighbours
before=$(objects)
note "kernel memory at first: $(kernel_memory) KiB"
# The first half fills caches.
soaked $((SOAK_SECONDS / 2))
first=$(</tmp/memory)
soaked $((SOAK_SECONDS / 2))
check "Kernel memory does not grow by more than $slack_kib KiB in the second half" \
	[ $(($(</tmp/memory) - first)) -lt "$slack_kib" ]
note "$(counted drops) packets dropped, $(counted flaps) flaps; $(counted tries) kills, $(counted kills_rping) of" \
	"rping and $(counted kills_perftest) of perftest at work; $(counted finished) rpings finished"
[ ! -e /tmp/failed ] || note </tmp/failed
check "netem accepts every configuration" [ "$(counted refused)" = 0 ]
check "netem drops packets" many drops 1
check "The link goes down in each half" many flaps 2
check "perftest programs are killed at work in each half" many kills_perftest 2
check "rping programs are killed at work in each half" many kills_rping 2
check "rping programs that are not killed finish in each half" many finished 2
check "No rping fails without a flap" [ ! -e /tmp/failed ]
# The core logs a link that goes down or comes up.
check "The log is not flooded" log_is_not_flooded $((20 + 4 * $(counted flaps)))
pingpong rc 4 -n 100
check "The devices are removed" eval 'rdma link del "$DEV" && rdma link del "$PEER_DEV"'
check "The driver unloads" within 20 unload "$DRIVER"
check "The devices are set up again" eval 'set_up_device && set_up_peer'

finish
