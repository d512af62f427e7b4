# SPDX-License-Identifier: GPL-2.0
#
# Packet formats on the wire: see headers.py. Then connections over the VLAN that headers.py creates, and packets that
# the stack delayed: see kept.py.
#
#	v0 [DEV] ------ v1 [PEER_DEV]         v1 is in namespace b
#	v0.5     ------ v1.5                  VLAN 5 on top, 10.0.55.0/24 and fd55::/64
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"
cd "${VM_LIB%/*}"

python_tests headers.py

if [ -e /sys/class/net/v0.5 ]; then
	modprobe -a rdma_ucm
	for at in 10.0.55.1 fd55::1; do
		managed "rping over a VLAN with $at" "rping -s -a $at -C 10 -V" "rping -c -a $at -C 10 -V"
		managed "udaddy over a VLAN with $at" "udaddy -b $at -c 2 -C 10" "udaddy -s $at -c 2 -C 10"
	done
	# The connection manager joins the group on the netdev of the VLAN.
	timeout "$TRAFFIC_SECONDS" stdbuf -oL mckey -b 10.0.55.1 -m 239.5.5.5 >/tmp/server 2>&1 &
	receiver=$!
	within 30 mckey_joined
	check "mckey sends over a VLAN" at_peer timeout "$TRAFFIC_SECONDS" mckey -s -b 10.0.55.2 -m 239.5.5.5
	check "The receiver gets the datagrams of mckey" wait "$receiver"
else
	skip "Connections over a VLAN" "no VLAN exists"
fi

check "The neighbour entries are permanent" keep_neighbours
python_tests kept.py
# The last packets would wait for minutes, and the module for them.
tc qdisc del dev "$NETDEV" root
finish
