# SPDX-License-Identifier: GPL-2.0
#
# Processes without rights that call every verb with any argument, in any order, and are killed at any point; see
# hostile_verbs.py.
#
#	v0 [DEV], hostile processes ------ v1 [PEER_DEV]     v1 is in namespace b; a connection that must not suffer
#
# VERBS_SECONDS is how long, SEED steers the chance. With FEEDBACK=0 nothing is learnt from what is reached.
#
# vm: TOPOLOGY=netns KERNEL=umdebug
# long: TOPOLOGY=netns KERNEL=umdebug VM_TIMEOUT=1500 VM_ENV=VERBS_SECONDS=300
# long: TOPOLOGY=netns KERNEL=kcsan

. "$VM_LIB"

if [ "$DRIVER" != ferroce ] && [ -z "${HOSTILE_ANYWAY-}" ]; then
	skip "hostile processes" "DRIVER=$DRIVER trusts what user space writes"
	finish
fi
cd "${VM_LIB%/*}" || exit
python_tests hostile_verbs.py
check "the log has nothing of all that at error level" nothing_at_error_level
check "the log is not flooded with all that" log_is_not_flooded
pingpong rc 4 -n 100
check "the device goes" timeout 60 rdma link del "$DEV"
check "the driver is unloaded" timeout 60 rmmod "$(module "$DRIVER")"
check "and comes back" set_up_device

finish
