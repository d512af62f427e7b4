# SPDX-License-Identifier: GPL-2.0
#
# Scenarios of public reports about RDMA in software, and faults that rdma_rxe had in 2026; see reports.py and
# recent_faults.py. 64-reload.sh and 64-no-ipv6.sh have more of them.
#
#	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b
#	p0 [P], p1 [Q]                    macvlans or ipvlans over v0, each in a pod (a namespace) of its own
#	d0 [D], t0 [T] ------ t1 [U]      a dummy; tunnels over v0 and v1
#	c0 [frc] ------ c1 [frd]          with the bridge of switch.sh between them
#
# vm: TOPOLOGY=netns KERNEL=umdebug
# long: TOPOLOGY=netns VM_ENV=LOCAL_PATH=0

. "$VM_LIB"
. "${VM_LIB%/*}/switch.sh"
modprobe -a rdma_ucm 2>/dev/null
cd "${VM_LIB%/*}" || exit

in_p() { ip netns exec p "$@"; }
in_q() { ip netns exec q "$@"; }

# logged TEXT: true if the kernel log contains the text since the last mark.
logged() { dmesg | tac | sed '/ferroce-test:/q' | grep -q "$1"; }

# apart NAME COUNT COMMAND...: runs a command that changes the set-up in a shell of its own; all of its COUNT results
# must be good.
apart() {
	local name=$1 count=$2
	shift 2
	("$@") >/tmp/apart 2>&1
	if [ "$(grep -c '^ok' /tmp/apart)" = "$count" ] && ! grep -q '^not ok' /tmp/apart; then
		ok "$name"
	else
		note </tmp/apart
		not_ok "$name"
	fi
}

# pingpongs ADDRESS KIND...: ping-pongs between DEV and PEER_DEV, whose GIDs these are, with the server at the address.
pingpongs() {
	local kind
	ADDR=$1
	shift
	for kind in "$@"; do pingpong "$kind" 4 -n 50; done
}

# on_one DEVICE ADDRESS KIND...: the device is its own peer.
on_one() {
	TOPOLOGY=single DEV=$1 PEER_DEV=$1 GID4=$(gid_index "$1" "$2")
	PEER_GID4=$GID4
	shift
	pingpongs "$@"
}

# through_tunnel: between T and U.
through_tunnel() {
	DEV=T PEER_DEV=U GID4=$(gid_index T 10.7.0.1) PEER_GID4=$(gid_index U 10.7.0.2)
	pingpongs 10.7.0.1 rc ud
}

# guid DEVICE: prints its node GUID.
guid() { cat "/sys/class/infiniband/$1/node_guid"; }

# no_device_on_a_vlan: the core adds no GIDs to it.
no_device_on_a_vlan() {
	modprobe 8021q 2>/dev/null
	ip link add link v0 name v0.5 type vlan id 5 && ip link add link v0.5 name v0.5.6 type vlan id 6 || return
	for netdev in v0.5 v0.5.6; do
		mark "$netdev"
		check_fails "A device on $netdev is refused" rdma link add frv type "$LINK_TYPE" netdev "$netdev"
		check "The refusal names the interface whose device serves $netdev" logged \
			"$netdev: a VLAN has no device of its own; a device on v0 has its addresses"
	done
	address v0.5 10.5.0.1 fd05::1
	check "The device below has the addresses of the VLAN" within 10 has_gid "$DEV" 10.5.0.1
	ip link del v0.5
}

# pods KIND MODE: two pods, each with an interface over v0 and a device on it, connect by the connection manager.
pods() {
	local name="pods with $1 $2" i netdev=p0 server
	modprobe "$1" 2>/dev/null
	for i in p q; do
		ip netns add "$i"
		ip -n "$i" link set lo up
		if ! ip link add link v0 name "$netdev" netns "$i" type "$1" mode "$2"; then
			ip netns del p
			ip netns del q 2>/dev/null
			skip "$name" "this kernel has no $1"
			return
		fi
		netdev=p1
	done
	address p0 10.6.0.1 fd06::1 p
	address p1 10.6.0.2 fd06::2 q
	check "$name: the first pod has a device" in_p rdma link add P type "$LINK_TYPE" netdev p0
	check "$name: the second pod has a device" in_q rdma link add Q type "$LINK_TYPE" netdev p1
	check "$name: each device has the address of its pod" within 10 eval 'has_gid P 10.6.0.1 && has_gid Q 10.6.0.2'
	check "$name: the device of the host has no address of a pod" \
		not eval "has_gid $DEV 10.6.0.1 || has_gid $DEV 10.6.0.2"
	check "$name: all node GUIDs differ" eval '[ "$({ guid P; guid Q; guid $DEV; } | sort -u | wc -l)" = 3 ]'
	in_p timeout 60 rping -s -a 10.6.0.1 -C 5 -V >/tmp/server 2>&1 &
	server=$!
	within 20 cm_listens in_p
	check "$name: rping" in_q timeout 30 rping -c -a 10.6.0.1 -C 5 -V
	check "$name: rping, the other end" wait "$server"
	apart "$name: RC and UD" 2 between_pods
	ip netns del p
	ip netns del q
	check "$name: the devices are removed with their pods" within 30 not eval 'has_device P || has_device Q'
}

