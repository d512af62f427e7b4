# SPDX-License-Identifier: GPL-2.0
#
# Something on the way drops buffers of several packets, as an MPLS or SRv6 tunnel of a router does, and what polices by
# bytes. Both ends notice, and send packets one by one from then on: a connection loses time twice, not for each burst.
#
#	v0 [DEV] ------ v1 [PEER_DEV]  v1 is in namespace b; a firewall in front of each drops what is long
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

if [ "$DRIVER" != ferroce ]; then
	skip "Packets one by one" "$DRIVER sends no others"
	finish
fi

drops_long() {
	"$@" nft add table inet t &&
		"$@" nft add chain inet t in '{ type filter hook input priority 0; }' &&
		"$@" nft add rule inet t in udp dport 4791 meta length '>' "$LONGEST" counter drop
}

# A packet of 4096 bytes of payload passes, two do not.
LONGEST=4400
if ! { drops_long && drops_long at_peer; } 2>/dev/null; then
	skip "Packets one by one" "no nftables"
	finish
fi

# Each way costs at most two ACK timeouts, whatever the length of the stream. These are long (-u 17: 0.5 s), so that a
# processor that others use causes none.
few() { grows "$1: few timeouts" "-le 3" "$PEER_DEV" ack_timeouts "${@:2}" -u 17; }

few "Long WRITEs" perftest ib_write_bw -s 65536 -n 100
few "Long SENDs" perftest ib_send_bw -s 65536 -n 100
few "Lists of short WRITEs" perftest ib_write_bw -s 2048 -l 16 -n 320
few "Long READs" perftest ib_read_bw -s 65536 -n 100
few "READs one after the other" perftest ib_read_bw -s 65536 -t 1 -n 100
check "The firewalls dropped long buffers" eval "nft list table inet t | grep -q 'packets [1-9]'"
check "Also those of the responses" eval "at_peer nft list table inet t | grep -q 'packets [1-9]'"
nft delete table inet t
at_peer nft delete table inet t

# A single packet without an ICRC has the size of its entry in that place: here a WRITE of 64 bytes, or an ACK.
drops_single() { # RULE [COMMAND...]
	"${@:2}" nft add table inet t
	"${@:2}" nft add chain inet t in '{ type filter hook input priority 0; }'
	"${@:2}" nft add rule inet t in udp dport 4791 "$1" counter drop
}
drops_single '@th,800,32 0x005c0001'
few "Short WRITEs" perftest ib_write_bw -s 64 -n 1000
check "The firewall dropped packets without an ICRC" eval "nft list table inet t | grep -q 'packets [1-9]'"
nft delete table inet t
drops_single '@th,192,32 0x00100001' at_peer
few "Their ACKs" perftest ib_write_bw -s 64 -n 1000
check "The firewall dropped ACKs without an ICRC" eval "at_peer nft list table inet t | grep -q 'packets [1-9]'"
at_peer nft delete table inet t

grows "Where such buffers pass, they are sent" "-gt 0" "$DEV" rcvd_bursts perftest ib_write_bw -s 65536 -n 50
finish
