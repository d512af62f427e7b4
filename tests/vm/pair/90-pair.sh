# SPDX-License-Identifier: GPL-2.0
#
# Two machines over virtio-net: the driver with itself and with the in-tree driver, each as client and as server.
#
#	machine a: eth0 [DEV, DRIVER] ====== eth0 [DEV, PEER_DRIVER] :machine b
#
# vm: TOPOLOGY=pair VM_TIMEOUT=1200
# vm: TOPOLOGY=pair VM_TIMEOUT=1200 PEER_DRIVER=rxe

. "$VM_LIB"

exchange() {
	local mtu
	for mtu in 1024 4096; do
		pingpong rc 4 -m "$mtu" -n 200
		pingpong rc 6 -m "$mtu" -n 200
		pingpong rc 4 -m "$mtu" -n 20 -s 100001
		perftest ib_send_bw -m "$mtu" -s 65536 -n 100
		perftest ib_write_bw -m "$mtu" -s 65536 -n 100
		perftest ib_read_bw -m "$mtu" -s 65536 -n 100
	done
	perftest ib_write_lat -s 8 -n 200
	perftest ib_send_bw -b -q 4 -s 4096 -n 100
}

exchange
REVERSE=1
exchange

finish
