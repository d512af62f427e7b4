# SPDX-License-Identifier: GPL-2.0
#
# Super-packets that arrive as they were sent: the driver receives them whole, but not past a firewall, and checks their
# ICRC when it must.
#
#	v0 [DEV] ------ v1 [PEER_DEV]  v1 is in namespace b
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

if [ "$DRIVER" != ferroce ]; then
	skip "Super-packets" "$DRIVER has none"
	finish
fi

write() { perftest ib_write_bw -s 65536 -n 50; }
read_() { perftest ib_read_bw -s 65536 -n 50; }
unreliable() { perftest ib_write_bw -c UC -s 65536 -n 50; }
checked() { pingpong rc "$1" -s 60000 -n 50; }

# The server runs at this end.
grows "The payload of WRITEs arrives in super-packets" "-gt 0" "$DEV" rcvd_bursts write
grows "The payload of READ responses arrives in super-packets" "-gt 0" "$PEER_DEV" rcvd_bursts read_
grows "The payload of UC arrives in super-packets" "-gt 0" "$DEV" rcvd_bursts unreliable
grows "Every byte of super-packets is correct" "-gt 0" "$DEV" rcvd_bursts checked 4
grows "Every byte of super-packets over IPv6 is correct" "-gt 0" "$DEV" rcvd_bursts checked 6

cd "${VM_LIB%/*}" || exit
python_tests answers.py

# A netdev that does not take super-packets unsplit delivers the same packets one by one.
takes_super_packets() { # on|off
	at_peer ethtool -K "$PEER_NETDEV" tx-gso-list "$1" tx-udp_tnl-segmentation "$1"
}

if takes_super_packets off 2>/dev/null; then
	grows "A netdev splits super-packets that it does not support" "-eq 0" "$DEV" rcvd_bursts checked 4
	grows "A netdev splits super-packets that it does not support over IPv6" "-eq 0" "$DEV" rcvd_bursts checked 6
	grows "The ICRC of split super-packets is correct" "-eq 0" "$DEV" rx_bad_icrc write
	grows "Split super-packets of READ responses arrive" "-gt 0" "$PEER_DEV" rcvd_pkts read_
	takes_super_packets on
else
	skip "A netdev splits super-packets that it does not support" "no ethtool"
fi

if ! nft add table inet t 2>/dev/null; then
	skip "A firewall" "no nftables"
	finish
fi
nft add chain inet t in '{ type filter hook input priority 0; }'
nft add rule inet t in udp dport 4791 counter
grows "Super-packets pass a firewall" "-gt 0" "$DEV" rcvd_bursts checked 4
check "The firewall counts the super-packets" bash -c "nft list table inet t | grep -q 'packets [1-9]'"
nft flush chain inet t in
# Drop only the super-packets, which are long, so that the connection set-up succeeds.
nft add rule inet t in udp dport 4791 meta length '>' 5000 counter drop
sleep 0.1
before=$(counter "$DEV" rcvd_bursts)
timeout 90 ib_write_bw -d "$DEV" -x "$GID4" -F -s 65536 -n 50 >/dev/null 2>&1 &
server=$!
await_listener 18515
check "Where super-packets are dropped, single packets arrive" \
	at_peer timeout 60 ib_write_bw -d "$PEER_DEV" -x "$PEER_GID4" -F -s 65536 -n 50 "$ADDR"
wait "$server"
check "No super-packet passes the firewall" [ "$(counter "$DEV" rcvd_bursts)" = "$before" ]
check "The firewall counts the dropped super-packets" bash -c "nft list table inet t | grep -q 'packets [1-9]'"
nft delete table inet t
grows "Super-packets arrive again without the firewall" "-gt 0" "$DEV" rcvd_bursts checked 4

# Behind the first WRITE of 64 bytes of a super-packet is the size of the second: 8 + 12 + 16 + 64 bytes behind the IP
# header. Without it the rest cannot be read. What is repeated after a timeout is shorter.
nft add table inet t
nft add chain inet t in '{ type filter hook input priority 0; }'
if nft add rule inet t in udp dport 4791 meta length '>' 600 @th,800,16 set 0; then
	grows "Packets behind a malformed entry are counted as dropped" "-gt 1" "$DEV" rx_too_short \
		perftest ib_write_bw -s 64 -l 32 -n 320
else
	skip "Packets behind a malformed entry are counted as dropped" "nftables cannot change packets here"
fi
nft delete table inet t

# damage LENGTH: changes a byte behind the UDP header, BTH and RETH of each buffer that is longer. Only a receiver that
# checks the ICRC notices.
damage() {
	nft add table inet t
	nft add chain inet t in '{ type filter hook input priority 0; }'
	nft add rule inet t in udp dport 4791 meta length '>' "$1" @th,320,8 set 0x5a
}
if damage 5000; then
	grows "The driver does not check the ICRC of local packets" "-eq 0" "$DEV" rx_bad_icrc write
	nft delete table inet t
	rmmod ferroce
	VERIFY_ICRC=1
	set_up_device
	set_up_peer
	grows "With verify_icrc=1, packets arrive one by one" "-eq 0" "$DEV" rcvd_bursts checked 4
	# Here the driver splits, and the stack puts each packet in one piece.
	if at_peer ethtool -K "$PEER_NETDEV" tx-scatter-gather off &>/dev/null; then
		grows "Packets for a netdev without scatter-gather are correct" "-eq 0" "$DEV" rx_bad_icrc checked 4
		at_peer ethtool -K "$PEER_NETDEV" tx-scatter-gather on >/dev/null
	else
		skip "Packets for a netdev without scatter-gather are correct" "no ethtool"
	fi
	damage 1000
	grows "With verify_icrc=1, the driver checks the ICRC of local packets" "-gt 0" "$DEV" rx_bad_icrc \
		eval "timeout 90 ib_write_bw -d $DEV -x $GID4 -F -s 65536 -n 50 >/dev/null 2>&1 &
		await_listener 18515
		! at_peer timeout 60 ib_write_bw -d $PEER_DEV -x $PEER_GID4 -F -s 65536 -n 50 $ADDR; wait"
else
	skip "With verify_icrc=1, the driver checks the ICRC of local packets" "nftables cannot change packets here"
fi
nft delete table inet t 2>/dev/null

finish
