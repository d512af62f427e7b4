# SPDX-License-Identifier: GPL-2.0
#
# Unprivileged processes that call every verb with any argument in any order and are killed at any point; see
# hostile_verbs.py.
#
#	v0 [DEV], hostile processes ------ v1 [PEER_DEV]     v1 is in namespace b; a connection that must not suffer
#
# VERBS_SECONDS is the duration, SEED seeds the random choices. FEEDBACK=0 disables the coverage feedback.
#
# machine: VM_POISON=1
# vm: TOPOLOGY=netns KERNEL=umdebug
# long: TOPOLOGY=netns KERNEL=umdebug VM_TIMEOUT=1500 VM_ENV=VERBS_SECONDS=300
# long: TOPOLOGY=netns KERNEL=kcsan

. "$VM_LIB"

if [ "$DRIVER" != ferroce ] && [ -z "${HOSTILE_ANYWAY-}" ]; then
	skip "Hostile processes" "DRIVER=$DRIVER trusts what user space writes"
	finish
fi
cd "${VM_LIB%/*}" || exit
python_tests hostile_verbs.py
check "The log contains no errors" nothing_at_error_level
check "The log is not flooded" log_is_not_flooded
pingpong rc 4 -n 100
check "The device is removed" timeout 60 rdma link del "$DEV"
check "The driver unloads" timeout 60 rmmod "$(module "$DRIVER")"
check "The device is set up again" set_up_device

finish
