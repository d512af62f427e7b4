# SPDX-License-Identifier: GPL-2.0
#
# Verbs that ferroce's own provider has and librxe lacks; see direct_verbs.py. With PROVIDER=present the provider
# drives a device that librxe drives, too.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# vm: TOPOLOGY=single PROVIDER=direct KERNEL=umdebug
# vm: TOPOLOGY=single PROVIDER=present KERNEL=umdebug
# long: TOPOLOGY=single PROVIDER=direct KERNEL=kcsan

. "$VM_LIB"

if [ "$PROVIDER" = present ]; then
	copy_provider
	export RDMAV_DRIVERS=ferroce
fi
cd "${VM_LIB%/*}" && exec python3 direct_verbs.py ${DIRECT_VERBS-}
