# SPDX-License-Identifier: GPL-2.0
#
# The link type ferroce_direct: devices for ferroce's own provider, which that of rdma_rxe leaves alone. They serve ULPs
# like others, follow their interfaces, stay when rdma_rxe goes, and leave nothing behind.
#
#	v0 [DEV, of type ferroce]      ------ v1
#	w0 [D, of type ferroce_direct] ------ w1
#	x0                             ------ x1
#
# vm: TOPOLOGY=single KERNEL=umdebug

. "$VM_LIB"

if [ "$PROVIDER" = direct ]; then
	skip "Both link types" "the script makes devices of the types that it names, also with PROVIDER=rxe"
	finish
fi
. "${VM_LIB%/*}/storage.sh"

D=fd0
IP=10.0.9.1
DIRECT="0x46455252 100 Operation not supported" RXE="0xe 2 Success"

# is DEVICE IDENTITY: whether user space sees this driver id and ABI version, and gets that error.
is() {
	local found
	found=$(python3 "${VM_LIB%/*}/direct.py" "$1") || return
	echo "$found"
	[ "$found" = "$2" ]
}

# logged TEXT: whether exactly one line since the last mark has the text.
logged() { [ "$(dmesg | tac | sed '/ferroce-test:/q' | grep -c "$1")" = 1 ]; }

# make_links: makes the interfaces that do not exist.
make_links() {
	[ -e /sys/class/net/w0 ] || make_veth w0 w1
	[ -e /sys/class/net/x0 ] || make_veth x0 x1
}

no_devices() { [ -z "$(ls -A /sys/class/infiniband)" ]; }
loaded() { [ -e "/sys/module/$1" ]; }

# said COUNT TEXT: whether /tmp/said has this many lines with the text.
said() { [ "$(grep -c "$2" /tmp/said)" = "$1" ]; }

both_types() {
	check "rdma link add creates a device of type ferroce_direct" add_device "$D" ferroce_direct w0
	check "It is active" within 5 port_is "$D" ACTIVE
	check "It has its addresses" within 5 has_gid "$D" "$IP"
	check "sysfs has its link type" [ "$(<"/sys/class/infiniband/$D/node_desc")" = ferroce_direct ]
	check "Its driver id and ABI are its own, and a context must ask for the ABI" is "$D" "$DIRECT"
	check "Those of the other type are rdma_rxe's" is "$DEV" "$RXE"
	mark "the second type on one interface"
	check_fails "An interface with a device of one type gets none of the other" \
		add_device x ferroce_direct "$NETDEV"
	check "One line of the log says why" logged "$NETDEV: this interface has a device already"
	check_fails "Nor does the other way round" add_device x ferroce w0
	check_fails "A name is used once" add_device "$DEV" ferroce_direct x0
	check_fails "A type that begins like ours is refused" add_device x ferroce_dir x0
	check "None of these has left a device" not has_device x
}

# librxe takes devices by driver id, or by a name that begins with rxe.
stock_library() {
	ibv_devinfo -d "$D" >/tmp/said 2>&1
	note </tmp/said
	check "A program does not find the device" said 1 "IB device '$D' wasn't found"
	check "That is all it says" said 1 .
	IBV_SHOW_WARNINGS=1 ibv_devinfo -d "$D" >/tmp/said 2>&1
	note </tmp/said
	check "If asked, libibverbs says why" said 1 'no userspace device-specific driver'
	check "The program finds the other device" ibv_devinfo -d "$DEV"
	check "The device gets a name that librxe looks for" rdma dev set "$D" name rxe9
	ibv_devinfo -d rxe9 >/tmp/said 2>&1
	note </tmp/said
	check "A program does not find it either" said 1 "IB device 'rxe9' wasn't found"
	check "libibverbs names the ABI" said 1 'does not support the kernel ABI of 100'
	rdma dev set rxe9 name "$D"
	pingpong rc 4 -n 100
}

