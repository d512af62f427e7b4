# SPDX-License-Identifier: GPL-2.0
#
# ferroce in the place of rdma_rxe (as_rxe=1): both link types make its devices. Whichever of the two drivers is loaded
# first keeps the other out. Last, the configuration of the package ferroce-as-rxe, with which scripts for rdma_rxe run.
#
#	v0 [DEV, of type ferroce] ------ v1 [PEER_DEV, of type rxe]     v1 is in namespace b
#	w0                        ------ w1                             for single devices
#
# machine: VM_FILES=scripts/package/as-rxe.conf
# vm: TOPOLOGY=netns KERNEL=umdebug
# long: TOPOLOGY=netns KERNEL=uml

. "$VM_LIB"

as_rxe() { insmod "$KO" as_rxe=1; }
loaded() { [ -e "/sys/module/$1" ]; }
# Empty on Debian's kernels for the cloud, which have no rdma_rxe.
rxe_ko=$(modinfo -n rdma_rxe 2>/dev/null)

# logged TEXT: whether exactly one line since the last mark has the text.
logged() { [ "$(dmesg | tac | sed '/ferroce-test:/q' | grep -c "$1")" = 1 ]; }

# is_busy COMMAND...: whether the command fails with EBUSY.
is_busy() { ! "$@" >/tmp/busy 2>&1 && grep -q 'resource busy' /tmp/busy; }

# is_ours DEVICE: whether it is a device of ferroce, of either type.
is_ours() { [[ $(<"/sys/class/infiniband/$1/node_desc") == ferroce* ]]; }

rxe_first() {
	modprobe rdma_rxe
	check "rdma_rxe makes a device" add_device "$DEV" rxe "$NETDEV"
	mark "rdma_rxe first"
	check "as_rxe=1 is refused as busy while rdma_rxe is loaded" is_busy as_rxe
	check "One line of the log says why" logged 'ferroce: as_rxe=1 is refused: rdma_rxe is loaded'
	check "The refused module is not there" not loaded ferroce
	check_fails "Nor is its link type" add_device x ferroce w0
	check "The device of rdma_rxe is not harmed" port_is "$DEV" ACTIVE
	check "ferroce alone loads beside rdma_rxe" insmod "$KO"
	check "ferroce unloads again" unload ferroce
	# With lockdep, a device of rdma_rxe holds a reference on the module.
	rdma link del "$DEV"
	check "rdma_rxe unloads" rmmod rdma_rxe
}

both_types() {
	check "as_rxe=1 loads" as_rxe
	check "The type ferroce makes a device" add_device "$DEV" ferroce "$NETDEV"
	check "The type rxe makes a device" add_device "$PEER_DEV" rxe "$PEER_NETDEV" b
	check "Both are ferroce's" eval 'is_ours "$DEV" && is_ours "$PEER_DEV"'
	check "Both are active" within 5 eval 'port_is "$DEV" ACTIVE && port_is "$PEER_DEV" ACTIVE'
	GID4=$(gid_index "$DEV" "$ADDR") GID6=$(gid_index "$DEV" "$ADDR6")
	PEER_GID4=$(gid_index "$PEER_DEV" "$PEER_ADDR") PEER_GID6=$(gid_index "$PEER_DEV" "$PEER_ADDR6")
	check "rdma link shows one of each" \
		[ "$(rdma link show | grep -c "^link \($DEV\|$PEER_DEV\)/1 state ACTIVE")" = 2 ]
	pingpong rc 4 -n 100
	pingpong ud 6 -n 100
	check_fails "An interface with a device of one type gets none of the other" add_device x rxe "$NETDEV"
	check_fails "Nor does the other way round" add_device x ferroce "$PEER_NETDEV" b
	check_fails "A name is used once" add_device "$DEV" rxe w0
	check_fails "A type that does not exist is refused" add_device x rx w0
	check_fails "So is one that begins like ours" add_device x rxe2 w0
	check "None of these has left a device" not has_device x
	check "A third device is made with the type rxe" add_device x rxe w0
	check "It can be renamed" rdma dev set x name y
	check "rdma link del removes it" rdma link del y
	check "It is removed" not has_device y
	check "The other type can have the interface now" add_device x ferroce w0
	check "That device is removed" rdma link del x
	check "Other modules load" modprobe -a dummy sch_netem
	check "A second ferroce is refused" not as_rxe
}

