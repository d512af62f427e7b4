# SPDX-License-Identifier: GPL-2.0
#
# Objects destroyed while others use them, last the device itself; see races.py. RACE_SECONDS is the duration, SEED
# seeds the random choices.
#
#	v0 [DEV] ------ v1      four processes in parallel
#
# machine: VM_POISON=1 VM_USER_MEMORY=1G
# vm: TOPOLOGY=single KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=kcsan

. "$VM_LIB"

cd "${VM_LIB%/*}" || exit
check "Objects are destroyed while four processes use theirs" timeout 120 python3 races.py
no_qps() { [ "$(qps "$DEV")" = 0 ]; }
check "No QP of the processes is left" within 10 no_qps

# The same with the device itself.
seeded
note "seed ${SEED:-4791}"
for round in 1 2 3; do
	timeout 120 python3 races.py races >/tmp/races 2>&1 &
	races=$!
	check "The processes are active, $round" within 20 not no_qps
	sleep "0.$((RANDOM % 9))"
	mark "device removed, $round"
	check "The device is removed under the processes, $round" timeout 60 rdma link del "$DEV"
	check "The processes end, $round" within 60 not kill -0 "$races"
	check "The processes report no error, $round" wait "$races"
	note </tmp/races
	check "The device is added again, $round" add_device "$DEV" "$DRIVER" "$NETDEV"
	gid_index "$DEV" "$ADDR" >/dev/null
done
python_tests races.py removed
check "The device is added again" add_device "$DEV" "$DRIVER" "$NETDEV"
check "The driver unloads" bash -c "rdma link del $DEV; rmmod $(module "$DRIVER")"
load_driver "$DRIVER"
check "The device is set up again" set_up_device
check "The device works" timeout 30 python3 races.py undisturbed
check "The log is not flooded" log_is_not_flooded

finish
