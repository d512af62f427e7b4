# SPDX-License-Identifier: GPL-2.0
#
# Administrators who make, change, move and delete interfaces, devices and namespaces at random, two at a time,
# while programs use what is there; then the driver itself comes and goes; at last the same where devices belong to
# namespaces and are sent to others. See hostile_admin.py.
#
#	v0 [DEV] ------ v1 [PEER_DEV]                a connection that must not suffer; v1 is in namespace b
#	w0 ------ w1, x0 ------ x1, bond9, w0.7      what is changed, with devices hx, hy, hz
#
# ADMIN_SECONDS is how long, SEED steers the chance.
#
# vm: TOPOLOGY=netns KERNEL=umdebug
# long: TOPOLOGY=netns KERNEL=umdebug VM_TIMEOUT=1200 VM_ENV=ADMIN_SECONDS=300

. "$VM_LIB"

seconds=$((${ADMIN_SECONDS:-20} * SLOWNESS))
seed=${SEED:-4791}
note "seed $seed"
modprobe -a bonding 8021q rdma_ucm 2>/dev/null
cd "${VM_LIB%/*}" || exit

# reign SEED CONNECTIONS MOVES: administrators and users until time is up, so many connections have worked, and so many
# devices have gone to another namespace; what they did goes to the log.
commands=0
reign() {
	local rc=0
	python3 hostile_admin.py "$1" "$seconds" "$2" "$3" 2>/tmp/reign || rc=$?
	commands=$((commands + $(sed -n 's/ commands, .*//p' /tmp/reign)))
	return "$rc"
}

# quiet: what an administrator is refused may be said; that is not one command in ten.
quiet() {
	check "the log is not flooded with all that" log_is_not_flooded $((100 + commands / 10))
	note "$(wc -l </tmp/said) lines for $commands commands"
}

# gone: the interfaces that they made are away, and with them the devices. Those in a namespace that goes come back to
# the first one.
gone() {
	local name
	for name in w0.7 bond9 w0 x0; do ip link del "$name"; done
	ip netns del c
	ip netns del d
	for name in hx hy hz; do within 20 not has_device "$name" || return; done
} 2>/dev/null

# beside SEED MOVES: administrators and users, and a connection over DEV and PEER_DEV.
beside() {
	local bystander
	mark "administrators, seed $1"
	python3 bystander.py >/tmp/bystander 2>&1 &
	bystander=$!
	within 30 has_qp "$DEV" RTS
	check "the administrators' commands were carried out, or refused, and connections worked" reign "$1" 1 "$2"
	note </tmp/reign
	if [ "$DRIVER" = ferroce ]; then
		kill "$bystander"
		check "a connection beside them delivered everything" wait "$bystander"
		note </tmp/bystander
	else
		kill -9 "$bystander"
		skip "a connection beside them delivered everything" "not asked of rxe"
	fi
	check "what they made goes" gone
}

beside "$seed" 0

# The same while the driver comes and goes, with a connection at work when it goes: at least once, also where programs
# start slowly.
loads() {
	local end=$((SECONDS + seconds)) latest=$((SECONDS + 4 * seconds)) talker met
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
check "the same while the driver comes and goes" reign $((seed + 1000)) 0 0
note </tmp/reign
wait "$loader"
check "rmmod did not hang" [ ! -e /tmp/hung ]
check "the driver went while a connection was at work" [ -s /tmp/met ]
note "it went $(wc -l </tmp/loads) times, $(wc -l </tmp/met) of them so"
gone
check "the driver is unloaded" within 20 unload "$DRIVER"
load_driver "$DRIVER"
check "the devices come back" eval 'set_up_device && set_up_peer'
pingpong rc 4 -n 100

# Each device belongs to a namespace. That cannot be changed while there is more than one.
unload "$DRIVER"
ip netns del b
if ! within 20 rdma system set netns exclusive; then
	skip "devices that belong to namespaces" "$(rdma system set netns exclusive 2>&1)"
	quiet
	finish
fi
TOPOLOGY=single
# v1 went with the namespace, and v0 with v1.
make_veth v0 v1
address v0 "$ADDR" "$ADDR6"
load_driver "$DRIVER"
check "a device comes where there is one namespace" set_up_device
export PEER_DEV=$DEV PEER_GID4=$GID4
ip netns attach first 1
beside $((seed + 2000)) 1
quiet
pingpong rc 4 -n 100

finish
