# SPDX-License-Identifier: GPL-2.0
#
# Devices on stacked netdevs: a bond whose active link fails under traffic, a bridge, VLANs on top of both. Also two
# machines with the same MAC address, and the smallest sufficient MTU.
#
#	bond0 [frb] = { x0, y0 } ------ { x1, y1 } = br0 [frc]     br0 is in namespace b
#	v0 [DEV] ------ v1 [PEER_DEV]                               v1, too
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

stacked() {
	modprobe -a bonding bridge 8021q 2>/dev/null
	ip link add bond0 type bond mode active-backup miimon 20 && ip -n b link add br0 type bridge || return 1
	for name in x y; do
		make_veth ${name}0 ${name}1
		ip link set ${name}1 netns b
		ip link set ${name}0 down
		ip link set ${name}0 master bond0
		ip -n b link set ${name}1 mtu "$MTU" master br0 up
	done
	address bond0 10.1.0.1 fd00::11
	address br0 10.1.0.2 fd00::12 b
	ip link add link bond0 name bond0.5 type vlan id 5
	ip -n b link add link br0 name br0.5 type vlan id 5
	address bond0.5 10.5.0.1 fd00::51
	address br0.5 10.5.0.2 fd00::52 b
}

# Runs a command with the addresses of both ends set to those given: those of the netdevs, or of the VLANs above.
over() { # IPV4 IPV4 COMMAND...
	local DEV=frb PEER_DEV=frc ADDR=$1 PEER_ADDR=$2 GID4 PEER_GID4
	GID4=$(gid_index frb "$1")
	PEER_GID4=$(gid_index frc "$2")
	"${@:3}"
}

# goes NETDEV: takes the active link down after it received another million bytes. GIDs disappear and return with the
# link, so a program that is still starting would not find its GID.
goes() {
	carried "$1" $(($(<"/sys/class/net/$1/statistics/rx_bytes") + 1000000))
	ip link set "$1" down
}
# settled_gids: when the active link changes, the core removes the GIDs of the bond and adds them again. It handles all
# address changes in order, so once a new address has a GID this is complete.
settled_gids() {
	ip addr add 10.1.0.77/24 dev bond0
	gid_index frb 10.1.0.77 >/dev/null
	ip addr del 10.1.0.77/24 dev bond0
}
carried() { within 60 eval '[ "$(</sys/class/net/'"$1"'/statistics/rx_bytes)" -gt '"$2"' ]'; }

same_address() {
	at_peer ip link set "$PEER_NETDEV" address "$(<"/sys/class/net/$NETDEV/address")"
	pingpong rc 4 -n 100
	pingpong ud 4 -n 20
}

# Adapters and the core leave room for headers of 96 bytes (iboe_get_mtu()). A WRITE with immediate data over IPv6 has
# the longest ones: 84 bytes with the ICRC.
exact_mtu() {
	ip link set "$NETDEV" mtu 2144
	at_peer ip link set "$PEER_NETDEV" mtu 2144
	check "An MTU of 2144 carries packets of 2048" within 5 attribute_is "$DEV" active_mtu '^2048'
	local write="ib_write_bw -d \$dev -x \$gid6 -F --write_with_imm -m 2048 -s 2048 -n 200"
	traffic "of the longest headers" 18515 "$write" "$write \$to"
	ip link set "$NETDEV" mtu 2143
	check "An MTU of 2143 does not carry packets of 2048" within 5 attribute_is "$DEV" active_mtu '^1024'
	ip link set "$NETDEV" mtu "$MTU"
	at_peer ip link set "$PEER_NETDEV" mtu "$MTU"
}

if stacked; then
	check "A bond carries a device" add_device frb "$DRIVER" bond0
	check "A bridge carries a device" add_device frc "$PEER_DRIVER" br0 b
	check "Both devices are active" within 5 eval 'port_is frb ACTIVE && port_is frc ACTIVE'
	over 10.1.0.1 10.1.0.2 pingpong rc 4 -n 100 -m 4096 -s 65536
	over 10.1.0.1 10.1.0.2 pingpong ud 4 -n 20
	over 10.5.0.1 10.5.0.2 pingpong rc 4 -n 100
	check "x0 is the active link" grep -q 'Active Slave: x0' /proc/net/bonding/bond0
	before=$(</sys/class/net/y0/statistics/rx_bytes)
	# The link may be down for longer than the default eight tries of perftest, 1.8 s: -u 17 is 14 s.
	goes x0 &
	goer=$!
	over 10.1.0.1 10.1.0.2 perftest ib_send_bw -D 6 -s 16384 -u 17
	wait "$goer"
	check "Traffic continues over the other link" carried y0 $((before + 1000000))
	ip link set x0 up
	sleep 1
	goes y0 &
	goer=$!
	over 10.5.0.1 10.5.0.2 perftest ib_write_bw -D 6 -s 16384 -u 17
	wait "$goer"
	check "The first link takes over again" within 20 grep -q 'Active Slave: x0' /proc/net/bonding/bond0
	check "The device is still active" port_is frb ACTIVE
	ip link set x0 down
	check "The device is down without any link" within 20 port_is frb DOWN
	ip link set x0 up
	check "The device is active again with a link" within 20 port_is frb ACTIVE
	settled_gids
	over 10.1.0.1 10.1.0.2 pingpong rc 4 -n 100
	ip link del bond0
	check "The device is removed with the bond" within 30 not has_device frb
	ip -n b link del br0
	check "The device is removed with the bridge" within 30 not has_device frc
else
	skip "Devices on a bond and a bridge" "this kernel has no bonding or no bridge"
fi
same_address
if [ "$DRIVER" = ferroce ]; then
	exact_mtu
else
	skip "The longest headers" "rxe: counts four bytes too few"
fi
finish
