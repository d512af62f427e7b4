# SPDX-License-Identifier: GPL-2.0
#
# Extended reliable connections, which only ferroce's own provider has: rdma-core's ping-pong, perftest, the programs of
# the connection manager, and xrc.py. With lost packets, too.
#
#	single   v0 [DEV] ------ v1             the device talks to itself
#	netns    v0 [DEV] ------ v1 [PEER_DEV]  v1 is in namespace b
#
# vm: TOPOLOGY=single PROVIDER=direct KERNEL=umdebug
# vm: TOPOLOGY=single PROVIDER=direct KERNEL=umdebug VM_ENV=LOCAL_PATH=0
# vm: TOPOLOGY=netns PROVIDER=direct KERNEL=umdebug

. "$VM_LIB"

modprobe -a rdma_ucm

# exchange FAMILY [OPTION...]: ibv_xsrq_pingpong, whose option -c is a number of clients.
exchange() {
	local family=$1
	shift
	traffic "ibv_xsrq_pingpong over IPv$family${*:+ $*}" 18515 "ibv_xsrq_pingpong -d \$dev -g \$gid$family $*" \
		"ibv_xsrq_pingpong -d \$dev -g \$gid$family $* \$to"
}

exchanges() {
	exchange 4 -n 100
	exchange 6 -n 50 -e
	exchange 4 -n 20 -s 65536 -m 1024
}

# The bandwidth tests send several messages at a time, and those of a server in both directions.
bandwidths() {
	local tool
	for tool in ib_send_bw ib_write_bw ib_read_bw; do
		perftest $tool -c XRC -n 200
		perftest $tool -c XRC -n 50 -s 20000 -m 256
	done
	perftest ib_send_bw -c XRC -n 100 -b
	perftest ib_send_bw -c XRC -n 100 -q 4
	perftest ib_send_lat -c XRC -n 100
	perftest ib_write_lat -c XRC -n 100
	perftest ib_atomic_bw -c XRC -n 100 -A FETCH_AND_ADD
	perftest ib_atomic_lat -c XRC -n 100 -A CMP_AND_SWAP
}

manager() {
	managed "rdma_xserver -c x" "rdma_xserver -c x" "rdma_xclient -s $ADDR -c x"
}

# Packets of DEV are lost, repeated and reordered, and found not ready.
impaired() {
	mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
	local impair=/sys/kernel/debug/ferroce/$DEV/impair
	check "Packets are impaired" eval "echo 'seed 7 loss 10000 duplicate 10000 reorder 10000 rnr 10000' >$impair"
	exchange 4 -n 200
	exchange 4 -n 30 -s 65536 -m 1024
	perftest ib_write_bw -c XRC -n 100
	REVERSE=1 perftest ib_read_bw -c XRC -n 100
	perftest ib_atomic_bw -c XRC -n 100 -A FETCH_AND_ADD
	check "Packets are not impaired any more" eval "echo off >$impair"
}

exchanges
bandwidths
manager
case $TOPOLOGY in
single) python_tests xrc.py ;;
netns) impaired ;;
esac
check "Nothing is logged at error level" nothing_at_error_level
finish
