# SPDX-License-Identifier: GPL-2.0
#
# ibv_rc_pingpong, every byte validated: sizes, path MTUs, events, both address families.
#
#	single   v0 [DEV] ------ v1             the device talks to itself
#	netns    v0 [DEV] ------ v1 [PEER_DEV]  v1 is in namespace b
#
# vm: TOPOLOGY=single
# vm: TOPOLOGY=netns

. "$VM_LIB"

# An iteration is a message each way.
FEW="-n 20"

pingpong rc 4 -n 1000
pingpong rc 6 -n 1000

# One byte; around a packet; many packets; the largest is 1 MiB.
for size in 1 3 1023 1024 1025 65536 1048576; do
	pingpong rc 4 $FEW -m 1024 -s "$size"
done
# Path MTUs, with a last packet that is neither empty nor full.
for mtu in 256 512 1024 2048 4096; do
	pingpong rc 4 $FEW -m "$mtu" -s 10001
	pingpong rc 6 $FEW -m "$mtu" -s 10001
done
# Completion events instead of polling.
pingpong rc 4 -e -n 100
pingpong rc 6 -e $FEW -s 65536 -m 4096
# Few receives posted: the sender meets a receiver that is not ready.
pingpong rc 4 $FEW -r 2 -s 4096
# The connection manager's own protocol is not needed for any of this; old and new posting calls are.
pingpong rc 4 $FEW -N
if [ "$TOPOLOGY" = netns ]; then
	REVERSE=1
	pingpong rc 4 -n 100
	pingpong rc 6 -n 100
fi

finish
