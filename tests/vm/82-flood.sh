# SPDX-License-Identifier: GPL-2.0
#
# What a flood of packets costs, what it does to others, and whom memory is charged to; see flood.py, and flood_valid.py
# for packets that are carried out. What becomes of a process whose memory cgroup has little; see bounded.py.
#
#	v0 [DEV] ------ v1 [PEER_DEV], flood     v1 is in namespace b
#
# FLOOD_FACTOR is how many times as expensive as to a closed port a packet may be; without it, that is only printed, and
# so is how much a flood slows others down. FLOOD_TESTS names some of the tests of flood.py, for them alone,
# FLOOD_PACKETS says how many packets of each kind there are. SEED steers the chance.
#
# vm: TOPOLOGY=netns VM_TIMEOUT=1500 KERNEL=umdebug
# long: alone TOPOLOGY=netns VM_TIMEOUT=1500 VM_ENV=FLOOD_FACTOR=5

. "$VM_LIB"

cd "${VM_LIB%/*}" || exit
note "seed ${SEED:-4791}"
python_tests flood.py ${FLOOD_TESTS-}
if [ -z "${FLOOD_TESTS-}" ]; then
	python_tests flood_valid.py
	python_tests bounded.py
fi
check "the log is not flooded with all that" log_is_not_flooded
pingpong rc 4 -n 100

finish
