# SPDX-License-Identifier: GPL-2.0
#
# Waits with time limits, loading and unloading of the driver, injected failures, and neighbours: for tests that change
# the set-up. Sourced by lib.sh.

# A pipe into which nothing is ever written.
exec {SILENCE}<> <(:)

# pause SECONDS: sleeps without a process of its own, which costs a guest as much as the pause of a poll.
pause() { read -r -t "$1" -u "$SILENCE" || true; }

# within SECONDS COMMAND...: waits until the command succeeds; fails after the time, which is longer on a slow kernel.
within() {
	local end=$((${EPOCHREALTIME/./} + $1 * ${SLOWNESS:-1} * 1000000)) late=
	shift
	# Tries once more after the end, because a stalled machine has not tried.
	until "$@" >/dev/null 2>&1; do
		[ -z "$late" ] || { echo "not within the time: $*"; return 1; }
		pause 0.05
		[ "${EPOCHREALTIME/./}" -lt "$end" ] || late=1
	done
}

not() { ! "$@"; }

# module DRIVER: prints its module name.
module() {
	case $1 in
	ferroce) echo ferroce ;;
	rxe) echo rdma_rxe ;;
	esac
}

# references DRIVER: prints the reference count of the module.
references() { cat "/sys/module/$(module "$1")/refcnt"; }

# unload DRIVER: removes the module with its devices.
unload() { rmmod "$(module "$1")"; }

# install_driver: puts the module where modprobe finds it. In user mode the modules are the host's, so a copy of them
# takes their place.
install_driver() {
	local modules=/lib/modules/$(uname -r)
	case $KERNEL in
	uml | umdebug)
		cp -r "$modules" /tmp/modules && mount --bind /tmp/modules "$modules" || return
		;;
	esac
	install -D "$KO" "$modules/updates/ferroce.ko" && depmod
}

# fail_all_kinds: failures are injected also into allocations that may sleep and into single pages. No stack trace for
# each: it would look like a warning.
fail_all_kinds() {
	local cause
	for cause in failslab fail_page_alloc; do
		[ -d "/sys/kernel/debug/$cause" ] || continue
		echo N >"/sys/kernel/debug/$cause/ignore-gfp-wait"
		echo 0 >"/sys/kernel/debug/$cause/verbose"
		[ "$cause" = failslab ] || echo 0 >"/sys/kernel/debug/$cause/min-order"
	done
}

has_device() { [ -e "/sys/class/infiniband/$1" ]; }

# port_state DEVICE: ACTIVE, DOWN, ...
port_state() { word_after state "$(rdma link show "$1/1")"; }

# port_is DEVICE STATE
port_is() { [ "$(port_state "$1")" = "$2" ]; }

# netdev_of DEVICE: prints the netdev that the core reports.
netdev_of() { word_after netdev "$(rdma link show "$1/1")"; }

# word_after WORD TEXT: prints what follows the word; a pipe to `sed` is two processes more.
word_after() { [[ ! $2 =~ " $1 "([^ ]*) ]] || echo "${BASH_REMATCH[1]}"; }

# attribute DEVICE NAME: prints one line of ibv_devinfo.
attribute() { ibv_devinfo -v -d "$1" | sed -n "s/^[[:space:]]*$2:[[:space:]]*//p" | head -n 1; }

# attribute_is DEVICE NAME PATTERN
attribute_is() { attribute "$1" "$2" | grep -q "$3"; }

# has_gid DEVICE ADDRESS
has_gid() {
	local gid text i
	name_gid gid "$2"
	for i in {0..7}; do
		read -r text 2>/dev/null <"/sys/class/infiniband/$1/ports/1/gids/$i" || continue
		[ "$text" != "$gid" ] || return 0
	done
	return 1
}

# qps DEVICE: prints the number of user-space QPs.
qps() { rdma resource show qp link "$1" 2>/dev/null | grep -c "pid"; }

# has_qp DEVICE STATE
has_qp() { [[ $(rdma resource show qp link "$1") == *"type RC state $2"* ]]; }

# keep_neighbours: gives each end a permanent neighbour entry for the other's IPv4 address. ARP has no checksum, so a
# bad wire could cause a wrong entry for a long time.
keep_neighbours() {
	local ours theirs
	ours=$(<"/sys/class/net/$NETDEV/address") theirs=$(at_peer cat "/sys/class/net/$PEER_NETDEV/address") &&
		ip neigh replace "$PEER_ADDR" lladdr "$theirs" dev "$NETDEV" nud permanent &&
		at_peer ip neigh replace "$ADDR" lladdr "$ours" dev "$PEER_NETDEV" nud permanent
}

# kernel_memory: prints the unreclaimable memory of the kernel, in KiB. With KASAN, freed memory is kept until its
# cache is shrunk.
kernel_memory() {
	local cache
	sync
	echo 3 >/proc/sys/vm/drop_caches
	for cache in /sys/kernel/slab/*/shrink; do [ ! -w "$cache" ] || echo 1 >"$cache"; done
	awk '/^(SUnreclaim|VmallocUsed|PageTables|Percpu|KernelStack):/ { sum += $2 } END { print sum }' /proc/meminfo
}