# consume FAMILY: kernel verbs of every kind, see 49-kernel-verbs.sh.
consume() {
	local before
	before=$(dmesg | wc -l)
	# The module's init always returns an error, so insmod fails.
	insmod /ferroce/consumer.ko device="$D" gid="$(gid_index "$D" "$1")" 2>/dev/null
	dmesg | tail -n +$((before + 1)) | grep -o 'ferroce-test: .*' >/tmp/said
	grep 'ferroce-test: not ok' /tmp/said && return 1
	[ "$(grep -c 'ferroce-test: ok' /tmp/said)" -gt 10 ] && said 1 'ferroce-test: 1\.\.'
}

# An NVMe host and its target find each other through the connection manager of the kernel.
copy_to_disk() {
	echo "transport=rdma,traddr=$IP,trsvcid=4420,nqn=$NQN" >/dev/nvme-fabrics && within 30 has_disk || return
	head -c 4M /dev/urandom >/tmp/there
	dd if=/tmp/there "of=/dev/$(disk)" bs=64k oflag=direct status=none &&
		dd "if=/dev/$(disk)" of=/tmp/back bs=1M count=4 iflag=direct status=none &&
		cmp /tmp/there /tmp/back || return
	echo 1 >"$(echo /sys/class/nvme/nvme*/delete_controller)"
	within 30 not has_disk
}

opens_and_closes() { # ADDRESS
	open_nvme_port 2 rdma "$1" 4421 || return
	rm "$NVMET/ports/2/subsystems/$NQN"
}

# has_no_device COMMAND...: whether the command fails with ENODEV.
has_no_device() { ! "$@" >/tmp/said 2>&1 && grep -q 'No such device' /tmp/said; }

# What Documentation/abi.rst says of interfaces that are no Ethernet.
on_a_tunnel() {
	ip link add t0 type ipip local "$IP" remote 10.0.9.2
	ip addr add 10.0.7.1/24 dev t0
	ip link set t0 up
	check "A device of type ferroce is added to a tunnel" add_device x ferroce t0
	within 5 has_gid x 10.0.7.1
	check "The connection manager accepts an address there" opens_and_closes 10.0.7.1
	rdma link del x
	check "A device of type ferroce_direct is added to a tunnel" add_device x ferroce_direct t0
	within 5 has_gid x 10.0.7.1
	check "The connection manager knows no such address, as documented" has_no_device opens_and_closes 10.0.7.1
	ip link del t0
	check "The device is removed with the tunnel" within 10 not has_device x
}

