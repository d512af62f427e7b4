# SPDX-License-Identifier: GPL-2.0
#
# Devices over VXLAN and GENEVE tunnels, over IPv4 and IPv6: GSO lists pass whole or are split in software, with every
# byte in its place.
#
#	t0 [frt] ====== t1 [fru]        t1 is in namespace b
#	v0 [DEV] ------ v1 [PEER_DEV]   v1, too
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

# tunnel TYPE LOCAL REMOTE: creates both ends.
tunnel() {
	local options=(dstport 5000)
	[ "$1" = geneve ] || options+=(local "$2")
	ip link add t0 type "$1" id 7 remote "$3" "${options[@]}" || return 1
	[ "$1" = geneve ] || options=(dstport 5000 local "$3")
	ip -n b link add t1 type "$1" id 7 remote "$2" "${options[@]}" || return 1
	address t0 10.7.0.1 fd00::71
	address t1 10.7.0.2 fd00::72 b
}

through() { # COMMAND...
	local DEV=frt PEER_DEV=fru ADDR=10.7.0.1 PEER_ADDR=10.7.0.2 ADDR6=fd00::71 PEER_ADDR6=fd00::72
	local GID4 PEER_GID4 GID6 PEER_GID6
	GID4=$(gid_index frt "$ADDR") GID6=$(gid_index frt "$ADDR6")
	PEER_GID4=$(gid_index fru "$PEER_ADDR") PEER_GID6=$(gid_index fru "$PEER_ADDR6")
	"$@"
}

damaged() { counter "$1" rx_bad_icrc; }

traffic_through() { # HOW
	note "$1"
	through pingpong rc 4 -n 100 -m 4096 -s 65536
	through pingpong rc 6 -n 100 -m 4096 -s 65536
	through pingpong ud 4 -n 20
	through perftest ib_write_bw -s 65536 -n 200
	through perftest ib_read_bw -s 65536 -n 200
}

# splits ON|OFF: whether the netdevs below the tunnels split GSO lists themselves.
splits() {
	ethtool -K "$NETDEV" tx-gso-list "$1" tx-udp_tnl-segmentation "$1" tx-udp_tnl-csum-segmentation "$1" &&
		at_peer ethtool -K "$PEER_NETDEV" tx-gso-list "$1" tx-udp_tnl-segmentation "$1" \
			tx-udp_tnl-csum-segmentation "$1"
} 2>/dev/null

each() { # TYPE LOCAL REMOTE
	local name="$1 over $2"
	modprobe "$1" 2>/dev/null
	if ! tunnel "$@" 2>/dev/null; then
		skip "$name" "this kernel has no $1"
		return
	fi
	check "A tunnel carries a device: $name" add_device frt "$DRIVER" t0
	check "The other end of the tunnel carries a device" add_device fru "$PEER_DRIVER" t1 b
	check "Both devices are active" within 5 eval 'port_is frt ACTIVE && port_is fru ACTIVE'
	traffic_through "$name"
	if splits off; then
		traffic_through "$name, split by software"
		splits on
	else
		skip "$name, split by software" "the netdev's features are fixed"
	fi
	if [ "$DRIVER" = ferroce ]; then
		check "No packet was damaged" eval '[ "$(damaged frt) $(damaged fru)" = "0 0" ]'
	fi
	ip link del t0
	ip -n b link del t1
	check "The devices are removed with the tunnel" within 30 not eval 'has_device frt || has_device fru'
}

ip link set "$NETDEV" mtu 9000
at_peer ip link set "$PEER_NETDEV" mtu 9000
each vxlan "$ADDR" "$PEER_ADDR"
each vxlan "$ADDR6" "$PEER_ADDR6"
each geneve "$ADDR6" "$PEER_ADDR6"
finish
