# SPDX-License-Identifier: GPL-2.0
#
# Datagrams and their users: the general services QP (GSI) and the connection manager.
#
#	v0 [DEV] ------ v1 [PEER_DEV]: the device itself, a device in namespace b, or one on another machine
#
# vm: TOPOLOGY=single KERNEL=umdebug
# vm: TOPOLOGY=single PROVIDER=direct KERNEL=umdebug
# vm: TOPOLOGY=netns KERNEL=umdebug
# vm: TOPOLOGY=pair PEER_DRIVER=rxe

. "$VM_LIB"

exchange() {
	pingpong ud 4 -n 100
	pingpong ud 6 -n 100
	pingpong ud 4 -n 20 -s 1
	# On a real link a burst may lose a datagram, and the program then waits forever.
	if [ "$TOPOLOGY" != pair ]; then
		perftest ib_send_bw -c UD -s 1024 -n 200
		perftest ib_send_bw -c UD -s 4096 -n 200
	fi
	perftest ib_send_lat -c UD -s 8 -n 100
}

exchange
if [ "$TOPOLOGY" = pair ]; then
	REVERSE=1
	exchange
	finish
fi

[ "$TOPOLOGY" != netns ] || python_tests datagrams.py

modprobe -a rdma_ucm
for at in "$ADDR" "$ADDR6"; do
	managed "rping with $at" "rping -s -a $at -C 10 -V" "rping -c -a $at -C 10 -V"
	managed "ucmatose with $at" "ucmatose -b $at -c 5 -C 10" "ucmatose -s $at -c 5 -C 10"
	managed "udaddy with $at" "udaddy -b $at -c 2 -C 10" "udaddy -s $at -c 2 -C 10"
done
managed "perftest connected by the manager" \
	"ib_write_bw -R -d $DEV -F -s 65536 -n 50 -x $GID4" \
	"ib_write_bw -R -d ${PEER_DEV:-$DEV} -F -s 65536 -n 50 -x ${PEER_GID4:-$GID4} $ADDR"
ip link set "$NETDEV" down
ip link set "$NETDEV" up
address "$NETDEV" "$ADDR" "$ADDR6" 2>/dev/null
gid_index "$DEV" "$ADDR" >/dev/null
managed "rping after the link was down and up" "rping -s -a $ADDR -C 10" "rping -c -a $ADDR -C 10"
check "Every connection identifier is destroyed" \
	sh -c '! rdma resource show cm_id | grep -q "lqpn"'

finish
