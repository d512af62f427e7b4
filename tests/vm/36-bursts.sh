# SPDX-License-Identifier: GPL-2.0
#
# Bursts that come in as they were sent: taken whole, but not past a firewall; their ICRC is checked when it
# has to be.
#
#	v0 [DEV] ------ v1 [PEER_DEV]  v1 is in namespace b
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

if [ "$DRIVER" != ferroce ]; then
	skip "bursts" "$DRIVER has none"
	finish
fi

# counter DEVICE NAME
counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }

# moved DEVICE NAME COMMAND...: how far the counter went while the command ran, which must succeed.
moved() {
	local device=$1 name=$2 before
	shift 2
	before=$(counter "$device" "$name")
	"$@" >/dev/null || return
	echo $(($(counter "$device" "$name") - before))
}

# grows NAME WHAT DEVICE COUNTER COMMAND...: WHAT the counter must do while the command runs, -gt 0 or -eq 0.
grows() {
	local name=$1 what=$2 count
	shift 2
	if count=$(moved "$@") && [ "$count" $what ]; then
		ok "$name"
	else
		note "$2 of $1 went by '$count', not $what"
		not_ok "$name"
	fi
}

write() { perftest ib_write_bw -s 65536 -n 50; }
read_() { perftest ib_read_bw -s 65536 -n 50; }
unreliable() { perftest ib_write_bw -c UC -s 65536 -n 50; }
checked() { pingpong rc "$1" -s 60000 -n 50; }

# The server is at our end.
grows "what is written comes in bursts" "-gt 0" "$DEV" rcvd_bursts write
grows "so does what is read" "-gt 0" "$PEER_DEV" rcvd_bursts read_
grows "and what is sent over UC" "-gt 0" "$DEV" rcvd_bursts unreliable
grows "every byte is right" "-gt 0" "$DEV" rcvd_bursts checked 4
grows "over IPv6, too" "-gt 0" "$DEV" rcvd_bursts checked 6

cd "${VM_LIB%/*}" || exit
python_tests answers.py

# A netdev that splits them: the packets come one by one, and are the same.
ethtool -K "$PEER_NETDEV" tx-gso-list off 2>/dev/null ||
	at_peer ethtool -K "$PEER_NETDEV" tx-gso-list off 2>/dev/null && split=1
if [ -n "${split-}" ]; then
	grows "a netdev that splits them splits them" "-eq 0" "$DEV" rcvd_bursts checked 4
	grows "and over IPv6" "-eq 0" "$DEV" rcvd_bursts checked 6
	at_peer ethtool -K "$PEER_NETDEV" tx-gso-list on
else
	skip "a netdev that splits them" "no ethtool"
fi

if ! nft add table inet t 2>/dev/null; then
	skip "firewall" "no nftables"
	finish
fi
nft add chain inet t in '{ type filter hook input priority 0; }'
nft add rule inet t in udp dport 4791 counter
grows "a firewall lets them pass" "-gt 0" "$DEV" rcvd_bursts checked 4
check "and has seen them" bash -c "nft list table inet t | grep -q 'packets [1-9]'"
nft flush chain inet t in
# Only the bursts, so that the connection itself is not the one to fail: they are long.
nft add rule inet t in udp dport 4791 meta length '>' 5000 counter drop
sleep 0.1
before=$(counter "$DEV" rcvd_bursts)
timeout 90 ib_write_bw -d "$DEV" -x "$GID4" -F -s 65536 -n 50 >/dev/null 2>&1 &
server=$!
await_listener 18515
check_fails "what a firewall drops does not come in" \
	at_peer timeout 60 ib_write_bw -d "$PEER_DEV" -x "$PEER_GID4" -F -s 65536 -n 50 "$ADDR"
wait "$server"
check "no burst came past it" [ "$(counter "$DEV" rcvd_bursts)" = "$before" ]
check "which has dropped them" bash -c "nft list table inet t | grep -q 'packets [1-9]'"
nft delete table inet t
grows "without it they come again" "-gt 0" "$DEV" rcvd_bursts checked 4

# A byte of the first packet of each burst is changed on its way: behind UDP header and BTH and RETH. Nobody
# notices who does not check.
damage() {
	nft add table inet t
	nft add chain inet t in '{ type filter hook input priority 0; }'
	nft add rule inet t in udp dport 4791 meta length '>' 5000 @th,320,8 set 0x5a
}
if damage; then
	grows "the ICRC of what never left the machine is not checked" "-eq 0" "$DEV" rx_bad_icrc write
	nft delete table inet t
	rmmod ferroce
	VERIFY_ICRC=1
	set_up_device
	set_up_peer
	grows "with verify_icrc=1, bursts come in" "-gt 0" "$DEV" rcvd_bursts checked 4
	damage
	grows "and are checked" "-gt 0" "$DEV" rx_bad_icrc \
		eval "timeout 90 ib_write_bw -d $DEV -x $GID4 -F -s 65536 -n 50 >/dev/null 2>&1 &
		await_listener 18515
		! at_peer timeout 60 ib_write_bw -d $PEER_DEV -x $PEER_GID4 -F -s 65536 -n 50 $ADDR; wait"
else
	skip "verify_icrc" "nftables cannot change packets here"
fi
nft delete table inet t 2>/dev/null

finish
