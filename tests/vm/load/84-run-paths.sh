# SPDX-License-Identifier: GPL-2.0
#
# Which paths carry the ways of putting packets into buffers (tests/module, 84-segments.sh), above all a run: one buffer
# and one header for many packets. Every byte and every checksum must arrive, whether the buffer comes whole or is cut
# on the way; how it came is said in a comment.
#
#	p0 (10.N.0.1) ------ p1  namespace `far` (10.N.0.2), by way of namespace `middle` where a path has one
#
# vm: TOPOLOGY=netns KERNEL=umdebug
# long: TOPOLOGY=netns

. "$VM_LIB"

if [ ! -f /ferroce/segments.ko ]; then
	skip "Runs" "the module comes with a build of ferroce"
	finish
fi

# results: prints the lines that the module wrote since the last load.
results() { sed -n 's/^.*ferroce-test: \(\(not \)\?ok \|# \|1\.\.\)/\1/p' /tmp/log; }

# carries NAME ADDRESS: sends a few turns to the address.
carries() {
	local name=$1 line came=
	if ! ping -q -c 1 -W 5 "$2" >/dev/null; then
		not_ok "$name: the far end answers"
		return
	fi
	dmesg >/tmp/before
	# The module's init always returns an error, so insmod fails.
	insmod /ferroce/segments.ko to="$2" bytes=1024 packets=60 lists=2 segments=2 runs=2 rounds=1 turns=5 \
		2>/tmp/error
	dmesg | tail -n +$(($(wc -l </tmp/before) + 1)) >/tmp/log
	while read -r line; do
		case $line in
		ok*) ok "$name: ${line#ok * }" ;;
		not*) not_ok "$name: ${line#not ok * }" ;;
		'#'*) echo "${line%%, ns a packet*}" ;;
		1..*) came=1 ;;
		esac
	done < <(results)
	check "$name: the module completes" [ -n "$came" ]
}

# joined NEAR FAR NETWORK: addresses for both ends of a path; FAR is in namespace far.
joined() {
	ip addr add "10.$3.0.1/24" dev "$1"
	ip link set "$1" mtu 4200 up
	ip -n far addr add "10.$3.0.2/24" dev "$2"
	ip -n far link set "$2" mtu 4200 up
}

# in_middle: two veths that end in namespace middle, as m0 and m1.
in_middle() {
	ip netns add middle
	ip link add p0 type veth peer name m0 netns middle
	ip -n far link add p1 type veth peer name m1 netns middle
	ip -n middle link set m0 mtu 4200 up
	ip -n middle link set m1 mtu 4200 up
}

apart() {
	ip link del p0 2>/dev/null
	ip netns del middle 2>/dev/null
	ip -n far link del p1 2>/dev/null
}

# with NAME COMMAND...: a path between p0 and p1 that only this option of the kernel makes different.
with() {
	local name=$1
	shift
	ip link add p0 type veth peer name p1 netns far
	joined p0 p1 50
	if "$@" 2>/tmp/error; then
		carries "$name" 10.50.0.2
	else
		skip "$name" "this kernel does not have it: $(tail -n 1 /tmp/error)"
	fi
	apart
}

bridge() {
	in_middle
	ip -n middle link add bridge mtu 4200 type bridge
	for port in m0 m1; do ip -n middle link set "$port" master bridge; done
	ip -n middle link set bridge up
	joined p0 p1 51
	carries "bridge" 10.51.0.2
	apart
}

router() {
	in_middle
	joined p0 p1 52
	ip -n far addr flush dev p1
	ip -n far addr add 10.53.0.2/24 dev p1
	ip -n middle addr add 10.52.0.9/24 dev m0
	ip -n middle addr add 10.53.0.9/24 dev m1
	ip netns exec middle sysctl -q net.ipv4.ip_forward=1
	ip route add 10.53.0.0/24 via 10.52.0.9
	ip -n far route add 10.52.0.0/24 via 10.53.0.9
	carries "router" 10.53.0.2
	apart
}

# upper NAME TYPE ARGUMENT...: a netdev of this type on top of each end.
upper() {
	local name=$1
	shift
	ip link add p0 type veth peer name p1 netns far
	ip link set p0 mtu 4300 up
	ip -n far link set p1 mtu 4300 up
	if ip link add u0 link p0 type "$@" && ip -n far link add u1 link p1 type "$@"; then
		joined u0 u1 54
		carries "$name" 10.54.0.2
	else
		skip "$name" "this kernel does not have it"
	fi
	ip link del u0 2>/dev/null
	apart
}

vxlan() {
	ip link add p0 type veth peer name p1 netns far
	joined p0 p1 55
	ip link set p0 mtu 4400
	ip -n far link set p1 mtu 4400
	if ip link add u0 type vxlan id 7 local 10.55.0.1 remote 10.55.0.2 dstport 4789 &&
		ip -n far link add u1 type vxlan id 7 local 10.55.0.2 remote 10.55.0.1 dstport 4789; then
		joined u0 u1 56
		carries "VXLAN" 10.56.0.2
	else
		skip "VXLAN" "this kernel does not have it"
	fi
	ip link del u0 2>/dev/null
	apart
}

taps() {
	if [ ! -c /dev/net/tun ]; then
		skip "taps and a program" "this machine has no /dev/net/tun"
		return
	fi
	python3 "${VM_LIB%/*}/taps.py" p0 p1 far >/tmp/taps 2>&1 &
	within 20 grep -q ready /tmp/taps
	joined p0 p1 57
	carries "taps and a program" 10.57.0.2
	kill %%
	wait
}

conntrack_rule() {
	nft add table ip t &&
		nft add chain ip t c '{ type filter hook output priority 0; }' &&
		nft add rule ip t c ct state new counter accept
}

queue_rule() {
	nft add table ip t &&
		nft add chain ip t c '{ type filter hook output priority 0; }' &&
		nft add rule ip t c udp dport 4799 counter queue flags bypass to 0
}

xfrm() {
	local end
	for end in '' '-n far'; do
		ip $end xfrm state add src 10.50.0.1 dst 10.50.0.2 proto esp spi 7 mode transport \
			aead 'rfc4106(gcm(aes))' 0x000102030405060708090a0b0c0d0e0f10111213 128 || return
	done
	ip xfrm policy add src 10.50.0.1 dst 10.50.0.2 proto udp dir out \
		tmpl src 10.50.0.1 dst 10.50.0.2 proto esp mode transport
}

rmmod ferroce
ip netns add far
ip -n far link set lo up
bridge
router
upper "VLAN" vlan id 7
upper "macvlan" macvlan mode bridge
upper "ipvlan" ipvlan mode l2
vxlan
taps
with "netem" tc qdisc add dev p0 root netem delay 1ms
with "tbf" tc qdisc add dev p0 root tbf rate 1gbit burst 200kb limit 2mb
with "fq_codel" tc qdisc add dev p0 root fq_codel
with "cake" tc qdisc add dev p0 root cake bandwidth 1gbit
with "connection tracking" conntrack_rule
nft flush ruleset 2>/dev/null
with "a queue without a program" queue_rule
nft flush ruleset 2>/dev/null
with "ESP" xfrm
ip xfrm policy flush 2>/dev/null
ip xfrm state flush 2>/dev/null
finish
