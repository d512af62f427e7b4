# SPDX-License-Identifier: GPL-2.0
#
# UCX's own test program: its layers UCP and UCT over the transports of verbs. TCP is for the set-up of connections
# only.

. ./lib.sh

# ucp TRANSPORT FAMILY TEST [OPTION...]: FAMILY is 6 for an IPv6 GID, otherwise empty.
ucp() {
	local transport=$1 index=FERROCE_GID_INDEX$2 test=$3
	shift 3
	compare "$transport $test $*" -- sh -c '
		export UCX_TLS=$1,tcp:aux,self UCX_NET_DEVICES=$FERROCE_DEVICE:1,$FERROCE_NETDEV
		eval "export UCX_IB_GID_INDEX=\$$2"
		exec sh ./pair.sh 13337 "ucx_perftest -P 0" "exec ucx_perftest -P 0 \$FERROCE_ADDRESS -t $3 -w 1 $4"' \
		sh "$transport" "$index" "$test" "$*"
}

# uct TRANSPORT TEST [OPTION...]: the layer below, which drives one transport of one device.
uct() {
	local transport=$1 test=$2
	shift 2
	compare "uct $transport $test $*" -- sh -c '
		export UCX_IB_GID_INDEX=$FERROCE_GID_INDEX
		base="ucx_perftest -P 0 -x $1 -d $FERROCE_DEVICE:1"
		exec sh ./pair.sh 13337 "$base" "exec $base \$FERROCE_ADDRESS -t $2 -w 1 $3"' \
		sh "$transport" "$test" "$*"
}

ucp rc_verbs '' tag_lat -n 100 -s 8
ucp rc_verbs '' ucp_put_bw -n 50 -s 65536
# UCX 1.18 drops datagrams from an IPv4 GID, on any RoCE device.
ucp ud_verbs 6 tag_bw -n 20 -s 65536
[ -n "$WHOLE" ] || exit 0

for test in tag_lat tag_bw stream_lat stream_bw ucp_put_lat ucp_put_bw ucp_get ucp_am_lat ucp_am_bw; do
	ucp rc_verbs '' "$test" -n 100 -s 1024
	ucp rc_verbs '' "$test" -n 10 -s 1048576
done
for test in ucp_add ucp_fadd ucp_swap ucp_cswap; do ucp rc_verbs '' "$test" -n 50 -s 8; done
for test in tag_lat tag_bw stream_bw ucp_am_lat ucp_am_bw; do
	ucp ud_verbs 6 "$test" -n 100 -s 1024
	ucp ud_verbs 6 "$test" -n 5 -s 262144
done
uct rc_verbs am_lat -n 100 -s 8
uct rc_verbs am_bw -D bcopy -n 100 -s 2048
uct rc_verbs put_lat -D short -n 100 -s 8
uct rc_verbs put_bw -D zcopy -n 50 -s 65536
uct rc_verbs get -D zcopy -n 50 -s 65536
uct rc_verbs fadd -n 50 -s 8
uct rc_verbs cswap -n 50 -s 8
