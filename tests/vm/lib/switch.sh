# SPDX-License-Identifier: GPL-2.0
#
# A switch with a slow port, between two more devices. Sourced after lib.sh.
#
#	c0 [frc] ------ m0 (bridge) m1 --queue-- c1 [frd]    m0 and m1 are in namespace middle, the switch; c1 in b

# switch_set_up: two more devices, with a switch between them.
switch_set_up() {
	ip netns add middle
	make_veth c0 m0
	make_veth c1 m1
	ip link set m0 netns middle
	ip link set m1 netns middle
	ip link set c1 netns b
	address c0 10.9.0.1 fd0a::1
	address c1 10.9.0.2 fd0a::2 b
	ip -n middle link add bridge type bridge || return
	ip -n middle link set bridge mtu "$MTU" up
	ip -n middle link set m0 mtu "$MTU" master bridge up
	ip -n middle link set m1 mtu "$MTU" master bridge up
	add_device frc ferroce c0 && add_device frd ferroce c1 b
}

# queue RATE OPTION...: the switch sends to c1 by a link of that many Mbit/s, whose queue marks packets. The limiter
# passes the longest burst whole.
queue() {
	tc_of_switch qdisc add dev m1 root handle 1: tbf rate "${1}mbit" burst 80000 limit 4000000 &&
		tc_of_switch qdisc add dev m1 parent 1: "${@:2}"
}

tc_of_switch() { ip netns exec middle tc "$@"; }

# dropped: packets that the queue has dropped.
dropped() {
	tc_of_switch -s qdisc show dev m1 | sum_of_drops
}
