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

# Changes a byte of the first packet of each super-packet, behind the UDP header, BTH and RETH. Only a receiver that
# checks the ICRC notices.
damage() {
	nft add table inet t
	nft add chain inet t in '{ type filter hook input priority 0; }'
	nft add rule inet t in udp dport 4791 meta length '>' 5000 @th,320,8 set 0x5a
}
if damage; then
	grows "The driver does not check the ICRC of local packets" "-eq 0" "$DEV" rx_bad_icrc write
	nft delete table inet t
	rmmod ferroce
	VERIFY_ICRC=1
	set_up_device
	set_up_peer
	grows "With verify_icrc=1, super-packets arrive" "-gt 0" "$DEV" rcvd_bursts checked 4
	damage
	grows "With verify_icrc=1, the driver checks the ICRC of super-packets" "-gt 0" "$DEV" rx_bad_icrc \
		eval "timeout 90 ib_write_bw -d $DEV -x $GID4 -F -s 65536 -n 50 >/dev/null 2>&1 &
		await_listener 18515
		! at_peer timeout 60 ib_write_bw -d $PEER_DEV -x $PEER_GID4 -F -s 65536 -n 50 $ADDR; wait"
else
	skip "With verify_icrc=1, the driver checks the ICRC of super-packets" "nftables cannot change packets here"
fi
nft delete table inet t 2>/dev/null

finish
