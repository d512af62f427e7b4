# SPDX-License-Identifier: GPL-2.0
#
# The ABI of ferroce's own provider in the hands of processes that break its rules; see hostile_direct.py.
#
#	v0 [DEV] ------ v1      the hostile processes talk to themselves, next to harmless ones
#
# PROMISE_SECONDS is the duration of the random part, SEED seeds it, and PROMISE_CONTEXTS is a number of contexts.
# PROMISE_TESTS selects tests.
#
# machine: VM_POISON=1
# vm: TOPOLOGY=single KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=umdebug VM_TIMEOUT=1500 VM_ENV="PROMISE_SECONDS=300 PROMISE_CONTEXTS=1000"
# long: TOPOLOGY=single KERNEL=uml VM_TIMEOUT=1500 VM_ENV="PROMISE_SECONDS=600 PROMISE_CONTEXTS=1000"

. "$VM_LIB"

if [ "$DRIVER" != ferroce ]; then
	skip "Hostile processes with the own ABI" "DRIVER=$DRIVER does not have it"
	finish
fi
python_tests hostile_direct.py ${PROMISE_TESTS-}
check "The log contains no errors" nothing_at_error_level
check "The log is not flooded" log_is_not_flooded
finish
