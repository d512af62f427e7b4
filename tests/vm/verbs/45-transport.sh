# SPDX-License-Identifier: GPL-2.0
#
# The connected transports as an application sees them: operations, statuses, events, states. See transport.py,
# flushes.py, mistakes.py, not_ready.py, states.py and transitions.py. 47-unreliable.sh has more tests of UC.
#
#	v0 [DEV] ------ v1      two QPs of one device talk to each other
#
# vm: TOPOLOGY=single KERNEL=umdebug
# vm: TOPOLOGY=single VM_ENV=LOCAL_PATH=0 KERNEL=umdebug
# vm: TOPOLOGY=single PROVIDER=direct KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=kcsan

cd "${VM_LIB%/*}" && exec python3 -c "
import flushes, mistakes, not_ready, states, tap, transitions, transport
tap.run(transport.TESTS, flushes.TESTS, mistakes.TESTS, not_ready.TESTS, states.TESTS, transitions.TESTS)"