# between_pods: between P in p and Q in q.
between_pods() {
	run_end() { # instead of that of lib.sh
		local dev=P gid4 to=10.6.0.1 where=in_p
		[ "$1" = server ] || { dev=Q where=in_q; }
		gid4=$(gid_index "$dev" "$([ "$1" = server ] && echo 10.6.0.1 || echo 10.6.0.2)")
		set -- $(eval echo "$2")
		"$where" timeout "$TRAFFIC_SECONDS" "$@"
	}
	await_listener() { # instead of that of lib.sh
		within 30 eval '[ -n "$(in_p ss -Hltn "sport = :18515")" ]'
	}
	pingpongs 10.6.0.1 rc ud
}

# first_client: the first program right after `rdma link add` on a dummy finds the GID, and all services work.
first_client() {
	modprobe dummy 2>/dev/null
	ip link add d0 type dummy || { skip "A dummy" "this kernel has no dummy"; return; }
	address d0 10.9.0.1 fd09::1
	local round fine=0 server
	for ((round = 0; round < 20; round++)); do
		add_device D "$DRIVER" d0 && has_gid D 10.9.0.1 && rdma link del D && fine=$((fine + 1))
	done
	check "The GID of a dummy is there when rdma link add returns ($fine of 20)" [ "$fine" = 20 ]
	add_device D "$DRIVER" d0
	apart "RC, UC and UD over a dummy" 3 on_one D 10.9.0.1 rc uc ud
	timeout 60 rping -s -a 10.9.0.1 -C 5 -V >/tmp/server 2>&1 &
	server=$!
	within 20 cm_listens
	check "rping over a dummy" timeout 30 rping -c -a 10.9.0.1 -C 5 -V
	check "rping over a dummy, the other end" wait "$server"
	rdma link del D
	ip link del d0
}

# tunnel TYPE ADDRESS PEER_ADDRESS: devices over a tunnel without Ethernet addresses reach each other by their GIDs.
tunnel() {
	local name=$1 here=$2 there=$3
	ip link add t0 type "$name" local "$here" remote "$there" 2>/dev/null &&
		ip -n b link add t1 type "$name" local "$there" remote "$here" 2>/dev/null || {
		skip "A tunnel: $name" "this kernel has no $name"
		ip link del t0 2>/dev/null
		return
	}
	MTU=1400 address t0 10.7.0.1 fd07::1
	MTU=1400 address t1 10.7.0.2 fd07::2 b
	check "A tunnel carries devices: $name" eval "add_device T $DRIVER t0 && add_device U $PEER_DRIVER t1 b"
	apart "RC and UD through a tunnel: $name" 2 through_tunnel
	ip link del t0
	ip -n b link del t1
	check "The devices are removed with the tunnel: $name" within 30 not eval 'has_device T || has_device U'
}

# without_mac NAME COMMAND...: a device over t0, an interface without a MAC address that COMMAND makes, reaches itself.
without_mac() {
	local name=$1
	shift
	"$@" 2>/dev/null || { skip "A device over $name" "this kernel has no $name"; return; }
	MTU=1400 address t0 10.7.0.1 fd07::1
	check "A device over $name" add_device T "$DRIVER" t0
	check "It has the address: $name" within 10 has_gid T 10.7.0.1
	apart "RC and UD over $name" 2 on_one T 10.7.0.1 rc ud
	ip link del t0
	check "The device is removed with the interface: $name" within 30 not has_device T
}

# has_received COUNT: whether the device has received this many packets since it was added.
has_received() { [ "$(counter "$DEV" rcvd_pkts)" -ge "$1" ]; }

# under_traffic COMMAND...: waits for a hundred packets, and runs the command. Under load, a program takes seconds to
# begin.
under_traffic() {
	within 30 has_received $(($(counter "$DEV" rcvd_pkts) + 100)) && "$@"
}

