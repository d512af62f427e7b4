# SPDX-License-Identifier: GPL-2.0
#
# Peers on one machine, without a network in between; see local.py. All that a connection must be is tested
# elsewhere, both with this and without; here is what is its own: when packets are handed over, when they are
# not, and that consumers cannot tell.
#
#	v0 [DEV] ------ v1      two QPs of one device talk to each other
#
# vm: TOPOLOGY=single KERNEL=umdebug
# vm: TOPOLOGY=single VM_ENV=LOCAL_PATH=0 KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=kcsan

. "$VM_LIB"

python_tests local.py

# Two processes. What is handed over does not come by the loopback interface.
over_lo() { cat /sys/class/net/lo/statistics/tx_packets; }
handed_over() { cat "/sys/class/infiniband/$DEV/ports/1/hw_counters/local_pkts"; }
lo=$(over_lo) handed=$(handed_over)
perftest ib_write_bw -s 65536 -n 500
perftest ib_send_lat -s 64 -n 500
lo=$(($(over_lo) - lo)) handed=$(($(handed_over) - handed))
# perftest itself talks by TCP, a little.
if [ "${LOCAL_PATH:-1}" = 0 ]; then
	check "nothing was handed over" test "$handed" = 0
	check "and it went by the loopback interface" test "$lo" -gt 1000
else
	check "the packets of two processes were handed over" test "$handed" -ge 9000
	check "and did not go by the loopback interface" test "$lo" -lt 1000
fi

finish
