# SPDX-License-Identifier: GPL-2.0
#
# Administrators who make, change, move and delete interfaces, devices and namespaces at random, two at a time,
# while programs use what is there; at last the driver itself comes and goes. See hostile_admin.py.
#
#	v0 [DEV] ------ v1 [PEER_DEV]                a connection that must not suffer; v1 is in namespace b
#	w0 ------ w1, x0 ------ x1, bond9, w0.7      what is changed, with devices hx, hy, hz
#
# ADMIN_SECONDS is how long, SEED steers the chance.
#
# vm: TOPOLOGY=netns
# long: TOPOLOGY=netns KERNEL=umdebug VM_TIMEOUT=900 VM_ENV=ADMIN_SECONDS=300

. "$VM_LIB"
. "${VM_LIB%/*}/wait.sh"

seconds=$((${ADMIN_SECONDS:-20} * SLOWNESS))
seed=${SEED:-4791}
modprobe -a bonding 8021q rdma_ucm 2>/dev/null
cd "${VM_LIB%/*}" || exit

# reign SEED: administrators and users until time is up; what they did goes to the log.
reign() { python3 hostile_admin.py "$1" "$seconds" 2>/tmp/reign; }

# gone: what they made is away.
gone() {
	local name
	for name in w0.7 bond9 w0 x0; do ip link del "$name"; done
	for name in hx hy hz; do rdma link del "$name"; done
	ip netns del c
	ip netns del d
	for name in hx hy hz; do within 20 not has_device "$name" || return; done
} 2>/dev/null

mark "administrators, seed $seed"
python3 bystander.py >/tmp/bystander 2>&1 &
bystander=$!
within 30 has_qp "$DEV" RTS
check "the administrators' commands were carried out, or refused" reign "$seed"
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

# The same while the driver comes and goes.
loads() {
	local end=$((SECONDS + seconds))
	while [ "$SECONDS" -lt "$end" ]; do
		sleep "0.$((RANDOM % 9))"
		timeout 60 rmmod "$(module "$DRIVER")"
		case $? in
		0) echo 1 >>/tmp/loads ;;
		124) echo rmmod >>/tmp/hung ;;
		esac
		load_driver "$DRIVER"
	done
}
mark "the driver comes and goes"
loads &
loader=$!
check "the same while the driver comes and goes" reign $((seed + 1000))
note </tmp/reign
wait "$loader"
check "rmmod did not hang" [ ! -e /tmp/hung ]
check "the driver came and went" [ "$(wc -l </tmp/loads)" -gt 0 ]
gone
check "the driver is unloaded" within 20 unload "$DRIVER"
load_driver "$DRIVER"
check "the devices come back" eval 'set_up_device && set_up_peer'
pingpong rc 4 -n 100

finish
