# SPDX-License-Identifier: GPL-2.0
#
# Completion counters, see comp_cntr.py. The counters are of the kernel: any provider's QPs have them.
#
#	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b; or one device, which talks to itself
#
# vm: TOPOLOGY=single PROVIDER=direct KERNEL=umdebug
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

cd "${VM_LIB%/*}" && exec python3 comp_cntr.py ${COMP_CNTR-}
