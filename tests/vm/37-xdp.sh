# SPDX-License-Identifier: GPL-2.0
#
# Bursts over an interface with an XDP program, for which the kernel makes the buffers of a burst one; see xdp.py.
#
#	v0 [DEV] ------ v1      two QPs of one device talk to each other, by way of lo
#
# vm: TOPOLOGY=single VM_ENV=LOCAL_PATH=0

. "$VM_LIB"

mount -t bpf bpf /sys/fs/bpf 2>/dev/null
python_tests xdp.py
ip link set lo xdpgeneric off 2>/dev/null
finish
