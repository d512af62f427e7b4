# SPDX-License-Identifier: GPL-2.0
#
# Smoke test: a small amount of traffic of each kind.
# vm: TOPOLOGY=single
# vm: TOPOLOGY=netns
# vm: TOPOLOGY=pair
# quick: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

check "rdma link shows the device" grep -q "link $DEV/1 state ACTIVE" <(rdma link)
pingpong rc 4 -n 100
pingpong rc 6 -n 100
perftest ib_write_bw -s 65536 -n 100
perftest ib_send_bw -s 65536 -n 100
perftest ib_read_bw -s 65536 -n 100
finish
