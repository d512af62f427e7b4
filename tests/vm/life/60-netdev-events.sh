# SPDX-License-Identifier: GPL-2.0
#
# Events of the netdev below a device while QPs are open and packets are in flight: no warning, no hang, no leak. A
# connection survives what a wire may do.
#
#	w0 [X] ------ w1       the device talks to itself, over w0
#	c: c0 [X] ------ c1    the same in a namespace that goes away
#
# vm: TOPOLOGY=single KERNEL=umdebug

. "$VM_LIB"

X=${DEV}x
IP=10.0.9.1
in=()

add() { "${in[@]}" rdma link add "$X" type "$LINK_TYPE" netdev "$1"; }

make_link() { # NETDEV PEER
	printf '%s\n' "link add $1 type veth peer name $2" "addr add $IP/24 dev $1" "link set $1 mtu $MTU up" \
		"link set $2 mtu $MTU up" | "${in[@]}" ip -force -batch -
	add "$1" && within 5 has_gid "$X" "$IP"
}

# start OPTION...: starts both ends of a ping-pong that runs until it is stopped.
start() {
	local gid
	gid=$(gid_index "$X" "$IP")
	"${in[@]}" ibv_rc_pingpong -d "$X" -g "$gid" -c -n 10000000 "$@" >/tmp/server 2>&1 &
	server=$!
	within 10 tcp_listens 18515 "$server" || return
	"${in[@]}" ibv_rc_pingpong -d "$X" -g "$gid" -c -n 10000000 "$@" "$IP" >/tmp/client 2>&1 &
	client=$!
	within 10 has_qp "$X" RTS
}

# running: both ends still run.
running() { kill -0 "$server" && kill -0 "$client"; }

# sent: number of packets that the device sent.
sent() { counter "$X" sent_pkts; }

# has_sent COUNT: the device sent more packets than that.
has_sent() { [ "$(sent)" -gt "$1" ]; }

# flowing: the device sends more packets than retries alone would account for.
flowing() {
	within 5 has_sent $(($(sent) + 100))
}

# stop: kills both ends and waits until both have exited.
stop() {
	local pid
	kill -9 "$server" "$client" 2>/dev/null
	for pid in "$server" "$client"; do
		within 20 not kill -0 "$pid" || return
	done
	wait "$server" "$client" 2>/dev/null
	return 0
}

no_qps() { [ "$(qps "$X")" = 0 ]; }

# parent_is NAME: sysfs shows this netdev as the parent of the device.
parent_is() { [ "$(cat "/sys/class/infiniband/$X/parent")" = "$1" ]; }

# read_parents: reads the parents of all devices until /tmp/reading is removed, and prints each name once.
read_parents() {
	local file name
	while [ -e /tmp/reading ]; do
		for file in /sys/class/infiniband/*/parent; do
			{ read -r name <"$file" && echo "$name"; } 2>/dev/null
		done
	done | awk '!seen[$0]++'
}

# renames NAME...: prints commands that rename the first netdev, with a pause for each name, as one process runs all.
renames() {
	while [ $# -gt 1 ]; do
		printf 'link set %s\n' "$1 down" "$1 name $2"
		pause 0.05
		shift
	done
}

# comes_and_goes ROUNDS: renames the netdev, and deletes and re-creates it or the device, while two readers read its
# name.
comes_and_goes() {
	local round failed=0 readers=()
	: >/tmp/reading
	read_parents >/tmp/parents1 &
	readers+=($!)
	read_parents >/tmp/parents2 &
	readers+=($!)
	for ((round = 1; round <= $1; round++)); do
		renames w0 w0-renamed-long w8 w0 | ip -batch - || failed=1
		if ((round % 2)); then
			ip link del w0
			within 20 not has_device "$X"
			make_link w0 w1
		else
			rdma link del "$X"
			add w0
		fi || failed=1
	done
	rm /tmp/reading
	wait "${readers[@]}"
	ip link set w0 up
	return "$failed"
}

# A connection survives if the wire recovers in time.
survives() { # NAME BREAK REPAIR
	local name=$1
	check "$name: traffic starts" start -s 4096 -m 1024
	check "$name: packets flow" flowing
	mark "$name"
	# One process runs all commands: starting one for each is slow under emulation, and all retries together take
	# 1.8 s.
	{ printf '%s\n' "$2"; sleep 0.05; printf '%s\n' "$3"; } | sed -u 's/; */\n/g' | ip -batch -
	if [ "$DRIVER" = rxe ]; then
		skip "$name: the connection survives" "for rxe a packet that cannot be sent is fatal"
	else
		check "$name: packets flow again" flowing
		check "$name: the connection survives" running
	fi
	check "$name: the ends stop" stop
	check "$name: their QPs are destroyed" within 5 no_qps
}

check "A device for the tests is created" make_link w0 w1
check "sysfs shows the name of its netdev" parent_is w0
survives "Netdev down and up" "link set w0 down" "link set w0 up"
survives "Carrier lost and back" "link set w1 down" "link set w1 up"
survives "MTU below the path MTU" "link set w0 mtu 600" "link set w0 mtu $MTU"
survives "Netdev renamed" "link set w0 down; link set w0 name w9" \
	"link set w9 name w0; link set w0 up"
ip link set w0 down name w9
check "sysfs shows the new name" parent_is w9
ip link set w9 name w0 up
survives "Another address added and removed" "addr add 10.0.9.50/24 dev w0" "addr del 10.0.9.50/24 dev w0"
survives "MAC address changes" "link set w0 address 02:00:00:00:09:01" ""

