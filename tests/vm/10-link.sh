# SPDX-License-Identifier: GPL-2.0
#
# The life of a device: made, refused, renamed, moved with its netdev, removed with its driver.
#
#	v0 ------ v1     the device of the set-up is on v0
#	w0 ------ w1     the devices of this test come and go on w0
#	c0 ------ c1     in namespace c, whose port 4791 an application has
#
# vm: TOPOLOGY=single

. "$VM_LIB"

X=${DEV}x

add() { rdma link add "$1" type "$DRIVER" netdev "$2"; }

# logged TEXT: the kernel log has said so since the last mark.
logged() { dmesg | tac | sed '/ferroce-test:/q' | grep -q "$1"; }

make_veth w0 w1
ip addr add 10.0.9.1/24 dev w0

check "rdma link add makes a device" add "$X" w0
check "it is active" within 5 port_is "$X" ACTIVE
check "rdma link tells its netdev" [ "$(netdev_of "$X")" = w0 ]
check "user space opens it" ibv_devinfo -d "$X"
check_fails "a second device of the same name is refused" add "$X" w1
check_fails "a second device on the same netdev is refused" add "${X}y" w0
check "and is not there" not has_device "${X}y"
mark "no such netdev"
check_fails "a netdev that does not exist is refused" add "${X}y" nosuch0
check "rdma link del removes the device" rdma link del "$X"
check "and it is gone" not has_device "$X"
check "the same name can be had again" add "$X" w0

ip link set w0 down
check "netdev down: the port is down" within 5 port_is "$X" DOWN
ip link set w0 up
check "netdev up: the port is active again" within 5 port_is "$X" ACTIVE

timeout 60 stdbuf -oL ibv_asyncwatch -d "$X" >/tmp/events 2>&1 &
watcher=$!
within 20 grep -q . /tmp/events
ip link set w0 down
within 5 port_is "$X" DOWN
ip link set w0 up
check "an open device gets IBV_EVENT_PORT_ERR" within 5 grep -qi 'port error\|PORT_ERR' /tmp/events
check "and IBV_EVENT_PORT_ACTIVE" within 5 grep -qi 'port active\|PORT_ACTIVE' /tmp/events
kill "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null

for pair in 1500:1024 9000:4096 4200:4096 2200:2048 640:512 400:256; do
	ip link set w0 mtu "${pair%:*}"
	check "netdev MTU ${pair%:*}: active_mtu is ${pair#*:}" within 5 attribute_is "$X" active_mtu "^${pair#*:}"
done
ip link set w0 mtu "$MTU"

ip addr add 10.0.9.77/24 dev w0
check "an address becomes a GID" within 5 has_gid "$X" 10.0.9.77
ip addr del 10.0.9.77/24 dev w0
check "the GID goes with the address" within 5 not has_gid "$X" 10.0.9.77

ip link set w0 down
ip link set w0 name w9
ip link set w9 up
check "a renamed netdev keeps its device" within 5 port_is "$X" ACTIVE
check "which tells the new name" [ "$(netdev_of "$X")" = w9 ]

ip link del w9
check "the device goes with its netdev" within 10 not has_device "$X"

# Port 4791 belongs to whoever had it first.
ip netns add c
ip -n c link add c0 type veth peer name c1
ip -n c addr add 10.0.8.1/24 dev c0
ip -n c link set c0 up
ip -n c link set c1 up
ip netns exec c python3 -c '
import socket, time
taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
taken.bind(("0.0.0.0", 4791))
time.sleep(60)' &
holder=$!
within 30 bash -c '[ -n "$(ip netns exec c ss -Huln "sport = :4791")" ]'
mark "port taken"
check_fails "port 4791 taken by an application: refused" \
	ip netns exec c rdma link add "$X" type "$DRIVER" netdev c0
if [ "$DRIVER" = ferroce ]; then
	check "the kernel log says that it is the port" logged 4791
fi
check "nothing is left of the attempt" not has_device "$X"
kill "$holder"
wait "$holder" 2>/dev/null
check "once the port is free: accepted" ip netns exec c rdma link add "$X" type "$DRIVER" netdev c0
check "active in its namespace" within 5 port_is "$X" ACTIVE
ip netns del c
check "the device goes with its namespace" within 20 not has_device "$X"

# The driver goes while devices are there.
check "the driver is unloaded with a device present" unload "$DRIVER"
check "its device is gone" not has_device "$DEV"
load_driver "$DRIVER"
check "loaded again, it makes the device again" add_device "$DEV" "$DRIVER" "$NETDEV"
check "which is active" within 5 port_is "$DEV" ACTIVE
datagram() { bash -c 'echo something >/dev/udp/127.0.0.1/4791'; }
datagram_with_options() { # PORT
	python3 - "$1" <<-'END'
		import socket, sys
		out = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
		out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, bytes((0, 0, 1, 4, 0, 0, 0, 0)))
		out.sendto(b"something", ("::1", int(sys.argv[1])))
	END
}
if [ "$DRIVER" = ferroce ]; then
	check_fails "a process sends no datagram to the port" datagram
	check_fails "nor one with options of IPv6" datagram_with_options 4791
	check "which it may send to other ports" datagram_with_options 4792
fi
rdma link del "$DEV"
check "without a device it may" within 5 datagram
unload "$DRIVER"

# `rdma link add` alone must find the module: the alias rdma-link-TYPE.
if [ "$DRIVER" = ferroce ]; then
	mkdir -p "/lib/modules/$(uname -r)/extra"
	cp "$KO" "/lib/modules/$(uname -r)/extra/"
	depmod -a
fi
check "rdma link add loads the module by its alias" add "$DEV" "$NETDEV"
check "and the device is active" within 5 port_is "$DEV" ACTIVE

finish
