# SPDX-License-Identifier: GPL-2.0
#
# Everything at once, for a long time: many connections of every service whose bytes are all looked at (soak.py),
# programs that are killed in mid-traffic, connections by the connection manager, over a wire that loses, repeats,
# reorders and damages packets and goes down now and then. In the end as much is there as before, of objects and of
# memory.
#
#	v0 [DEV] --netem-- v1 [PEER_DEV]     v1 is in namespace b
#
# rdma_rxe does not get through, so it is not asked to (HOSTILE_ANYWAY=1 does).
#
# SOAK_SECONDS is how long, SOAK_QPS how many queue pairs are verified, SEED steers the chance. These seconds are as
# long on every kernel, those of VM_TIMEOUT are not: 1500 are 3000 on umdebug. kmemleak is on debug alone.
#
# vm: TOPOLOGY=netns
# long: TOPOLOGY=netns KERNEL=umdebug VM_TIMEOUT=1500 VM_MEMORY=4G VM_ENV='SOAK_SECONDS=1800 SOAK_QPS=500'
# long: TOPOLOGY=netns KERNEL=debug VM_TIMEOUT=1500 VM_MEMORY=4G VM_ENV='SOAK_SECONDS=1800 SOAK_QPS=500'

. "$VM_LIB"

if [ "$DRIVER" != ferroce ] && [ -z "${HOSTILE_ANYWAY-}" ]; then
	skip "a long time" "rdma_rxe makes no progress over such a wire"
	finish
fi
export SOAK_SECONDS=${SOAK_SECONDS:-20} SOAK_QPS=${SOAK_QPS:-40}
note "seed ${SEED:-4791}"
# Slab caches keep partly filled pages, 600 to 800 KiB of them.
slack_kib=2048
# Debug kernels keep what was freed for a while, to see who uses it.
[ "$SLOWNESS" = 1 ] || slack_kib=4096
modprobe -a rdma_ucm 2>/dev/null
cd "${VM_LIB%/*}" || exit

# objects: how much of everything there is, in both devices.
objects() { rdma resource show | sed 's/^[0-9]*: //'; }

one() { # WORD...: one of them, as $chosen
	local words=("$@")
	chosen=${words[RANDOM % $#]}
}

# count WHAT [NUMBER]: so many more of it; counted WHAT: how many there were.
count() { echo "${2-1}" >>"/tmp/soak.$1"; }
counted() { cat "/tmp/soak.$1" 2>/dev/null | awk '{ sum += $1 } END { print sum + 0 }'; }

# goes_on [WHAT...]: whether there is time for one more, or one of these has not been since `soaked` began: a slow
# machine takes longer, up to eight times; one that is known to be, by that more.
goes_on() {
	local what
	[ "$SECONDS" -ge "$end" ] || return 0
	for what; do
		[ "$(counted "$what")" -gt "${had[$what]}" ] || [ "$SECONDS" -ge "$late" ] || return 0
	done
	return 1
}

# wire WORD...: what netem does to packets, both ways, and nothing else: a change would keep what is not named.
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

# flap: the link is down for a moment. It forgets its neighbours then, also those that were to stay.
flap() {
	count flaps
	ip link set v0 down
	sleep "0.$((RANDOM % 3))"
	keep_neighbours
	ip link set v0 up
	within 20 links_are_up
	count flaps_over
}

# weather: until programs() is over. Every fourth kind of it ends with a flap.
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

# connected PROGRAM: it has a queue pair that may send.
connected() { rdma resource show qp | grep -q "state RTS .*comm $1"; }

# killed PORT SERVER CLIENT: both ends, until one of them is killed; the other ends by itself, or is killed later. Most
# are connected by then, and those count.
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
	# timeout leads a group of its own.
	one "$server" "$client"
	kill -9 -- "-$chosen"
	sleep 0.3
	kill -9 -- -$server -$client
	wait $server $client
} >/dev/null 2>&1

# one_of PROGRAM: rping, or all others.
one_of() { [ "$1" = rping ] && echo rping || echo perftest; }

# listens PORT PROGRAM: a server of that name does.
listens() {
	if [ "$2" = rping ]; then cm_listens; else [ -n "$(ss -Hltn "sport = :$1")" ]; fi
}

# finished PORT: a connection by the connection manager that is left in peace. Its client must have success, unless a
# flap came in between; it calls it a success, too, if the server goes away, so its pings are counted. A bad wire may
# cost it some messages of the management, each of which is repeated after four seconds.
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

# soaked SECONDS: everything at once, for so long; until nothing of it is left.
half=0
soaked() {
	local what pids
	half=$((half + 1))
	local -A had
	for what in finished kills_rping kills_perftest flaps; do had[$what]=$(counted "$what"); done
	end=$((SECONDS + $1)) late=$((SECONDS + 8 * SLOWNESS * $1))
	rm -f /tmp/over
	weather & pids=($!)
	programs & pids+=($!)
	SOAK_SECONDS=$1 python_tests soak.py
	wait "${pids[@]}"
	check "as many objects are there as before" within 60 programs_are_gone
	[ "$(objects)" = "$before" ] || objects | note
	note "kernel memory after $1 s: $(kernel_memory | tee /tmp/memory) KiB"
}

# many WHAT LEAST: it happened at least so often.
many() { [ "$(counted "$1")" -ge "$2" ]; }

# The link goes down, but its addresses stay.
sysctl -qw net.ipv6.conf.v0.keep_addr_on_down=1
check "the neighbours are known" keep_neighbours
before=$(objects)
note "kernel memory at first: $(kernel_memory) KiB"
# The first half fills caches.
soaked $((SOAK_SECONDS / 2))
first=$(</tmp/memory)
soaked $((SOAK_SECONDS / 2))
check "in the second half kernel memory has not grown by more than $slack_kib KiB" \
	[ $(($(</tmp/memory) - first)) -lt "$slack_kib" ]
note "$(counted drops) packets dropped, $(counted flaps) flaps; $(counted tries) kills, $(counted kills_rping) of" \
	"rping and $(counted kills_perftest) of perftest at work; $(counted finished) rpings finished"
[ ! -e /tmp/failed ] || note </tmp/failed
check "the wire was as bad as it should be" [ "$(counted refused)" = 0 ]
check "netem dropped packets" many drops 1
check "the link went down, in each half" many flaps 2
check "programs of perftest were killed at work, in each half" many kills_perftest 2
check "so were those of the connection manager" many kills_rping 2
check "some of these that were left in peace finished, in each half" many finished 2
check "none failed without a flap" [ ! -e /tmp/failed ]
# The core says it when a link goes down or comes up.
check "the log is not flooded with all that" log_is_not_flooded $((20 + 4 * $(counted flaps)))
pingpong rc 4 -n 100
check "the devices go" eval 'rdma link del "$DEV" && rdma link del "$PEER_DEV"'
check "the driver is unloaded" within 20 unload "$DRIVER"
check "and comes back" eval 'set_up_device && set_up_peer'

finish
