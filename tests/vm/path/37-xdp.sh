# SPDX-License-Identifier: GPL-2.0
#
# Super-packets over an interface with an XDP program: the kernel linearizes their buffers; see xdp.py.
#
#	v0 [DEV] ------ v1      two QPs of one device talk to each other over lo
#
# vm: TOPOLOGY=single VM_ENV=LOCAL_PATH=0

. "$VM_LIB"

mount -t bpf bpf /sys/fs/bpf 2>/dev/null
python_tests xdp.py
ip link set lo xdpgeneric off 2>/dev/null
finish
