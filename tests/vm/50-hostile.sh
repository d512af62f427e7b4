# SPDX-License-Identifier: GPL-2.0
#
# A process that writes garbage into the queues it shares with the kernel; see hostile.py,
# hostile_fields.py, hostile_races.py and hostile_abort.py.
#
#	v0 [DEV] ------ v1      the hostile process talks to itself, and a harmless one beside it
#
# rdma_rxe does not survive this, so it is not asked to (HOSTILE_ANYWAY=1 does). HOSTILE_TESTS names some of the
# tests, HOSTILE_ROUNDS and SEED steer the random part.
#
# vm: TOPOLOGY=single KERNEL=umdebug

. "$VM_LIB"

if [ "$DRIVER" != ferroce ] && [ -z "${HOSTILE_ANYWAY-}" ]; then
	skip "hostile user space" "DRIVER=$DRIVER trusts what user space writes"
	finish
fi
python_tests hostile.py ${HOSTILE_TESTS-}
if [ -z "${HOSTILE_TESTS-}" ]; then
	python_tests hostile_fields.py
	python_tests hostile_races.py
	python_tests hostile_abort.py
fi
check "the log has nothing of all that at error level" nothing_at_error_level
check "the log is not flooded with all that" log_is_not_flooded
finish