rxe_second() {
	mark "rdma_rxe second"
	check "rdma_rxe is refused as busy meanwhile" is_busy insmod "$rxe_ko"
	check "One line of the log says why" logged 'ferroce: rdma_rxe is refused: ferroce has its link type'
	check "modprobe does not load it either" is_busy modprobe rdma_rxe
	check "Nothing is left of it" not loaded rdma_rxe
	pingpong rc 4 -n 100
}

# Programs keep devices open; those are removed all the same.
unloads_both() {
	local watcher
	timeout 60 ibv_asyncwatch -d "$PEER_DEV" >/tmp/watch 2>&1 &
	watcher=$!
	within 20 grep -q . /tmp/watch
	check "ferroce unloads with devices of both types" unload ferroce
	kill "$watcher" 2>/dev/null
	wait "$watcher" 2>/dev/null
	check "Both devices are removed" eval 'not has_device "$DEV" && not has_device "$PEER_DEV"'
}

# A forgotten list entry or notifier would be called here.
take_turns() {
	local i
	for i in {1..20}; do
		as_rxe && rdma link add x type rxe netdev w0 && unload ferroce || return
		modprobe rdma_rxe && is_busy as_rxe && rmmod rdma_rxe || return
		insmod "$KO" && modprobe rdma_rxe && unload ferroce && rmmod rdma_rxe || return
	done
}

rxe_after() {
	check "rdma_rxe loads then" modprobe rdma_rxe
	check "The type rxe is its own again" add_device x rxe w0
	check "Its device is not ferroce's" not is_ours x
	rdma link del x
	check "rdma_rxe unloads" rmmod rdma_rxe
	# The core makes the files of each device once more in each namespace, hundreds of them.
	ip -n b link set "$PEER_NETDEV" netns 1 && ip netns del b
	check "Both take turns 20 times" take_turns
}

# with_package WHERE: what scripts for rdma_rxe do.
with_package() {
	check "modprobe rdma_rxe loads ferroce $1" modprobe rdma_rxe
	check "It is ferroce $1" eval 'loaded ferroce && ! loaded rdma_rxe'
	check "The type rxe makes a device $1" add_device "$DEV" rxe "$NETDEV"
	check "It is ferroce's $1" is_ours "$DEV"
	check "modprobe -r rdma_rxe unloads ferroce $1" modprobe -r rdma_rxe
	check "The device is removed $1" eval 'not has_device "$DEV" && not loaded ferroce'
	check "rdma link add alone loads ferroce $1" add_device "$DEV" rxe "$NETDEV"
	check "Its device is ferroce's $1" is_ours "$DEV"
	check "The type ferroce works, too $1" add_device x ferroce w0
	check "ferroce unloads $1" unload ferroce
}

package_beside_rxe() {
	check "rdma_rxe can still be loaded by its file" insmod "$rxe_ko"
	mark "the package beside rdma_rxe"
	check "modprobe rdma_rxe is busy then" is_busy modprobe rdma_rxe
	check "One line of the log says why" logged 'ferroce: as_rxe=1 is refused: rdma_rxe is loaded'
	check "rdma_rxe unloads" rmmod rdma_rxe
	rm "$rxe_ko" && depmod
}

if [ -z "$rxe_ko" ]; then skip "Each driver keeps the other out" "this kernel has no rdma_rxe"; fi
make_veth w0 w1
check "ferroce unloads" unload ferroce
if [ -n "$rxe_ko" ]; then rxe_first; fi
both_types
if [ -n "$rxe_ko" ]; then rxe_second; fi
unloads_both
if [ -n "$rxe_ko" ]; then rxe_after; fi
install_driver
cp "${VM_LIB%/*}/as-rxe.conf" /etc/modprobe.d/
if [ -n "$rxe_ko" ]; then
	with_package "beside rdma_rxe.ko"
	package_beside_rxe
fi
with_package "where rdma_rxe does not exist"

finish