# A concurrent reader gets one of the names that the netdev had, or nothing.
if [ "$DRIVER" = rxe ] && [ -z "${FAULTS-}" ]; then
	skip "The netdev is renamed and removed while its name is read" "rxe reads the name of what may be gone"
else
	mark "renamed and removed while its name is read"
	check "The netdev is renamed and removed while its name is read" comes_and_goes 8
	check "The readers see each name and nothing else" \
		[ "$(sort -u /tmp/parents1 /tmp/parents2 | xargs)" = "$NETDEV w0 w0-renamed-long w8" ]
	within 5 has_gid "$X" "$IP"
fi

# Every way to remove the device completes in bounded time, whatever its users do.
goes() { # NAME COMMAND
	check "$1: traffic starts" start -s 65536 -m 4096
	check "$1: packets flow" flowing
	mark "$1"
	check "$1" timeout 30 bash -c "$2"
	check "$1: the device is removed" within 20 not has_device "$X"
	check "$1: the ends stop" stop
}

for round in 1 2 3; do
	goes "rdma link del under traffic, $round" "rdma link del $X"
	add w0
	within 5 has_gid "$X" "$IP"
done
for round in 1 2 3; do
	goes "Netdev deleted under traffic, $round" "ip link del w0"
	make_link w0 w1
done

# The core disassociates the device from its users, so an open device does not keep the driver loaded.
goes "Driver unloaded under traffic" "rmmod $(module "$DRIVER")"
check "The driver loads again" load_driver "$DRIVER"
check "The driver creates its devices again" add_device "$DEV" "$DRIVER" "$NETDEV"
ip link del w0

for round in 1 2 3; do
	ip netns add c
	in=(ip netns exec c)
	ip -n c link set lo up
	check "A namespace has a device, $round" make_link c0 c1
	check "The name of its netdev can be read from outside, $round" parent_is c0
	check "Namespace deleted under traffic, $round: traffic starts" start -s 65536 -m 4096
	# Processes keep a namespace alive; it is freed with the last of them.
	ip netns del c
	check "Namespace deleted under traffic, $round: the ends stop" stop
	check "Namespace deleted under traffic, $round: the device is removed" within 20 not has_device "$X"
	in=()
done

# The device goes with an interface that moves to another namespace, and keeps its name and GUID.
guid_is() { [ "$(cat "/sys/class/infiniband/$X/node_guid")" = "$1" ]; }
logged() { dmesg | grep -q "ferroce: $X: $1"; }

# follows NAME COMMAND NAMESPACES: the device has moved so often, and works.
follows() {
	check "$1: traffic starts" start -s 65536 -m 4096
	check "$1: packets flow" flowing
	mark "$1"
	check "$1" timeout 30 bash -c "$2"
	check "$1: the device follows, as the log says" within 20 logged "has followed w0 from network namespace $3\$"
	check "$1: the ends stop" stop
	check "$1: the device has the same GUID" guid_is "$guid"
}

make_link w0 w1
ip netns add d
if [ "$DRIVER" = ferroce ]; then
	guid=$(cat "/sys/class/infiniband/$X/node_guid")
	first=$(stat -L -c %i /proc/self/ns/net)
	other=$(ip netns exec d stat -L -c %i /proc/self/ns/net)
	follows "Netdev moved to another namespace" "ip link set w0 netns d" "$first to $other"
	in=(ip netns exec d)
	ip -n d addr add "$IP/24" dev w0
	ip -n d link set lo up
	ip -n d link set w0 up
	within 10 has_gid "$X" "$IP"
	follows "Netdev moved back" "ip -n d link set w0 netns 1" "$other to $first"
	in=()
	ip link set w0 up
	ip addr add "$IP/24" dev w0
	within 10 has_gid "$X" "$IP"
	check "A device that moved back: traffic starts" start -s 65536 -m 4096
	check "A device that moved back: packets flow" flowing
	check "A device that moved back: the ends stop" stop
	odd="it's"
	rdma dev set "$X" name "$odd"
	ip link set w0 netns d
	# The file "parent" names w0 before the move as well as after it; a rename in between would be undone.
	check "A device with an odd name keeps it" within 20 sh -c 'dmesg | grep -q "it.*s: has followed w0"'
	rdma dev set "$odd" name "a%d"
	ip -n d link set w0 netns 1
	check "A device cannot follow whose name is a format, as the log says" \
		within 20 sh -c 'dmesg | grep -q "removed, as it cannot follow w0"'
	check "It is gone" within 20 not has_device "a%d"
	check "The interface gets another one" rdma link add "$X" type ferroce netdev w0
	for round in {1..20}; do ip link set w0 netns d && ip -n d link set w0 netns 1; done
	check "A device whose netdev goes to and fro is with it in the end" within 20 parent_is w0
	ip link set w0 netns d
	check "The device follows once more" within 20 parent_is w0
	# The driver writes ten lines in five seconds at most.
	sleep 6
	ip netns del d
	check "A namespace that ends takes its device along" within 20 not has_device "$X"
	check "The log says so" within 5 logged "removed, as w0 is removed from network namespace $other\$"
else
	goes "Netdev moved to another namespace" "ip link set w0 netns d"
	ip netns del d
fi

pingpong rc 4 -n 100
check "The driver unloads" bash -c "rdma link del $DEV; rmmod $(module "$DRIVER")"

finish
