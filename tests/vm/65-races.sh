# SPDX-License-Identifier: GPL-2.0
#
# Objects that go while others use them, at last the device itself; see races.py. RACE_SECONDS is how long, SEED
# steers the chance.
#
#	v0 [DEV] ------ v1      four processes at once
#
# vm: TOPOLOGY=single KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=kcsan

. "$VM_LIB"

cd "${VM_LIB%/*}" || exit
check "objects go while four processes use theirs" timeout 120 python3 races.py
no_qps() { [ "$(qps "$DEV")" = 0 ]; }
check "nothing is left of them" within 10 no_qps

# The same with the device itself.
seeded
note "seed ${SEED:-4791}"
for round in 1 2 3; do
	timeout 120 python3 races.py races >/tmp/races 2>&1 &
	races=$!
	check "they are at work, $round" within 20 not no_qps
	sleep "0.$((RANDOM % 9))"
	mark "device removed, $round"
	check "the device is removed under them, $round" timeout 60 rdma link del "$DEV"
	check "they end, $round" within 60 not kill -0 "$races"
	check "with nothing to complain about, $round" wait "$races"
	note </tmp/races
	check "the device comes back, $round" add_device "$DEV" "$DRIVER" "$NETDEV"
	gid_index "$DEV" "$ADDR" >/dev/null
done
python_tests races.py removed
check "the device comes back" add_device "$DEV" "$DRIVER" "$NETDEV"
check "the driver is unloaded" bash -c "rdma link del $DEV; rmmod $(module "$DRIVER")"
load_driver "$DRIVER"
check "and comes back" set_up_device
check "and works" timeout 30 python3 races.py undisturbed
check "the log is not flooded with all that" log_is_not_flooded

finish
