# SPDX-License-Identifier: GPL-2.0
#
# perftest over RC: WRITE, SEND and READ, bandwidth and latency. The test does not judge the figures; it checks that
# streams with many outstanding requests complete.
#
#	single   v0 [DEV] ------ v1             the device talks to itself
#	netns    v0 [DEV] ------ v1 [PEER_DEV]  v1 is in namespace b
#
# PERFTEST_ROUNDS is the number of messages (200). perftest-matrix.sh covers a sample between namespaces.
#
# vm: TOPOLOGY=single KERNEL=umdebug
# long: TOPOLOGY=netns

. "$VM_LIB"

n=${PERFTEST_ROUNDS:-200}

for size in 8 1024 4096 65536; do
	perftest ib_write_bw -s "$size" -n "$n"
	perftest ib_send_bw -s "$size" -n "$n"
	perftest ib_read_bw -s "$size" -n "$n"
done
for size in 8 4096; do
	perftest ib_write_lat -s "$size" -n "$n"
	perftest ib_send_lat -s "$size" -n "$n"
	perftest ib_read_lat -s "$size" -n "$n"
done
# All sizes from 2 bytes to 8 MiB.
perftest ib_write_bw -a -n 10
# Bidirectional; several QPs; small path MTU; deep and shallow READ pipelines; events; inline.
perftest ib_write_bw -b -s 65536 -n "$n"
perftest ib_send_bw -b -q 4 -s 4096 -n "$n"
perftest ib_write_bw -q 8 -s 16384 -n "$n"
perftest ib_write_bw -m 256 -s 65536 -n 50
perftest ib_read_bw -o 1 -s 65536 -n 50
perftest ib_read_bw -o 16 -s 65536 -n "$n"
perftest ib_send_bw -e -s 4096 -n "$n"
perftest ib_write_lat -I 64 -s 64 -n "$n"
perftest ib_write_bw -l 8 -s 1024 -n "$n"
perftest ib_send_bw --use_old_post_send -s 4096 -n "$n"

finish
