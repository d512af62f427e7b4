# SPDX-License-Identifier: GPL-2.0
#
# A kernel without IPv6 (`ipv6.disable=1`): everything works over IPv4, and nothing enters the code of IPv6.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# machine: VM_CMDLINE=ipv6.disable=1 VM_COLD=1
# vm: TOPOLOGY=single DRIVER=none VM_ENV=TESTED=ferroce

. "$VM_LIB"
modprobe -a rdma_ucm
DRIVER=${TESTED:-ferroce} DEV=$(device_name "${TESTED:-ferroce}" 0) PEER_DEV=$DEV PEER_ADDR=$ADDR
export DRIVER DEV PEER_DEV PEER_ADDR
load_driver "$DRIVER"
check "The kernel has no IPv6" not test -e /proc/net/if_inet6
check "A device is created" add_device "$DEV" "$DRIVER" v0
GID4=$(gid_index "$DEV" "$ADDR") PEER_GID4=$GID4
export GID4
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
