# SPDX-License-Identifier: GPL-2.0
#
# A host with a device routes, bridges, tunnels and mirrors RoCE of others, and of devices in other namespaces: each
# packet arrives as it was sent, with the TTL and the DSCP that the router has written, and the kernel stays whole.
#
#	namespace b: v1 [PEER_DEV]  ------ v0 [DEV]  router  p0 ------ p1  namespace c, which captures
#	namespace d: x1 [rxe9]      ------ x0
#
# vm: TOPOLOGY=netns KERNEL=umdebug
# long: TOPOLOGY=netns VM_ENV=BAD_SECONDS=600 VM_TIMEOUT=1500 KERNEL=umdebug

. "$VM_LIB"

cd "${VM_LIB%/*}" || exit
for space in c d; do
	ip netns add $space
	ip -n $space link set lo up
done
ip link add p0 type veth peer name p1 netns c
ip link add x0 type veth peer name x1 netns d
address p0 10.70.0.1 fd70::1
address p1 10.70.0.2 fd70::2 c
address x0 10.6.0.1 fd06::1
address x1 10.6.0.2 fd06::2 d
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0
for netdev in "$NETDEV" p0 x0; do sysctl -qw "net.ipv4.conf.$netdev.rp_filter=0"; done
for netdev in "$NETDEV" x0 p0; do ethtool -K "$netdev" gro on; done
at_peer ip route add 10.0.0.0/8 via "$ADDR"
at_peer ip route add fd09::/64 via "$ADDR6"
ip -n d route add 10.0.0.0/8 via 10.6.0.1
ip -n d route add fd09::/64 via fd06::1
RXE=
if [ -z "${NO_RXE-}" ] && modprobe rdma_rxe 2>/dev/null && add_device rxe9 rxe x1 d; then
	ip -n d addr add fd00::62/128 dev x1 nodad
	RXE="$(gid_index rxe9 10.6.0.2) $(gid_index rxe9 fd00::62)"
fi
export RXE
python_tests foreign.py
finish
