# SPDX-License-Identifier: GPL-2.0
#
# A process that writes garbage into the queues it shares with the kernel; see hostile.py, hostile_fields.py,
# hostile_races.py and hostile_abort.py.
#
#	v0 [DEV] ------ v1      the hostile process talks to itself, next to a harmless one
#
# rdma_rxe does not survive this test, so it is skipped (unless HOSTILE_ANYWAY=1). HOSTILE_TESTS selects tests;
# HOSTILE_ROUNDS and SEED control the random part.
#
# machine: VM_POISON=1
# vm: TOPOLOGY=single KERNEL=umdebug
# vm: TOPOLOGY=single PROVIDER=direct KERNEL=umdebug

. "$VM_LIB"

if [ "$DRIVER" != ferroce ] && [ -z "${HOSTILE_ANYWAY-}" ]; then
	skip "Hostile user space" "DRIVER=$DRIVER trusts what user space writes"
	finish
fi
python_tests hostile.py ${HOSTILE_TESTS-}
if [ -z "${HOSTILE_TESTS-}" ]; then
	python_tests hostile_fields.py
	python_tests hostile_races.py
	python_tests hostile_abort.py
fi
check "The log contains no errors" nothing_at_error_level
check "The log is not flooded" log_is_not_flooded
finish
