# SPDX-License-Identifier: GPL-2.0
#
# Packets that a netdev receives singly: GRO joins them, and they stay the packets that they were. They are checked, and
# split again where they are forwarded.
#
#	v0 [DEV] ------ v1 [PEER_DEV]           v1 is in namespace b, and sends single packets
#	r0 [frx] ------ r1 [frr] q1 ------ q0 [fry]    r1 and q1 are in namespace middle, a router; q0 in b
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

if [ "$DRIVER" != ferroce ]; then
	skip "Joined packets" "$DRIVER joins none"
	finish
fi
if ! at_peer ethtool -K "$PEER_NETDEV" tso off tx-gso-list off tx-udp_tnl-segmentation off 2>/dev/null; then
	skip "Joined packets" "no ethtool"
	finish
fi

write() { perftest ib_write_bw -s 65536 -n 50; }
list() { perftest ib_write_bw -s 64 -l 64 -n 640; }
read_() { REVERSE=1 perftest ib_read_bw -s 65536 -n 50; }
unreliable() { perftest ib_write_bw -c UC -s 65536 -n 50; }
checked() { pingpong rc "$1" -s 60000 -n 50 -m "${2-1024}"; }

# A veth has GRO, and receives by NAPI, only if this is on.
joins() { ethtool -K "$NETDEV" gro "$1" 2>/dev/null; }

grows "Packets arrive singly without GRO" "-eq 0" "$DEV" rcvd_bursts checked 4
joins on
grows "The packets of a WRITE are joined" "-gt 0" "$DEV" rcvd_bursts write
grows "The packets of a list of WRITEs are joined" "-gt 0" "$DEV" rcvd_bursts list
grows "The packets of a READ response are joined" "-gt 0" "$DEV" rcvd_bursts read_
grows "The packets of UC are joined" "-gt 0" "$DEV" rcvd_bursts unreliable
for mtu in 256 1024 4096; do
	grows "Every byte of joined packets of $mtu bytes is correct" "-gt 0" "$DEV" rcvd_bursts checked 4 "$mtu"
done
grows "Every byte of joined packets is correct over IPv6" "-gt 0" "$DEV" rcvd_bursts checked 6
grows "Joined packets are intact" "-eq 0" "$DEV" rx_bad_icrc write
pingpong ud 4 -n 20
cd "${VM_LIB%/*}" || exit
python_tests joined.py

# A firewall sees joined packets as one, and a joined packet that changes on its way is dropped as any other.
if nft add table inet t 2>/dev/null; then
	nft add chain inet t in '{ type filter hook input priority 0; }'
	nft add rule inet t in udp dport 4791 meta length '>' 5000 counter
	checked 4 >/dev/null
	check "A firewall sees joined packets as one" eval "nft list table inet t | grep -q 'packets [1-9]'"
	nft flush chain inet t in
	# Until the first packet is dropped: the connection recovers.
	name="The ICRC of joined packets is checked, and the connection recovers"
	bad=$(counter "$DEV" rx_bad_icrc)
	if nft add rule inet t in udp dport 4791 meta length '>' 5000 @th,320,8 set 0x5a; then
		(within 60 eval '[ "$(counter "$DEV" rx_bad_icrc)" -gt "$bad" ]'; nft delete table inet t) &
		grows "$name" "-gt 0" "$DEV" rx_bad_icrc checked 4
		wait $!
	else
		skip "$name" "nftables cannot change packets here"
	fi
	nft delete table inet t 2>/dev/null
else
	skip "A firewall sees joined packets as one" "no nftables"
fi

# A router joins packets, as it has a device of its own, and sends them on as it received them.
ip netns add middle
make_veth r0 r1
make_veth q0 q1
ip link set r1 netns middle
ip link set q1 netns middle
ip link set q0 netns b
address r0 10.8.1.1 fd08::1
address r1 10.8.1.2 fd08::2 middle
address q1 10.8.2.1 fd09::1 middle
address q0 10.8.2.2 fd09::2 b
ip -n middle link set lo up
ip netns exec middle sysctl -q net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip route add 10.8.2.0/24 via 10.8.1.2
# The GIDs over IPv6.
ip addr add fd00::81/128 dev r0 nodad
ip -n b addr add fd00::82/128 dev q0 nodad
ip route add fd00::82 via fd08::2 src fd00::81
ip -n middle route add fd00::81 via fd08::1
ip -n middle route add fd00::82 via fd09::2
ip -n b route add 10.8.1.0/24 via 10.8.2.1
ip -n b route add fd00::81 via fd09::1 src fd00::82
ethtool -K r0 tso off tx-gso-list off tx-udp_tnl-segmentation off
ip netns exec middle ethtool -K r1 gro on
ip netns exec middle ethtool -K q1 tx-gso-list off
check "A router has a device" add_device frr ferroce r1 middle
check "An end has a device" add_device frx ferroce r0
check "The other end has a device" add_device fry ferroce q0 b
within 5 eval 'port_is frx ACTIVE && port_is fry ACTIVE'
router_nft() { ip netns exec middle nft "$@"; }
seen=
if router_nft add table inet t 2>/dev/null; then
	router_nft add chain inet t through '{ type filter hook forward priority 0; }'
	router_nft add rule inet t through udp dport 4791 meta length '>' 5000 counter
	seen=1
fi
# routed FAMILY SERVER_ADDRESS CLIENT_ADDRESS: the server is at q0, the client at r0.
routed() {
	local server client pid
	server=$(gid_index fry "$2")
	client=$(gid_index frx "$3")
	at_peer timeout 120 ibv_rc_pingpong -d fry -g "$server" -c -s 60000 -n 50 >/tmp/server 2>&1 &
	pid=$!
	REVERSE=1 await_listener 18515
	check "Every byte is correct behind a router that joins packets, IPv$1" \
		timeout 120 ibv_rc_pingpong -d frx -g "$client" -c -s 60000 -n 50 10.8.2.2
	check "The server finds every byte correct, IPv$1" eval "wait $pid && ! grep invalid /tmp/server"
}
routed 4 10.8.2.2 10.8.1.1
routed 6 fd00::82 fd00::81
check "No packet is damaged on its way" [ "$(counter fry rx_bad_icrc)$(counter frx rx_bad_icrc)" = 00 ]
[ -z "$seen" ] || check "The router joined packets" eval "router_nft list table inet t | grep -q 'packets [1-9]'"
finish