kernel_users() {
	if [ -f /ferroce/consumer.ko ]; then
		fail_all_kinds
		check "A module uses kernel verbs over IPv4" consume "$IP"
		check "A module uses kernel verbs over IPv6" consume fd00::9
	else
		skip "A module uses kernel verbs" "the module comes with a build of ferroce"
	fi
	if ! modinfo nvmet_rdma >/dev/null 2>&1; then
		skip "NVMe over RDMA" "only the stock kernel has it"
		return
	fi
	check "An NVMe target listens" eval 'modprobe nvme_rdma && make_nvme_target memory_backed=1 &&
		open_nvme_port 1 rdma "$IP" 4420'
	check "A host writes 4 MiB to the disk of the target and reads them" copy_to_disk
	on_a_tunnel
	rm "$NVMET"/ports/*/subsystems/*
	rmdir "$NVMET"/ports/*
	echo 0 >"$NVMET/subsystems/$NQN/namespaces/1/enable"
	rmdir "$NVMET/subsystems/$NQN/namespaces/1" "$NVMET/subsystems/$NQN"
	check "Target and host unload" within 20 modprobe -r nvmet_rdma nvme_rdma
}

follows() {
	ip netns add c
	check "The interface moves to another namespace" ip link set w0 netns c
	check "Its device follows" within 10 eval '[ "$(ip netns exec c rdma link | grep -c "$D/1 .*netdev w0")" = 1 ]'
	check "It is of the same type" is "$D" "$DIRECT"
	check "The interface comes back" ip -n c link set w0 netns 1
	address w0 "$IP" fd00::9
	check "So does its device" within 10 eval 'has_gid "$D" "$IP" && is "$D" "$DIRECT"'
	ip netns del c
}

# On unload, rdma_rxe unregisters all devices with its driver id.
without_rxe() {
	if ! modinfo rdma_rxe >/dev/null 2>&1 || rxe_takes_port; then
		skip "rdma_rxe unloads" "it is not beside ferroce here"
		return
	fi
	check "rdma_rxe loads" modprobe rdma_rxe
	check "rdma_rxe unloads" rmmod rdma_rxe
	check "The device of type ferroce_direct stays" eval 'port_is "$D" ACTIVE && is "$D" "$DIRECT"'
	check "That of type ferroce goes, as documented" within 10 not has_device "$DEV"
	check "It is added again" add_device "$DEV" ferroce "$NETDEV"
	GID4=$(gid_index "$DEV" "$ADDR")
	pingpong rc 4 -n 100
}

# both_at_once: two types want one interface; one gets it.
both_at_once() {
	local i count
	for i in {1..20}; do
		rdma link add a type ferroce netdev x0 2>/dev/null &
		rdma link add b type ferroce_direct netdev x0 2>/dev/null
		wait $!
		count=$(rdma link | grep -c 'netdev x0')
		[ "$count" = 1 ] || { echo "$count devices"; return 1; }
		rdma link del a 2>/dev/null || rdma link del b || return
	done
}

# set_up TYPE TYPE: devices a and b, on w0 and x0.
set_up() {
	load_driver ferroce && make_links && add_device a "$1" w0 && add_device b "$2" x0
}

# in_order TYPE TYPE WHAT...: removes the interface of the first device, the second device, the module, in this order.
in_order() {
	local what is_loaded=1
	set_up "$1" "$2" || return
	for what in "${@:3}"; do
		case $what in
		interface) ip link del w0 && within 10 not has_device a ;;
		device) [ -z "$is_loaded" ] || { has_device b && rdma link del b; } ;;
		module) unload ferroce && is_loaded= ;;
		esac || { echo "$what"; return 1; }
	done
	no_devices && not loaded ferroce && [ ! -e /sys/kernel/debug/ferroce ]
}

any_order() {
	local order types
	for types in "ferroce ferroce_direct" "ferroce_direct ferroce"; do
		for order in "interface device module" "interface module device" "device interface module" \
			"device module interface" "module interface device" "module device interface"; do
			check "$types: $order, and nothing is left" in_order $types $order
		done
	done
}

# unloads_meanwhile: the module goes while devices of both types are added.
unloads_meanwhile() {
	local i words pids
	for i in {1..10}; do
		load_driver ferroce && make_links || return
		pids=()
		for words in "n type ferroce netdev w0" "n_direct type ferroce_direct netdev x0"; do
			(while loaded ferroce; do rdma link add $words; done) 2>/dev/null &
			pids+=($!)
		done
		within 5 eval 'has_device n && has_device n_direct'
		unload ferroce || return
		wait "${pids[@]}"
		no_devices || return
	done
}

make_links
address w0 "$IP" fd00::9
both_types
stock_library
kernel_users
follows
without_rxe
check "Of two types that want one interface, one gets it" both_at_once
check "The driver unloads with devices of both types" unload ferroce
check "Both are removed" no_devices
any_order
check "The module goes while devices of both types are added" unloads_meanwhile
install_driver
make_links
check "rdma link add loads the module by the alias of the type" add_device "$D" ferroce_direct w0
check "Its device is of that type" is "$D" "$DIRECT"
unload ferroce
check "With as_rxe=1 it loads" insmod "$KO" as_rxe=1
check "The type ferroce_direct makes devices then, too" add_device "$D" ferroce_direct w0
check "They are of that type" is "$D" "$DIRECT"
check "The driver unloads" unload ferroce

finish
