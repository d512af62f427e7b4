# SPDX-License-Identifier: GPL-2.0
#
# Programs of Debian that move data over RDMA: qperf, rsockets' rcopy, whose file is compared, and
# fio.

. ./lib.sh

# pair NAME PORT SERVER CLIENT: on one device.
pair() {
	compare "$1" --require-rdma --stats -- sh ./pair.sh "$2" "$3" "$4"
}

for test in rc_bi_bw rc_bw rc_lat rc_rdma_read_bw rc_rdma_write_bw rc_compare_swap_mr; do
	pair "qperf -cm 1 $test" 19765 'timeout 60 qperf; true' \
		"qperf \$FERROCE_ADDRESS -cm 1 -t 1 $test && qperf \$FERROCE_ADDRESS quit"
done
head -c 8000000 /dev/urandom >sent
pair "rcopy of 8 MB" 7427 'timeout 60 rcopy; true' \
	'rcopy sent $FERROCE_ADDRESS:$PWD/got && cmp sent got; rc=$?; rm -f got; kill $(pidof rcopy); exit $rc'
for mode in write read; do
	pair "fio, rdma $mode" 8888 \
		"fio --ioengine=rdma --name=target --port=8888 --rw=read --bs=64k --size=16m" \
		"fio --ioengine=rdma --name=source --hostname=\$FERROCE_ADDRESS --port=8888 --verb=$mode --rw=write \
			--bs=64k --size=16m --iodepth=8"
done
