# SPDX-License-Identifier: GPL-2.0
#
# What check-panic.sh runs in the guest, which does not survive it.

modprobe -a ib_uverbs udp_tunnel ip6_udp_tunnel
insmod /ferroce/ferroce.ko
