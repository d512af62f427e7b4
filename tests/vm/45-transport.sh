# SPDX-License-Identifier: GPL-2.0
#
# The RC transport as an application sees it: operations, statuses, events; see transport.py
# and mistakes.py.
#
#	v0 [DEV] ------ v1      two QPs of one device talk to each other
#
# vm: TOPOLOGY=single

cd "${VM_LIB%/*}" && exec python3 -c "import mistakes, tap, transport; tap.run(transport.TESTS, mistakes.TESTS)"
