# SPDX-License-Identifier: GPL-2.0
#
# Addresses and routes other than the default: link-local, a second address, VLANs, a route, loopback, a firewall,
# IPsec.
#
#	v0 [DEV] ------ v1 [PEER_DEV]         v1 is in namespace b
#	v0.5     ------ v1.5                  VLAN 5 on top; its addresses are GIDs of the same devices
#	lo [X]                                in namespace c: the loopback device itself
#
# vm: TOPOLOGY=netns VM_TIMEOUT=1200 KERNEL=umdebug

. "$VM_LIB"

# over NAME ADDRESS PEER_ADDRESS: traffic between the GIDs of two addresses.
over() {
	local name=$1
	GID4=$(gid_index "$DEV" "$2") PEER_GID4=$(gid_index "$PEER_DEV" "$3")
	note "$name: GIDs $GID4 and $PEER_GID4"
	check "$name: both addresses are GIDs" [ -n "$GID4" -a -n "$PEER_GID4" ]
	pingpong rc 4 -n 50 -s 10000
	REVERSE=1 pingpong rc 4 -n 50 -s 10000
}

# New addresses must pass duplicate address detection: until then a neighbour does not answer.
settled() { has_link_local v0 && has_link_local v1 at_peer; }
has_link_local() { # NETDEV [COMMAND...]
	local found
	found=$("${@:2}" ip -6 addr show dev "$1" scope link)
	[[ $found == *fe80* && $found != *tentative* ]]
}
within 30 settled

# Index 0 is the link-local address derived from the MAC address.
GID4=0 PEER_GID4=0 pingpong rc 4 -n 50 -s 10000

ip addr add 10.0.7.1/24 dev v0
at_peer ip addr add 10.0.7.2/24 dev v1
over "second address" 10.0.7.1 10.0.7.2

if modprobe 8021q 2>/dev/null; then
	ip link add link v0 name v0.5 type vlan id 5
	at_peer ip link add link v1 name v1.5 type vlan id 5
	ip addr add 10.0.5.1/24 dev v0.5
	at_peer ip addr add 10.0.5.2/24 dev v1.5
	ip link set v0.5 up
	at_peer ip link set v1.5 up
	over "VLAN" 10.0.5.1 10.0.5.2
	ip link del v0.5
	check "The VLAN's GID disappears with the VLAN" within 5 not has_gid "$DEV" 10.0.5.1
	at_peer ip link del v1.5
else
	skip "VLAN" "this kernel has no 8021q"
fi

# Addresses of two subnets, connected by a route.
ip addr add 10.0.21.1/32 dev v0
at_peer ip addr add 10.0.22.1/32 dev v1
ip route add 10.0.22.1 via 10.0.0.2 src 10.0.21.1
at_peer ip route add 10.0.21.1 via 10.0.0.1 src 10.0.22.1
over "routed" 10.0.21.1 10.0.22.1

# gives_up NAME GID PEER_GID: no packet or no response arrives, and the client reports that its retries are exhausted.
gives_up() {
	local server
	timeout 60 ibv_rc_pingpong -d "$DEV" -g "$2" -n 50 >/tmp/server 2>&1 &
	server=$!
	await_listener 18515
	ip netns exec b timeout 60 ibv_rc_pingpong -d "$PEER_DEV" -g "$3" -n 50 "$ADDR" >/tmp/client 2>&1
	check "$1" grep 'transport retry counter exceeded (12)' /tmp/client
	# The server would poll until its timeout: it receives no notification.
	kill "$server"
	wait "$server"
}

# A firewall that drops our packets has the effect of a cut wire.
GID4=$(gid_index "$DEV" "$ADDR") PEER_GID4=$(gid_index "$PEER_DEV" "$PEER_ADDR")
if nft add table inet t 2>/dev/null; then
	nft add chain inet t out '{ type filter hook output priority 0; }'
	nft add rule inet t out udp dport 4791 counter
	pingpong rc 4 -n 50
	check "The firewall counts the packets" bash -c "nft list table inet t | grep -q 'packets [1-9]'"
	if [ "$DRIVER" = ferroce ]; then
		nft add rule inet t out udp dport 4791 drop
		gives_up "A connection fails when all packets are dropped" "$GID4" "$PEER_GID4"
		nft delete table inet t
		pingpong rc 4 -n 50
	else
		skip "A connection fails when all packets are dropped" "for rxe a packet that cannot be sent is fatal"
		nft delete table inet t
	fi
else
	skip "firewall" "no nftables"
fi

# Packets that an IPsec policy blocks are not sent: by address family, and by port.
blocks() { at_peer ip xfrm policy "$1" src "$3" dst "$2" proto udp dport 4791 dir out ${4-}; }
if [ "$DRIVER" = ferroce ] && blocks add "$ADDR" "$PEER_ADDR" 'action block'; then
	blocks add "$ADDR6" "$PEER_ADDR6" 'action block'
	gives_up "An IPsec policy blocks IPv4" "$GID4" "$PEER_GID4"
	gives_up "An IPsec policy blocks IPv6" "$GID6" "$PEER_GID6"
	blocks delete "$ADDR" "$PEER_ADDR"
	blocks delete "$ADDR6" "$PEER_ADDR6"
	pingpong rc 4 -n 50
	pingpong rc 6 -n 50
else
	skip "IPsec" "this kernel has none, or it does not check the ports (rdma_rxe)"
fi

# A datagram that IPsec encrypts is not a datagram to port 4791, whatever value is at the offset of the port.
enciphered() { # ADDRESS PEER
	local -a tunnel=(src "$1" dst "$2" proto esp spi 4791 mode transport)
	local key=0x000102030405060708090a0b0c0d0e0f10111213
	ip xfrm state add "${tunnel[@]}" aead 'rfc4106(gcm(aes))' "$key" 128 &&
		ip xfrm policy add src "$1" dst "$2" proto udp dport 4792 dir out tmpl "${tunnel[@]}"
}
if enciphered "$ADDR" "$PEER_ADDR" && enciphered "$ADDR6" "$PEER_ADDR6"; then
	for to in "$PEER_ADDR" "$PEER_ADDR6"; do
		check "A process sends a datagram to $to through IPsec" bash -c "echo something >/dev/udp/$to/4792"
	done
	sent=$(ip -s xfrm state | grep -c '^[[:space:]]*[1-9][0-9]*(bytes), [1-9][0-9]*(packets)')
	check "IPsec encrypted both datagrams" [ "$sent" = 2 ]
	ip xfrm policy flush
	ip xfrm state flush
else
	skip "A process sends datagrams through IPsec" "no ESP in this kernel"
	ip xfrm state flush || true
fi

# The loopback device is a netdev like any other.
X=${DEV}x
ip netns add c
ip -n c link set lo up
check "The loopback device carries a device" add_device "$X" "$DRIVER" lo c
gid=$(gid_index "$X" 127.0.0.1)
check "The loopback address is a GID" [ -n "$gid" ]
ip netns exec c timeout 60 ibv_rc_pingpong -d "$X" -g "$gid" -c -n 50 -s 10000 >/tmp/server 2>&1 &
server=$!
within 30 bash -c "[ -n \"\$(ip netns exec c ss -Hltn 'sport = :18515')\" ]"
check "lo carries its traffic" ip netns exec c timeout 60 ibv_rc_pingpong -d "$X" -g "$gid" -c -n 50 -s 10000 127.0.0.1
wait "$server"
ip netns del c
check "The device is removed with its namespace" within 20 not has_device "$X"

finish
