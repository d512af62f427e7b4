# SPDX-License-Identifier: GPL-2.0
#
# How long traffic keeps the most urgent process of a processor from running; see hold.py, which prints figures.
# They mean something where time passes as on a processor, that is not under emulation, and where nothing else
# runs.
#
#	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b; all traffic is made on one processor
#
# rdma_rxe asks for a READ whole, ferroce in parts, so its answers are looked at with either.
#
# HOLD_ROUNDS rounds of HOLD_SECONDS (15 of 0.2) for each kind of traffic, or for those that HOLD_TESTS names. With
# HOLD_JUDGED, the middle round is judged, by what the network allows itself, unless that is exceeded where there is no
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
