# SPDX-License-Identifier: GPL-2.0
#
# Unreliable connections: operations, states and errors (unreliable.py), programs, a bad wire (unreliable_wire.py), and
# rdma_rxe as the peer.
#
#	v0 [DEV] ------ v1 [PEER_DEV]     the device itself, or a device in namespace b
#
# vm: TOPOLOGY=single KERNEL=umdebug
# vm: TOPOLOGY=netns KERNEL=umdebug
# vm: TOPOLOGY=netns DRIVER=ferroce PEER_DRIVER=rxe KERNEL=umdebug

. "$VM_LIB"

programs() {
	pingpong uc 4 -n 100
	pingpong uc 6 -n 100 -m 4096 -s 65536
	pingpong uc 4 -n 20 -e
	perftest ib_send_bw -c UC -s 1024 -n 200
	perftest ib_send_bw -c UC -s 65536 -n 50 -m 4096
	perftest ib_write_bw -c UC -s 65536 -n 100 -m 4096
	perftest ib_send_lat -c UC -s 8 -n 100
	perftest ib_write_lat -c UC -s 4096 -n 100
}

[ "$TOPOLOGY" != single ] || python_tests unreliable.py
programs
if [ "$PEER_DRIVER" != "$DRIVER" ]; then
	REVERSE=1
	programs
	finish
fi
if [ "$TOPOLOGY" = netns ]; then
	if tc qdisc add dev v0 root netem limit 5000 loss 0%; then
		export GOOD_WIRE="tc qdisc del dev v0 root"
		# A super-packet is dropped as a whole, so drops need a high probability.
		export BAD_WIRE="tc qdisc add dev v0 root netem limit 5000 loss 15% duplicate 2%"
		tc qdisc del dev v0 root
		python_tests unreliable_wire.py
		# The delay is long enough for a slow machine to send the next packet, the probability high enough that
		# some are reordered.
		BAD_WIRE="tc qdisc add dev v0 root netem limit 5000 delay 200ms reorder 75% corrupt 5%"
		python_tests unreliable_wire.py
	else
		skip "A bad wire" "this kernel has no sch_netem"
	fi
fi
finish
