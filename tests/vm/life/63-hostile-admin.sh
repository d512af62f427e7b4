# SPDX-License-Identifier: GPL-2.0
#
# Administrators that create, change, move and delete interfaces, devices and namespaces at random, two at a time, while
# programs use them. Then the driver itself is loaded and unloaded. Last, the same where devices belong to namespaces
# and move between them. See hostile_admin.py.
#
#	v0 [DEV] ------ v1 [PEER_DEV]                a connection that must not suffer; v1 is in namespace b
#	w0 ------ w1, x0 ------ x1, bond9, w0.7      the interfaces that change, with devices hx, hy, hz
#
# ADMIN_SECONDS is the duration of each part, SEED seeds the random choices.
#
# vm: TOPOLOGY=netns KERNEL=umdebug
# long: TOPOLOGY=netns KERNEL=umdebug VM_TIMEOUT=1200 VM_ENV=ADMIN_SECONDS=300

. "$VM_LIB"

seconds=$((${ADMIN_SECONDS:-10} * SLOWNESS))
# Loading and unloading takes time, too.
loading=$((${ADMIN_SECONDS:-20} * SLOWNESS))
seed=${SEED:-4791}
note "seed $seed"
modprobe -a bonding 8021q rdma_ucm 2>/dev/null
cd "${VM_LIB%/*}" || exit

# reign SEED SECONDS CONNECTIONS MOVES: runs administrators and users until the time is over, that many connections have
# worked, and that many devices have moved to another namespace. The log shows their commands.
commands=0
reign() {
	local rc=0
	python3 hostile_admin.py "$@" 2>/tmp/reign || rc=$?
	commands=$((commands + $(sed -n 's/ commands, .*//p' /tmp/reign)))
	return "$rc"
}

# quiet: refused commands may log a line, but fewer than one in ten.
quiet() {
	check "The log is not flooded" log_is_not_flooded $((100 + commands / 10))
	note "$(wc -l </tmp/said) lines for $commands commands"
}

# gone: deletes the interfaces of the administrators, and with them the devices. The interfaces in a deleted namespace
# return to the first one.
gone() {
	local name
	for name in w0.7 bond9 w0 x0; do ip link del "$name"; done
	ip netns del c
	ip netns del d
	for name in hx hy hz; do within 20 not has_device "$name" || return; done
} 2>/dev/null

# beside SEED MOVES: runs administrators and users next to a connection over DEV and PEER_DEV.
beside() {
	local bystander
	mark "administrators, seed $1"
	# Several rounds for each command, without a processor of its own.
	python3 bystander.py 0.01 >/tmp/bystander 2>&1 &
	bystander=$!
	within 30 has_qp "$DEV" RTS
	check "Commands succeed or are refused, and connections work" reign "$1" "$seconds" 1 "$2"
	note </tmp/reign
	if [ "$DRIVER" = ferroce ]; then
		kill "$bystander"
		check "A connection beside the administrators delivers everything" wait "$bystander"
		note </tmp/bystander
	else
		kill -9 "$bystander"
		skip "A connection beside the administrators delivers everything" "not asked of rxe"
	fi
	check "The interfaces and devices of the administrators are removed" gone
}

beside "$seed" 0

# The same while the driver is loaded and unloaded, at least once with an active connection, even where programs start
# slowly.
loads() {
	local end=$((SECONDS + loading)) latest=$((SECONDS + 4 * loading)) talker met
	seeded
	while [ "$SECONDS" -lt "$end" ] || { [ ! -s /tmp/met ] && [ "$SECONDS" -lt "$latest" ]; }; do
		(set_up_device && set_up_peer)
		python3 bystander.py >/dev/null 2>&1 &
		talker=$!
		within 20 has_qp "$DEV" RTS
		sleep "0.$((RANDOM % 9))"
		met=/dev/null
		! has_qp "$DEV" RTS || met=/tmp/met
		timeout 60 rmmod "$(module "$DRIVER")"
		case $? in
		0) echo 1 | tee -a "$met" >>/tmp/loads ;;
		124) echo rmmod >>/tmp/hung ;;
		esac
		kill -9 "$talker"
		wait "$talker"
		load_driver "$DRIVER"
	done
} >/dev/null 2>&1
mark "the driver comes and goes"
loads &
loader=$!
check "Commands succeed or are refused while the driver is loaded and unloaded" reign $((seed + 1000)) "$loading" 0 0
note </tmp/reign
wait "$loader"
check "rmmod does not hang" [ ! -e /tmp/hung ]
check "The driver unloads while a connection is active" [ -s /tmp/met ]
note "unloaded $(wc -l </tmp/loads) times, $(wc -l </tmp/met) of them with an active connection"
gone
check "The driver unloads" within 20 unload "$DRIVER"
load_driver "$DRIVER"
check "The devices are set up again" eval 'set_up_device && set_up_peer'
pingpong rc 4 -n 100

# Each device belongs to a namespace. The mode cannot change while more than one namespace exists.
unload "$DRIVER"
ip netns del b
if ! within 20 rdma system set netns exclusive; then
	skip "Devices that belong to namespaces" "$(rdma system set netns exclusive 2>&1)"
	quiet
	finish
fi
TOPOLOGY=single
# v1 was deleted with the namespace, and v0 with v1.
make_veth v0 v1
address v0 "$ADDR" "$ADDR6"
load_driver "$DRIVER"
check "A device is added in the only namespace" set_up_device
export PEER_DEV=$DEV PEER_GID4=$GID4
ip netns attach first 1
beside $((seed + 2000)) 1
quiet
pingpong rc 4 -n 100

finish
