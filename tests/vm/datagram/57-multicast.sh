# SPDX-License-Identifier: GPL-2.0
#
# Multicast delivery and clean-up. multicast.py covers the part without a connection manager.
#
#	v0 [DEV] ------ v1 [PEER_DEV]         v1 is in namespace b
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"
cd "${VM_LIB%/*}"

python_tests multicast.py

# hold GROUP SECONDS: starts a process that stays attached even if the device is removed.
hold() {
	python3 - "$1" "$2" <<-'END' &
		import os, sys, time
		from ud import UdEnd
		end = UdEnd(os.environ["DEV"])
		end.attach(sys.argv[1])
		open("/tmp/attached", "w").close()
		time.sleep(float(sys.argv[2]))
		os._exit(0)
	END
	holder=$!
	within 20 [ -e /tmp/attached ]
	rm -f /tmp/attached
}

joined() { ip maddr show dev "$NETDEV" | grep -q "$1"; }

if [ "$DRIVER" = ferroce ]; then
	hold 239.9.9.9 60
	check "The interface joins the group" joined 239.9.9.9
	rdma link del "$DEV"
	check "A removed device leaves the groups of its processes" within 5 not joined 239.9.9.9
	check "A removed device leaves the Ethernet filter" not joined 01:00:5e:09:09:09
	kill "$holder"
	wait "$holder"
	add_device "$DEV" "$DRIVER" "$NETDEV"
	GID4=$(gid_index "$DEV" "$ADDR") GID6=$(gid_index "$DEV" "$ADDR6")
else
	skip "A removed device leaves the groups of its processes" "for ferroce"
fi

modprobe -a rdma_ucm

# member NAME OPTIONS: runs mckey at both ends, the receiver first.
member() {
	local name=$1 rc_server=0 rc_client=0 pid
	shift
	timeout "$TRAFFIC_SECONDS" stdbuf -oL mckey -b "$ADDR" "$@" >/tmp/server 2>&1 &
	pid=$!
	within 30 mckey_joined
	at_peer timeout "$TRAFFIC_SECONDS" mckey -s -b "$PEER_ADDR" "$@" >/tmp/client 2>&1 || rc_client=$?
	wait "$pid" || rc_server=$?
	if [ "$rc_server" = 0 ] && [ "$rc_client" = 0 ]; then
		ok "$name"
		return
	fi
	note "receiver returned $rc_server:"
	note </tmp/server
	note "sender returned $rc_client:"
	note </tmp/client
	not_ok "$name"
}
member "mckey, full members" -m 239.4.4.4
# Here the sender is no member, only the receiver is. mckey has one option for both ends.
timeout "$TRAFFIC_SECONDS" stdbuf -oL mckey -b "$ADDR" -m 239.4.4.5 >/tmp/server 2>&1 &
receiver=$!
within 30 mckey_joined
check "mckey sends as a send-only member" at_peer timeout "$TRAFFIC_SECONDS" mckey -s -b "$PEER_ADDR" -m 239.4.4.5 -o
check "The datagrams of a send-only member arrive" wait "$receiver"

perftest_group=0:0:0:0:0:0:0:0:0:0:255:255:239:1:1:7
if [ "$DRIVER" = ferroce ]; then
	perftest ib_send_bw -c UD -g -M "$perftest_group" -s 1024 -n 100
	perftest ib_send_lat -c UD -g -M "$perftest_group" -s 64 -n 100
else
	skip "perftest -g -M" "rxe: receives nothing over the wire (joins no group)"
fi
check "Every group has been left" sh -c "! ip maddr show dev $NETDEV | grep -q 'inet *239'"

# A deleted interface takes its groups along.
hold 239.9.9.10 60
ip link del "$NETDEV"
check "The device is removed with its interface while a process is attached" within 20 not has_device "$DEV"
kill "$holder"
wait "$holder"
finish
