# SPDX-License-Identifier: GPL-2.0
#
# How long traffic keeps the process of highest priority on a CPU from running; see hold.py, which prints figures. They
# are meaningful only without emulation and on an otherwise idle machine.
#
#	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b; all traffic is made on one processor
#
# rdma_rxe requests a READ whole and ferroce in parts, so the responses to either are measured.
#
# HOLD_ROUNDS rounds of HOLD_SECONDS (15 of 0.2) for each kind of traffic, or for the kinds in HOLD_TESTS. With
# HOLD_JUDGED, the median round must stay within the network's own budget, unless the delay is longer without any
# traffic.
#
# long: alone TOPOLOGY=netns KERNEL=uml VM_CMDLINE=pin_cpus VM_ENV=HOLD_JUDGED=1
# long: alone TOPOLOGY=netns KERNEL=uml VM_CMDLINE=pin_cpus DRIVER=rxe
# long: alone TOPOLOGY=netns KERNEL=uml VM_CMDLINE=pin_cpus PEER_DRIVER=rxe VM_ENV='HOLD_TESTS=reads HOLD_JUDGED=1'

. "$VM_LIB"

cd "${VM_LIB%/*}" || exit
python_tests hold.py ${HOLD_TESTS-}
pingpong rc 4 -n 100

finish