# flaps: an address disappears for a second, under traffic, and its GID returns, perhaps at another index.
flaps() {
	local round
	for ((round = 0; round < 3; round++)); do
		sleep 1
		ip addr del "$ADDR/24" dev "$NETDEV"
		sleep 1
		ip addr add "$ADDR/24" dev "$NETDEV"
	done
}

under_flaps() {
	under_traffic flaps &
	local flapper=$!
	perftest ib_write_bw -D 8 -s 8192 -u 18
	check "The address disappeared under traffic" wait "$flapper"
	GID4=$(gid_index "$DEV" "$ADDR")
	check "The address is a GID again" has_gid "$DEV" "$ADDR"
	pingpong rc 4 -n 50
}

# default_tos: the traffic class that the CM's configfs sets is that of all packets, answers as well.
default_tos() {
	local port=/sys/kernel/config/rdma_cm/$DEV/ports/1 end server
	mount -t configfs configfs /sys/kernel/config 2>/dev/null
	modprobe rdma_cm
	mkdir "/sys/kernel/config/rdma_cm/$DEV" 2>/dev/null || {
		skip "The traffic class of the CM" "this kernel has no configfs of rdma_cm"
		return
	}
	echo 104 >"$port/default_roce_tos"
	for end in '' at_peer; do
		$end nft -f - <<-'END' 2>/tmp/nft
			table ip watch {
				chain every {
					type filter hook output priority 0
					udp dport 4791 counter
					udp dport 4791 ip dscp != 26 counter
				}
			}
		END
	done
	at_peer timeout 60 rping -s -a "$PEER_ADDR" -C 20 -V >/tmp/server 2>&1 &
	server=$!
	within 20 cm_listens at_peer
	check "rping with a traffic class of the CM" timeout 60 rping -c -a "$PEER_ADDR" -C 20 -V
	wait "$server"
	rmdir "/sys/kernel/config/rdma_cm/$DEV"
	if [ -s /tmp/nft ]; then
		skip "All packets have the traffic class of the CM" "$(head -n 1 /tmp/nft)"
		return
	fi
	for end in '' at_peer; do
		check "All packets ${end:+of the peer }have the traffic class of the CM" classed "$end"
		$end nft delete table ip watch
	done
}

# classed END: the first counter of the table has counted, and the second one has not, except for what the CM itself
# sends before it knows the class.
classed() {
	local packets
	mapfile -t packets < <($1 nft list table ip watch | sed -n 's/.*packets \([0-9]*\) .*/\1/p')
	echo "packets: ${packets[*]}"
	[ "${packets[0]}" -gt 40 ] && [ "${packets[1]}" = 0 ]
}

# fills: leaves no room in the table of connections for a second, and tries a new one.
fills() {
	local most
	most=$(</proc/sys/net/netfilter/nf_conntrack_max)
	echo 1 >/proc/sys/net/netfilter/nf_conntrack_max
	ping -c 2 -W 1 "$PEER_ADDR"
	echo "$most" >/proc/sys/net/netfilter/nf_conntrack_max
	dmesg | grep -q 'nf_conntrack: table full'
} >/dev/null 2>&1

# firewalls: connection tracking that is on, then full; and input that only a rule for port 4791 lets in.
firewalls() {
	modprobe -a nf_conntrack nft_ct 2>/dev/null
	if ! nft -f - 2>/tmp/nft <<-'END'
		table ip t {
			chain out { type filter hook output priority 0; ct state new counter; }
			chain in {
				type filter hook input priority 0; policy drop;
				iifname "lo" accept
				ct state invalid drop
				ct state established,related accept
				udp dport 4791 accept
				tcp dport 18515 accept
			}
		}
	END
	then
		skip "A firewall with connection tracking" "this kernel has no nft_ct"
		note </tmp/nft
		return
	fi
	note "input is dropped, except for port 4791"
	pingpong rc 4 -n 50
	pingpong ud 4 -n 20
	perftest ib_write_bw -s 65536 -n 100
	REVERSE=1 pingpong rc 4 -n 50
	note "the table of connections fills up in mid-connection"
	under_traffic fills &
	local filler=$!
	perftest ib_write_bw -D 6 -s 8192
	check "The table of connections was full" wait "$filler"
	nft delete table ip t
}

