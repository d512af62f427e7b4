# SPDX-License-Identifier: GPL-2.0
#
# The cost of a packet flood, its effect on others, and the owner that its memory is charged to; see flood.py, and
# flood_valid.py for valid packets. bounded.py tests a process whose memory cgroup has a low limit.
#
#	v0 [DEV] ------ v1 [PEER_DEV], flood     v1 is in namespace b
#
# FLOOD_FACTOR limits the cost of a packet, as a multiple of the cost of a packet to a closed port. Without it, the test
# only prints this factor and the slowdown of others. FLOOD_TESTS selects tests of flood.py and leaves out all others.
# FLOOD_PACKETS is the number of packets of each kind, SEED seeds the random choices. Without FLOOD_FACTOR, floods are a
# sixth as long or less, unless ALL=1.
#
# vm: TOPOLOGY=netns VM_TIMEOUT=1500 KERNEL=umdebug
# long: alone TOPOLOGY=netns VM_TIMEOUT=1500 VM_ENV=FLOOD_FACTOR=5
# long: TOPOLOGY=netns VM_TIMEOUT=1500 KERNEL=umdebug VM_ENV=ALL=1

. "$VM_LIB"

cd "${VM_LIB%/*}" || exit
note "seed ${SEED:-4791}"
python_tests flood.py ${FLOOD_TESTS-}
if [ -z "${FLOOD_TESTS-}" ]; then
	python_tests flood_valid.py
	python_tests bounded.py
fi
check "The log is not flooded" log_is_not_flooded
pingpong rc 4 -n 100

finish
