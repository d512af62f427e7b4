# SPDX-License-Identifier: GPL-2.0
#
# A kernel without IPv6 (`ipv6.disable=1`): everything works over IPv4, and nothing enters the code of IPv6; see
# no_ipv6.py. The set-up says that it finds no IPv6 address.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# machine: VM_CMDLINE=ipv6.disable=1 VM_COLD=1
# vm: TOPOLOGY=single KERNEL=umdebug

. "$VM_LIB"
modprobe -a rdma_ucm
check "The kernel has no IPv6" not test -e /proc/net/if_inet6
pingpong rc 4 -n 100
pingpong uc 4 -n 100
pingpong ud 4 -n 20
perftest ib_write_bw -s 65536 -n 100
managed "rping" "rping -s -a $ADDR -C 5 -V" "rping -c -a $ADDR -C 5 -V"
cd "${VM_LIB%/*}" || exit
python_tests no_ipv6.py
check "The device is removed" rdma link del "$DEV"
check "The driver unloads" unload "$DRIVER"
finish
