# SPDX-License-Identifier: GPL-2.0
#
# Figures of congestion control: 1 to 8 queue pairs, or TCP connections, through a switch with a slow port, which marks
# packets by RED. For each: goodput, packets dropped and marked, and the queue. Of Documentation/congestion.rst.
#
# long: TOPOLOGY=netns KERNEL=uml

. "$VM_LIB"
. "${VM_LIB%/*}/switch.sh"

RATE=${RATE:-200} # Mbit/s
FLOWS=${FLOWS:-1 2 4 8}
TIME=${TIME:-8} # seconds, of which the first is not judged

# microseconds N: bytes that leave the queue in that time.
microseconds() { echo $(($1 * RATE / 8)); }

# red: the queue marks some packets where 200 us wait and 10 % of them at 1 ms, or drops those that are not ECN-capable.
# `burst` is the smallest that averages the queue over two packets, as switches do for RoCE.
red() {
	queue "$RATE" red limit 1000000 min "$(microseconds 200)" max "$(microseconds 1000)" avpkt 1500 burst 4 \
		probability 0.1 bandwidth "${RATE}mbit" ecn
}

# As on a wire: one packet at a time.
no_segmentation() {
	ethtool -K c0 tso off gso off
	ip netns exec middle ethtool -K m0 gro off
	ip netns exec middle ethtool -K m1 tso off gso off
}

# statistics: bytes in the queue, packets dropped, packets marked.
statistics() {
	tc_of_switch -s -j qdisc show dev m1 | tr ',{}' '\n' | awk -F: '
		/"backlog"/ && $2 > most { most = $2 }
		/"drops"/ { drops += $2 }
		/"marked"/ { marked += $2 }
		END { print most + 0, drops + 0, marked + 0 }'
}

# figures NAME COMMAND...: runs COMMAND, which leaves its goodput in Mbit/s in /tmp/goodput, and prints a line.
figures() {
	local name=$1 sampler
	shift
	mark "$name"
	sleep 1
	while sleep 0.1; do statistics; done >/tmp/samples &
	sampler=$!
	echo 0 >/tmp/goodput
	if "$@"; then
		ok "$name"
	elif [ -n "${MAY_FAIL-}" ]; then
		skip "$name" "it failed"
	else
		not_ok "$name"
	fi
	kill "$sampler"
	wait "$sampler" 2>/dev/null
	awk -v name="$name" -v rate="$RATE" '
		# Without the start and the end. A sample takes up to half a second.
		$1 > 0 && !begun { begun = NR + 3 }
		{ line[NR] = $0; backlog[NR] = $1 }
		END {
			for (i = begun; i < NR - 3; i++) {
				sum += backlog[i]
				n++
				if (backlog[i] > most) most = backlog[i]
			}
			before = line[begun]
			after = line[NR - 3]
			getline goodput < "/tmp/goodput"
			split(before, b); split(after, a)
			printf "%-20s %4d Mbit/s (%3d %%), %5d dropped, %6d marked, queue %5.2f ms, at most %5.2f ms\n",
				name, goodput, 100 * goodput / rate, a[2] - b[2], a[3] - b[3],
				8 * sum / (n ? n : 1) / rate / 1000, 8 * most / rate / 1000
		}' /tmp/samples | note
}

# roce FLOWS: WRITEs for a while.
roce() {
	local server options=(-F -D "$TIME" --margin 1 -q "$1" -s 65536)
	at_peer timeout 100 ib_write_bw -d frd -x "$PEER_GID4" "${options[@]}" >/tmp/server 2>&1 &
	server=$!
	REVERSE=1 await_listener 18515
	timeout 100 ib_write_bw -d frc -x "$GID4" "${options[@]}" 10.9.0.2 >/tmp/client 2>&1 || return
	wait "$server"
	# It counts messages without the first and the last second. The rates that it prints need a cycle counter.
	awk -v time="$((TIME - 2))" '/^ *65536/ { print $2 * 65536 * 8 / time / 1000000 }' /tmp/client >/tmp/goodput
}

# tcp FLOWS: the same by TCP, with ECN.
tcp() {
	local server
	at_peer iperf3 -s -1 -p 5300 >/tmp/server 2>&1 &
	server=$!
	REVERSE=1 await_listener 5300
	iperf3 -c 10.9.0.2 -p 5300 -t "$TIME" -P "$1" -J >/tmp/client || return
	wait "$server"
	sed -n '/"sum_received"/,/}/ s/.*"bits_per_second":[^0-9]*\([0-9.]*\).*/\1/p' /tmp/client |
		awk '{ print $1 / 1000000 }' >/tmp/goodput
}

# all NAME COMMAND: with each number of flows.
all() {
	local flows
	for flows in $FLOWS; do figures "$1, $flows" "$2" "$flows"; done
}

ready() {
	GID4=$(gid_index frc 10.9.0.1) PEER_GID4=$(gid_index frd 10.9.0.2)
	within 20 port_is frc ACTIVE && within 20 ping -c 1 -W 2 10.9.0.2
}

switch_set_up || exit 98
no_segmentation
sysctl -qw net.ipv4.tcp_ecn=1
at_peer sysctl -qw net.ipv4.tcp_ecn=1
check "A queue that marks" red
check "The devices are ready" ready
all "TCP with ECN" tcp
all "DCQCN" roce
check "The module is loaded without DCQCN" eval 'rmmod ferroce && insmod "$KO" dcqcn=0'
check "It has devices" eval 'add_device frc ferroce c0 && add_device frd ferroce c1 b'
check "They are ready" ready
# Losses may use up all retries.
MAY_FAIL=1 all "Window alone" roce
finish
