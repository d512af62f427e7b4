# SPDX-License-Identifier: GPL-2.0
#
# Waiting for conditions with a limit, the driver's coming and going, and neighbours: for tests that change what the
# set-up made. Sourced by lib.sh.

# within SECONDS COMMAND...: until the command succeeds; fails when time is up. A slow kernel gets more.
within() {
	local end=$(($(date +%s%N) + $1 * ${SLOWNESS:-1} * 1000000000)) late=
	shift
	# Once more after the end: a machine that stood still has not looked.
	until "$@" >/dev/null 2>&1; do
		[ -z "$late" ] || { echo "not within the time: $*"; return 1; }
		sleep 0.05
		[ "$(date +%s%N)" -lt "$end" ] || late=1
	done
}

not() { ! "$@"; }

# module DRIVER: its name as lsmod has it.
module() {
	case $1 in
	ferroce) echo ferroce ;;
	rxe) echo rdma_rxe ;;
	esac
}

# references DRIVER: what holds the module.
references() { cat "/sys/module/$(module "$1")/refcnt"; }

# unload DRIVER: devices that are there go with it.
unload() { rmmod "$(module "$1")"; }

has_device() { [ -e "/sys/class/infiniband/$1" ]; }

# port_state DEVICE: ACTIVE, DOWN, ...
port_state() { rdma link show "$1/1" | sed -n 's/.* state \([A-Z]*\).*/\1/p'; }

# port_is DEVICE STATE
port_is() { [ "$(port_state "$1")" = "$2" ]; }

# netdev_of DEVICE: the netdev that the core reports.
netdev_of() { rdma link show "$1/1" | sed -n 's/.* netdev \([^ ]*\).*/\1/p'; }

# attribute DEVICE NAME: one line of ibv_devinfo.
attribute() { ibv_devinfo -v -d "$1" | sed -n "s/^[[:space:]]*$2:[[:space:]]*//p" | head -n 1; }

# attribute_is DEVICE NAME PATTERN
attribute_is() { attribute "$1" "$2" | grep -q "$3"; }

# has_gid DEVICE ADDRESS
has_gid() {
	local gid text i
	gid=$(gid_of "$2")
	for i in {0..7}; do
		read -r text 2>/dev/null <"/sys/class/infiniband/$1/ports/1/gids/$i" || continue
		[ "$text" != "$gid" ] || return 0
	done
	return 1
}

# qps DEVICE: how many queue pairs of user space there are.
qps() { rdma resource show qp link "$1" 2>/dev/null | grep -c "pid"; }

# has_qp DEVICE STATE
has_qp() { rdma resource show qp link "$1" | grep -q "type RC state $2"; }

# keep_neighbours: each end knows for good where the other's IPv4 address is. ARP has no checksum: what a wire damages
# of it would be a wrong neighbour, for long.
keep_neighbours() {
	local ours theirs
	ours=$(<"/sys/class/net/$NETDEV/address") theirs=$(at_peer cat "/sys/class/net/$PEER_NETDEV/address") &&
		ip neigh replace "$PEER_ADDR" lladdr "$theirs" dev "$NETDEV" nud permanent &&
		at_peer ip neigh replace "$ADDR" lladdr "$ours" dev "$PEER_NETDEV" nud permanent
}

# kernel_memory: what the kernel holds and cannot give back, in KiB. With KASAN, what was freed is kept until its cache
# is made to shrink.
kernel_memory() {
	local cache
	sync
	echo 3 >/proc/sys/vm/drop_caches
	for cache in /sys/kernel/slab/*/shrink; do [ ! -w "$cache" ] || echo 1 >"$cache"; done
	awk '/^(SUnreclaim|VmallocUsed|PageTables|Percpu|KernelStack):/ { sum += $2 } END { print sum }' /proc/meminfo
}
