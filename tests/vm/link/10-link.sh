# SPDX-License-Identifier: GPL-2.0
#
# The life cycle of a device: created, refused, renamed, removed with its netdev, its namespace and its driver.
#
#	v0 ------ v1     carries the device of the set-up
#	w0 ------ w1     the devices of this test are created and deleted on w0
#	c0 ------ c1     in namespace c, where an application holds port 4791
#
# vm: TOPOLOGY=single KERNEL=umdebug

. "$VM_LIB"

X=${DEV}x

add() { rdma link add "$1" type "$LINK_TYPE" netdev "$2"; }

# logged TEXT: true if the kernel log contains the text since the last mark.
logged() { dmesg | tac | sed '/ferroce-test:/q' | grep -q "$1"; }

make_veth w0 w1
ip addr add 10.0.9.1/24 dev w0

check "rdma link add creates a device" add "$X" w0
check "The new device is active" within 5 port_is "$X" ACTIVE
check "rdma link shows its netdev" [ "$(netdev_of "$X")" = w0 ]
check "User space opens the device" ibv_devinfo -d "$X"
check_fails "A second device of the same name is refused" add "$X" w1
check_fails "A second device on the same netdev is refused" add "${X}y" w0
check "The refused device does not exist" not has_device "${X}y"
mark "no such netdev"
check_fails "A netdev that does not exist is refused" add "${X}y" nosuch0
check "rdma link del removes the device" rdma link del "$X"
check "The removed device does not exist" not has_device "$X"
check "The name can be used again" add "$X" w0

ip link set w0 down
check "The port is down when the netdev is down" within 5 port_is "$X" DOWN
ip link set w0 up
check "The port is active when the netdev is up again" within 5 port_is "$X" ACTIVE

timeout 60 stdbuf -oL ibv_asyncwatch -d "$X" >/tmp/events 2>&1 &
watcher=$!
within 20 grep -q . /tmp/events
ip link set w0 down
within 5 port_is "$X" DOWN
ip link set w0 up
check "An open device receives IBV_EVENT_PORT_ERR" within 5 grep -qi 'port error\|PORT_ERR' /tmp/events
check "An open device receives IBV_EVENT_PORT_ACTIVE" within 5 grep -qi 'port active\|PORT_ACTIVE' /tmp/events
kill "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null

for pair in 1500:1024 9000:4096 4200:4096 2200:2048 640:512 400:256; do
	ip link set w0 mtu "${pair%:*}"
	check "Netdev MTU ${pair%:*} gives active_mtu ${pair#*:}" within 5 attribute_is "$X" active_mtu "^${pair#*:}"
done
ip link set w0 mtu "$MTU"

ip addr add 10.0.9.77/24 dev w0
check "An address becomes a GID" within 5 has_gid "$X" 10.0.9.77
ip addr del 10.0.9.77/24 dev w0
check "The GID disappears with the address" within 5 not has_gid "$X" 10.0.9.77

ip link set w0 down
ip link set w0 name w9
ip link set w9 up
check "A renamed netdev keeps its device" within 5 port_is "$X" ACTIVE
check "The device shows the new name" [ "$(netdev_of "$X")" = w9 ]

ip link del w9
check "The device is removed with its netdev" within 10 not has_device "$X"

# The first socket bound to port 4791 owns it.
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
check_fails "A device is refused where an application holds port 4791" \
	ip netns exec c rdma link add "$X" type "$LINK_TYPE" netdev c0
if [ "$DRIVER" = ferroce ]; then
	check "The kernel log names the port" logged 4791
fi
check "The failed attempt leaves no device" not has_device "$X"
kill "$holder"
wait "$holder" 2>/dev/null
check "A device is accepted once the port is free" ip netns exec c rdma link add "$X" type "$LINK_TYPE" netdev c0
check "The device is active in its namespace" within 5 port_is "$X" ACTIVE
ip netns del c
check "The device is removed with its namespace" within 20 not has_device "$X"

# Unload the driver while a device exists.
check "The driver unloads with a device present" unload "$DRIVER"
check "Its device is removed" not has_device "$DEV"
load_driver "$DRIVER"
check "The driver loads again and creates the device" add_device "$DEV" "$DRIVER" "$NETDEV"
check "The device is active" within 5 port_is "$DEV" ACTIVE
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
	check_fails "A process cannot send a datagram to the port" datagram
	check_fails "A process cannot send one with IPv6 options either" datagram_with_options 4791
	check "The same datagram to another port is sent" datagram_with_options 4792
fi
rdma link del "$DEV"
check "A process can send one when no device exists" within 5 datagram
unload "$DRIVER"

# `rdma link add` alone must load the module through its alias rdma-link-TYPE.
if [ "$DRIVER" = ferroce ]; then
	install_driver
fi
check "rdma link add loads the module by its alias" add "$DEV" "$NETDEV"
check "The device is active after the load by alias" within 5 port_is "$DEV" ACTIVE

finish