# bridged: a bridge passes its packets to netfilter and tracks connections, as on hosts of containers.
bridged() {
	modprobe -a bridge br_netfilter nf_conntrack nft_ct 2>/dev/null
	if ! switch_set_up || ! ip netns exec middle sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null; then
		skip "A bridge with netfilter" "this kernel has no br_netfilter"
		return
	fi
	ip netns exec middle nft -f - <<-'END'
		table ip t {
			chain through {
				type filter hook forward priority 0
				ct state new counter
				udp dport 4791 counter accept
			}
		}
	END
	apart "RC, UC and UD through a bridge with netfilter" 3 through_bridge pingpongs 10.9.0.1 rc uc ud
	apart "WRITEs through a bridge with netfilter" 1 through_bridge perftest ib_write_bw -s 65536 -n 200
	check "Netfilter has seen the packets" filtered
	check "All packets are whole" [ "$(counter frc rx_bad_icrc) $(counter frd rx_bad_icrc)" = "0 0" ]
}

# filtered: the switch has counted packets for port 4791.
filtered() {
	local packets
	packets=$(ip netns exec middle nft list table ip t | sed -n 's/.*dport 4791 counter packets \([0-9]*\) .*/\1/p')
	echo "packets: $packets"
	[ "$packets" -gt 100 ]
}

# through_bridge COMMAND...: between frc and frd.
through_bridge() {
	DEV=frc PEER_DEV=frd ADDR=10.9.0.1 GID4=$(gid_index frc 10.9.0.1) PEER_GID4=$(gid_index frd 10.9.0.2)
	within 20 ping -c 1 -W 2 10.9.0.2
	"$@"
}

# one_processor: with a single processor two programs that poll do not lock each other out, and the device is removed.
one_processor() {
	if ! echo 0 2>/dev/null >/sys/devices/system/cpu/cpu1/online; then
		skip "One processor" "its number is fixed in this machine"
		return
	fi
	pingpong rc 4 -n 100
	perftest ib_write_bw -s 4096 -n 500
	perftest ib_send_lat -s 8 -n 200
	local gid4 pids
	gid4=$(gid_index "$DEV" "$ADDR")
	timeout 60 ib_write_bw -d "$DEV" -x "$gid4" -F -D 60 >/tmp/server 2>&1 &
	pids=($!)
	await_listener 18515
	timeout 60 ib_write_bw -d "$DEV" -x "$gid4" -F -D 60 "$ADDR" >/tmp/client 2>&1 &
	pids+=($!)
	check "Two programs poll" within 20 has_qp "$DEV" RTS
	sleep 1
	check "The device is removed under both" timeout 30 rdma link del "$DEV"
	pkill -x ib_write_bw
	wait "${pids[@]}"
	check "The device is added again" add_device "$DEV" "$DRIVER" "$NETDEV"
	echo 1 >/sys/devices/system/cpu/cpu1/online
	GID4=$(gid_index "$DEV" "$ADDR")
	check "The device has its address" has_gid "$DEV" "$ADDR"
}

# clear_up: leaves only DEV, and no namespace. Each device costs each namespace thousands of files in sysfs, and each
# namespace each device.
clear_up() {
	local name
	for name in /sys/class/infiniband/*; do
		[ "${name##*/}" = "$DEV" ] || rdma link del "${name##*/}"
	done
	# Else DEV would go with it.
	at_peer ip link set "$PEER_NETDEV" netns 1 && ip link set "$PEER_NETDEV" mtu "$MTU" up && ip -all netns del
}

# removals: a namespace, the device in it and its netdev are removed at the same time, in each order.
removals() {
	local round pids late
	seeded
	for ((round = 0; round < 15; round++)); do
		ip netns add r
		ip link add r0 netns r type veth peer name r1
		ip netns exec r rdma link add R type "$LINK_TYPE" netdev r0 || return
		pids=() late=($((RANDOM % 9)) $((RANDOM % 9)) $((RANDOM % 9)))
		{ pause "0.00${late[0]}"; rdma link del R; } 2>/dev/null &
		pids+=($!)
		{ pause "0.00${late[1]}"; ip link del r1; } 2>/dev/null &
		pids+=($!)
		{ pause "0.00${late[2]}"; ip netns del r; } &
		pids+=($!)
		wait "${pids[@]}"
		within 30 not has_device R || return
	done
}

long_over_lo() {
	TOPOLOGY=single DEV=L PEER_DEV=L ADDR=127.0.0.1 GID4=$(gid_index L 127.0.0.1)
	PEER_GID4=$GID4
	pingpong rc 4 -m 4096 -s 65536 -n 20
}

