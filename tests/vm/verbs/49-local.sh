# SPDX-License-Identifier: GPL-2.0
#
# Local peers, without a network between them; see local.py. Other tests cover connections in general, with and without
# loopback. This one covers what is specific to loopback: when packets take it, when they do not, and that consumers
# cannot tell the difference.
#
#	v0 [DEV] ------ v1      two QPs of one device talk to each other
#
# vm: TOPOLOGY=single KERNEL=umdebug
# vm: TOPOLOGY=single VM_ENV=LOCAL_PATH=0 KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=kcsan

. "$VM_LIB"

python_tests local.py

# Two processes. Loopback packets do not pass the lo interface.
over_lo() { cat /sys/class/net/lo/statistics/tx_packets; }
handed_over() { counter "$DEV" local_pkts; }
lo=$(over_lo) handed=$(handed_over)
perftest ib_write_bw -s 65536 -n 500
perftest ib_send_lat -s 64 -n 500
lo=$(($(over_lo) - lo)) handed=$(($(handed_over) - handed))
# perftest itself uses a little TCP.
if [ "${LOCAL_PATH:-1}" = 0 ]; then
	check "No packet takes the loopback path" test "$handed" = 0
	check "The packets pass the lo interface" test "$lo" -gt 1000
else
	check "The packets of two processes take the loopback path" test "$handed" -ge 9000
	check "The packets do not pass the lo interface" test "$lo" -lt 1000
fi

finish
