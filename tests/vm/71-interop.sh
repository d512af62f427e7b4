# SPDX-License-Identifier: GPL-2.0
#
# ferroce and rdma_rxe across a wire, and ferroce and itself: every operation that both have, asked by
# either (see interop.py, also for what rdma_rxe does otherwise), over a good wire and over one that loses and reorders.
#
#	v0 [DEV] ------ v1 [PEER_DEV]           v1 is in namespace b
#	machine a: eth0 [DEV] ====== eth0 [PEER_DEV] :machine b, which does what the other says
#
# vm: TOPOLOGY=netns DRIVER=ferroce PEER_DRIVER=rxe
# vm: TOPOLOGY=netns
# long: TOPOLOGY=pair DRIVER=ferroce PEER_DRIVER=rxe
# long: TOPOLOGY=pair DRIVER=ferroce PEER_DRIVER=rxe KERNEL=debug

. "$VM_LIB"

python_tests interop.py
if tc qdisc add dev "$NETDEV" root netem limit 5000 loss 1% delay 1ms reorder 95% 50%; then
	[ "$TOPOLOGY" = pair ] || at_peer tc qdisc add dev v1 root netem limit 5000 loss 1%
	BAD_WIRE=1 python_tests interop.py
	tc qdisc del dev "$NETDEV" root
else
	skip "a bad wire" "this kernel has no sch_netem"
fi
finish
