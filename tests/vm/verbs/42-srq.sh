# SPDX-License-Identifier: GPL-2.0
#
# Shared receive queues through rdma-core's Python binding (srq.py), its ping-pong and perftest.
#
#	v0 [DEV] ------ v1 [PEER_DEV]: the device itself, or a device in namespace b
#
# vm: TOPOLOGY=single KERNEL=umdebug
# vm: TOPOLOGY=single VM_ENV=LOCAL_PATH=0 KERNEL=umdebug
# vm: TOPOLOGY=netns KERNEL=umdebug

. "$VM_LIB"

if [ "$TOPOLOGY" = single ]; then
	cd "${VM_LIB%/*}" && exec python3 srq.py ${SRQ_TESTS-}
fi

pingpong srq 4 -n 50
pingpong srq 6 -n 50 -e
pingpong srq 4 -n 20 -q 4 -s 60000 -m 4096
perftest ib_send_bw --use-srq -n 200
perftest ib_send_bw --use-srq -n 100 -q 8 -e
perftest ib_send_bw --use-srq -b -n 100
perftest ib_send_lat --use-srq -n 100
perftest ib_send_bw -c UD --use-srq -s 1024 -n 100
finish
