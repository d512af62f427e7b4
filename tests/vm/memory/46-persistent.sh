# SPDX-License-Identifier: GPL-2.0
#
# FLUSHes of persistent memory; see persistent.py. The kernel uses a part of the machine's memory as persistent memory
# and exposes it as a file that can be mapped and pinned for the long term (device DAX).
#
#	v0 [DEV] ------ v1      two QPs of one device talk to each other
#
# machine: VM_CMDLINE=memmap=64M!1G VM_COLD=1
# vm: TOPOLOGY=single
# vm: TOPOLOGY=single VM_ENV=LOCAL_PATH=0

REGION=/sys/bus/nd/devices/region0

# Creates /dev/dax0.0 from the memory.
make_dax() {
	modprobe -a nd_e820 nd_pmem dax_pmem device_dax 2>/dev/null || return
	[ -d "$REGION/dax0.0" ] || return
	echo namespace0.0 >/sys/bus/nd/drivers/nd_pmem/unbind
	echo ram >"$REGION/dax0.0/mode"
	cat /proc/sys/kernel/random/uuid >"$REGION/dax0.0/uuid"
	echo namespace0.0 >"$REGION/dax0.0/namespace"
	echo dax0.0 >/sys/bus/nd/drivers/dax_pmem/bind
	[ -c /dev/dax0.0 ]
}

make_dax || echo "# no persistent memory in this kernel"
cd "${VM_LIB%/*}" && exec python3 persistent.py
