# SPDX-License-Identifier: GPL-2.0
#
# ferroce with rdma_rxe across a wire, and ferroce with itself: every common operation, requested by either end, over a
# good wire and over one that drops and reorders. interop.py also lists the differences of rdma_rxe.
#
#	v0 [DEV] ------ v1 [PEER_DEV]           v1 is in namespace b
#	machine a: eth0 [DEV] ====== eth0 [PEER_DEV] :machine b, which follows machine a
#
# vm: TOPOLOGY=netns DRIVER=ferroce PEER_DRIVER=rxe KERNEL=umdebug
# vm: TOPOLOGY=netns KERNEL=umdebug
# long: TOPOLOGY=pair DRIVER=ferroce PEER_DRIVER=rxe
# long: TOPOLOGY=pair DRIVER=ferroce PEER_DRIVER=rxe KERNEL=debug

. "$VM_LIB"

python_tests interop.py
if tc qdisc add dev "$NETDEV" root netem limit 5000 loss 1% delay 1ms reorder 95% 50%; then
	[ "$TOPOLOGY" = pair ] || at_peer tc qdisc add dev v1 root netem limit 5000 loss 1%
	BAD_WIRE=1 python_tests interop.py
	tc qdisc del dev "$NETDEV" root
else
	skip "A bad wire" "this kernel has no sch_netem"
fi
finish
