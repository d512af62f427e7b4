# SPDX-License-Identifier: GPL-2.0
#
# ibv_rc_pingpong with every byte validated: sizes, path MTUs, events, both address families.
#
#	single   v0 [DEV] ------ v1             the device talks to itself
#	netns    v0 [DEV] ------ v1 [PEER_DEV]  v1 is in namespace b
#
# vm: TOPOLOGY=single KERNEL=umdebug
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

# One iteration is one message in each direction.
FEW="-n 20"

pingpong rc 4 -n 1000
pingpong rc 6 -n 1000

# One byte, sizes around one packet, many packets, and the largest size, 1 MiB.
for size in 1 3 1023 1024 1025 65536 1048576; do
	pingpong rc 4 $FEW -m 1024 -s "$size"
done
# Path MTUs, with a partial last packet.
for mtu in 256 512 1024 2048 4096; do
	pingpong rc 4 $FEW -m "$mtu" -s 10001
	pingpong rc 6 $FEW -m "$mtu" -s 10001
done
# Completion events instead of polling.
pingpong rc 4 -e -n 100
pingpong rc 6 -e $FEW -s 65536 -m 4096
# Few posted receives, so that the sender runs into RNR NAKs.
pingpong rc 4 $FEW -r 2 -s 4096
# All of this works without the protocol of the connection manager, with the old and with the new post calls.
pingpong rc 4 $FEW -N
if [ "$TOPOLOGY" = netns ]; then
	REVERSE=1
	pingpong rc 4 -n 100
	pingpong rc 6 -n 100
fi

finish