# path_mtus: what the port cannot carry is refused, on an interface of 1500 bytes and on the loopback device.
path_mtus() {
	ip link set "$NETDEV" mtu 1500
	at_peer ip link set "$PEER_NETDEV" mtu 1500
	within 5 attribute_is "$DEV" active_mtu '^1024'
	python_tests reports.py path_mtu
	check_fails "ibv_rc_pingpong with a path MTU of 4096 over 1500 bytes fails at once" \
		timeout 20 ibv_rc_pingpong -d "$DEV" -g "$GID4" -m 4096 "$PEER_ADDR"
	ip link set "$NETDEV" mtu "$MTU"
	at_peer ip link set "$PEER_NETDEV" mtu "$MTU"
	rdma link add L type "$LINK_TYPE" netdev lo
	check "A device on lo has the largest MTU" within 5 attribute_is L active_mtu '^4096'
	# Not longer than a port carries: the packets of 4096 bytes arrive.
	apart "RC with the largest path MTU over lo" 1 long_over_lo
	rdma link del L
}

# adapter: a device over the interface of an adapter that speaks RoCE itself works, and the log says what may be wrong.
adapter() {
	if [ ! -f /ferroce/adapter.ko ]; then
		skip "An adapter" "the module comes with a build of ferroce"
		return
	fi
	ip link add a0 type veth peer name a1
	ip link add link a0 name a2 type macvlan 2>/dev/null || ip link add a2 type dummy
	insmod /ferroce/adapter.ko netdev=a0
	check "The adapter has a device" has_device adapter0
	mark "an adapter"
	check "A device over the interface of an adapter" add_device A "$DRIVER" a0
	check "The log names the adapter's device, and the command" logged \
		"a0: the adapter may keep UDP port 4791 for its own device adapter0.*dev param set platform/ferroce"
	rdma link del A
	mark "an interface above"
	check "A device over an interface above it" add_device A "$DRIVER" a2
	check "The log names the adapter's device again" logged "a2: the adapter may keep UDP port 4791"
	rdma link del A
	rmmod adapter
	mark "no adapter"
	check "A device where the adapter has gone" add_device A "$DRIVER" a0
	check "The log has no warning then" not logged "the adapter may keep"
	rdma link del A
	if modprobe rdma_rxe 2>/dev/null && ip netns add x && ip link add x0 netns x type veth peer name x1 netns x &&
		ip netns exec x rdma link add rxe7 type rxe netdev x0; then
		ip netns exec x ip link add link x0 name x2 type macvlan
		mark "rdma_rxe below"
		ip netns exec x rdma link add A type "$LINK_TYPE" netdev x2 2>/dev/null
		check "A device of rdma_rxe is no adapter" not logged "the adapter may keep"
		rdma link del A 2>/dev/null
		rdma link del rxe7
	else
		skip "A device of rdma_rxe is no adapter" "this kernel has no rdma_rxe"
	fi
	ip netns del x 2>/dev/null
	ip link del a0
}

# restart: the first QP of each load has another number.
restart() {
	local round numbers=()
	for ((round = 0; round < 3; round++)); do
		rmmod ferroce && load_driver ferroce && add_device "$DEV" ferroce "$NETDEV" || return
		gid_index "$DEV" "$ADDR" >/dev/null || return
		numbers+=("$(python3 -c 'from rc import End; print(End().qp.qp_num)')")
	done
	note "first numbers: ${numbers[*]}"
	[ "$(printf '%s\n' "${numbers[@]}" | sort -u | wc -l)" = 3 ] || return
	add_device "$PEER_DEV" ferroce v1 b || return
	GID4=$(gid_index "$DEV" "$ADDR") PEER_GID4=$(gid_index "$PEER_DEV" "$PEER_ADDR")
}

python_tests reports.py unequal_mtus pieces
python_tests recent_faults.py
path_mtus
if [ "$DRIVER" = ferroce ]; then
	no_device_on_a_vlan || skip "VLANs" "this kernel has no VLANs"
	pods macvlan bridge
	pods ipvlan l2
	pods ipvlan l3
	adapter
	check "The first number of a QP differs in each load" restart
else
	skip "VLANs, pods, adapters, restarts" "rxe: does not serve them"
fi
tunnel ipip "$ADDR" "$PEER_ADDR"
tunnel gre "$ADDR" "$PEER_ADDR"
tunnel ip6tnl "$ADDR6" "$PEER_ADDR6"
tunnel ip6gre "$ADDR6" "$PEER_ADDR6"
under_flaps
default_tos
firewalls
if [ "$DRIVER" = ferroce ]; then bridged; else skip "A bridge with netfilter" "rxe: has no two devices more"; fi
one_processor
check "The peer is removed" clear_up
first_client
without_mac wireguard ip link add t0 type wireguard
without_mac tun ip tuntap add t0 mode tun
check "Namespace, device and netdev are removed at the same time" removals
check "The log is not flooded" log_is_not_flooded 200
finish
