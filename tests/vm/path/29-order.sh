# SPDX-License-Identifier: GPL-2.0
#
# A netdev with several transmit queues: the packets of a queue pair leave by one of them, whichever CPU sends, so that
# a peer sees no gap.
#
#	v0 [DEV] ------ v1 [PEER_DEV]                    one queue
#	q0 [frq] ====== q1 [frp]     two queues, each of one CPU (XPS); q1 is in namespace b
#
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

if [ "$DRIVER" != ferroce ]; then
	skip "Order on several queues" "$DRIVER takes no part"
	finish
fi

ip link add q0 numtxqueues 2 numrxqueues 2 type veth peer name q1 numtxqueues 2 numrxqueues 2
ip link set q1 netns b
address q0 10.9.0.1 fd0a::1
address q1 10.9.0.2 fd0a::2 b
# With GRO each queue is received by itself.
if ! at_peer ethtool -K q1 gro on 2>/dev/null || [ "$(nproc)" -lt 2 ]; then
	skip "Order on several queues" "no ethtool, or one CPU"
	finish
fi
check "Each CPU has its queue" eval "echo 1 >/sys/class/net/q0/queues/tx-0/xps_cpus &&
	echo 2 >/sys/class/net/q0/queues/tx-1/xps_cpus"
check "The packets of each queue are counted" tc qdisc replace dev q0 root handle 1: mq
check "The netdevs have devices" eval "add_device frq ferroce q0 && add_device frp ferroce q1 b"
GID=$(gid_index frq 10.9.0.1) TO=$(gid_index frp 10.9.0.2)
export GID TO
within 20 port_is frq ACTIVE
within 20 ping -c 1 -W 2 10.9.0.2

gaps=$(counter frp out_of_seq_request)
cd "${VM_LIB%/*}" || exit
python_tests order.py
check "The peer has seen no gap" [ "$(counter frp out_of_seq_request)" = "$gaps" ]
check "No READ response is missing" [ "$(counter frq rx_response_gap)$(counter frp rx_response_gap)" = 00 ]
finish
