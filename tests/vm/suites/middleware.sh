# SPDX-License-Identifier: GPL-2.0
#
# Middleware over verbs: UCX, libfabric, and Open MPI with four ranks.
#
#	single   v0 [DEV] ------ v1      all programs use one device
#
# MIDDLEWARE=all runs every program, otherwise a sample.
#
# machine: VM_IMAGE=suites VM_TIMEOUT=2400
# vm: TOPOLOGY=single VM_IMAGE=suites VM_TIMEOUT=1500 KERNEL=umdebug
# long: TOPOLOGY=single VM_IMAGE=suites VM_TIMEOUT=3600 VM_ENV=MIDDLEWARE=all

. "$VM_LIB"

modprobe -a rdma_ucm
export UCX_NET_DEVICES=$DEV:1,$NETDEV UCX_IB_GID_INDEX=$GID4 UCX_LOG_LEVEL=error FI_VERBS_IFACE=$NETDEV
PORT=13400

# both NAME SERVER CLIENT: runs a server on its own port, $PORT in both texts, and a client.
both() {
	local rc_server=0 rc_client=0 pid
	PORT=$((PORT + 1))
	mark "$1"
	timeout 480 $(eval echo "$2") >/tmp/server 2>&1 &
	pid=$!
	within 60 sh -c "ss -Hltn 'sport = :$PORT' | grep -q . || ss -Hlun 'sport = :$PORT' | grep -q ." || true
	timeout 480 $(eval echo "$3") >/tmp/client 2>&1 || rc_client=$?
	wait "$pid" || rc_server=$?
	if [ "$rc_server" = 0 ] && [ "$rc_client" = 0 ]; then
		ok "$1"
		return
	fi
	note "server ($2) returned $rc_server:"
	tail -n 20 /tmp/server | note
	note "client ($3) returned $rc_client:"
	tail -n 20 /tmp/client | note
	not_ok "$1"
}

# ucx TRANSPORT TEST [OPTION...]: UCX over this transport, and TCP only for connection set-up.
ucx() {
	local transport=$1 test=$2
	shift 2
	export UCX_TLS=$transport,tcp:aux,self
	both "ucx_perftest $transport $test $*" "ucx_perftest -P 0 -p \$PORT" \
		"ucx_perftest -P 0 -p \$PORT $ADDR -t $test -w 1 $*"
}

# uct TRANSPORT TEST [OPTION...]: the layer below UCP, which drives one transport of one device.
uct() {
	local transport=$1 test=$2
	shift 2
	export UCX_TLS=all
	# The client sends the test to the server, but not the device.
	both "ucx_perftest uct $transport $test $*" "ucx_perftest -P 0 -p \$PORT -x $transport -d $DEV:1" \
		"ucx_perftest -P 0 -p \$PORT $ADDR -x $transport -d $DEV:1 -t $test -w 1 $*"
}

ucx_sample() {
	ucx rc_verbs tag_lat -n 100 -s 8
	ucx rc_verbs tag_bw -n 20 -s 1048576
	ucx rc_verbs ucp_put_bw -n 50 -s 65536
	ucx rc_verbs ucp_fadd -n 50 -s 8
	# With the IPv6 GID: UCX 1.18 drops packets from an IPv4 one, on any RoCE device.
	UCX_IB_GID_INDEX=$GID6
	ucx ud_verbs tag_lat -n 100 -s 8
	ucx ud_verbs tag_bw -n 20 -s 65536
	UCX_IB_GID_INDEX=$GID4
}

ucx_all() {
	local test
	for test in tag_lat tag_bw stream_lat stream_bw ucp_put_lat ucp_put_bw ucp_get ucp_am_lat ucp_am_bw; do
		ucx rc_verbs "$test" -n 100 -s 1024
		ucx rc_verbs "$test" -n 10 -s 1048576
	done
	for test in ucp_add ucp_fadd ucp_swap ucp_cswap; do ucx rc_verbs "$test" -n 50 -s 8; done
	uct rc_verbs am_lat -n 100 -s 8
	uct rc_verbs am_bw -D bcopy -n 100 -s 2048
	uct rc_verbs put_lat -D short -n 100 -s 8
	uct rc_verbs put_bw -D zcopy -n 50 -s 65536
	uct rc_verbs get -D zcopy -n 50 -s 65536
	uct rc_verbs fadd -n 50 -s 8
	uct rc_verbs cswap -n 50 -s 8
	UCX_IB_GID_INDEX=$GID6
	for test in tag_lat tag_bw stream_bw ucp_am_lat ucp_am_bw; do
		ucx ud_verbs "$test" -n 100 -s 1024
		ucx ud_verbs "$test" -n 5 -s 262144
	done
	UCX_IB_GID_INDEX=$GID4
}

# fabric PROVIDER [OPTION...]: fi_pingpong, which checks the data.
fabric() {
	local provider=$1
	shift
	both "fi_pingpong $provider $*" "fi_pingpong -B \$PORT -p $provider -c -I 10 $*" \
		"fi_pingpong -P \$PORT -p $provider -c -I 10 $* $ADDR"
}

libfabric() {
	# Without a shared receive queue, ofi_rxm posts a receive to an endpoint that it has closed, if it sees
	# that the peer disconnects before it sees the last message: libfabric's issue 11828, seen with 2.1.
	export FI_OFI_RXM_USE_SRX=1
	fabric verbs -e msg -d "$DEV" -S 1024
	if [ "$DRIVER" = rxe ]; then
		skip "fi_pingpong verbs;ofi_rxm" "rdma_rxe's completion queues are too small for it"
	else
		fabric "'verbs;ofi_rxm'" -e rdm -d "$DEV" -S 1024
	fi
	[ "${MIDDLEWARE-}" = all ] || return
	fabric verbs -e msg -d "$DEV" -S all
	fabric verbs -e dgram -d "$DEV-dgram" -S 1024
	fabric "'verbs;ofi_rxd'" -e rdm -d "$DEV-dgram" -S 1024
	[ "$DRIVER" = rxe ] || fabric "'verbs;ofi_rxm'" -e rdm -d "$DEV" -S all
}

# mpi RANKS TRANSPORT: a ring, reductions and one-sided operations, with results checked by mpi.py.
mpi() {
	export UCX_TLS=$2,tcp:aux,self
	check "Open MPI computes with $1 ranks over $2" timeout 800 mpirun --allow-run-as-root --oversubscribe -n "$1" \
		--mca pml ucx --mca osc ucx --mca btl ^openib --mca plm isolated python3 /ferroce/mpi.py
}

export OMPI_MCA_btl_tcp_if_include=$NETDEV PRTE_MCA_prte_silence_shared_fs=1
if [ "${MIDDLEWARE-}" = all ]; then ucx_all; else ucx_sample; fi
libfabric
mpi 4 rc_verbs
if [ "${MIDDLEWARE-}" = all ]; then
	mpi 2 rc_verbs
	UCX_IB_GID_INDEX=$GID6 mpi 4 ud_verbs
fi
finish
