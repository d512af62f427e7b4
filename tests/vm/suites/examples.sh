# SPDX-License-Identifier: GPL-2.0
#
# rdma-core's examples: the ping-pongs of libibverbs and every program of librdmacm.
#
#	single   v0 [DEV] ------ v1             the device is its own peer
#	netns    v0 [DEV] ------ v1 [PEER_DEV]  v1 is in namespace b
#
# CONNECTIONS is the number of connections that cmtime makes (1000).
#
# machine: VM_TIMEOUT=1500
# vm: TOPOLOGY=netns VM_TIMEOUT=1500 VM_ENV=CONNECTIONS=200 KERNEL=umdebug
# long: TOPOLOGY=netns VM_TIMEOUT=1500 VM_ENV=CONNECTIONS=200
# long: TOPOLOGY=single VM_TIMEOUT=2400
# long: TOPOLOGY=netns VM_TIMEOUT=2400

. "$VM_LIB"

modprobe -a rdma_ucm
TRAFFIC_SECONDS=180

# both NAME READY SERVER CLIENT: runs two programs; READY is a command that succeeds once the server accepts.
both() {
	local name=$1 ready=$2 rc_server=0 rc_client=0 pid
	mark "$name"
	timeout "$TRAFFIC_SECONDS" $3 >/tmp/server 2>&1 &
	pid=$!
	within 30 $ready
	at_peer timeout "$TRAFFIC_SECONDS" $4 >/tmp/client 2>&1 || rc_client=$?
	# Some servers never end.
	[ -z "${STOP-}" ] || kill "$(pgrep -P "$pid")" 2>/dev/null
	wait "$pid" || rc_server=$?
	[ -z "${STOP-}" ] || rc_server=0
	if [ "$rc_server" = 0 ] && [ "$rc_client" = 0 ]; then
		ok "$name"
		return 0
	fi
	note "server ($3) returned $rc_server:"
	tail -n 20 /tmp/server | note
	note "client ($4) returned $rc_client:"
	tail -n 20 /tmp/client | note
	not_ok "$name"
	return 1
}

# A server of rsockets that forks listens on TCP first.
listens() { cm_listens || ss -Hltn 'sport = :7471' | grep -q .; }

# by_manager SERVER CLIENT: runs two programs that connect through the connection manager, given as text with their
# arguments.
by_manager() { both "$1 / $2" listens "$1" "$2"; }

# ---- libibverbs ------------------------------------------------------------------------------

pingpongs() {
	local kind
	for kind in rc uc; do
		pingpong "$kind" 4 -n 100
		pingpong "$kind" 6 -n 100 -e
		pingpong "$kind" 4 -n 20 -s 65536 -m 1024
		pingpong "$kind" 4 -n 5 -s 1000000 -m 4096
	done
	pingpong rc 4 -n 100 -N
	pingpong rc 4 -n 100 -o
	pingpong rc 4 -n 100 -o -P
	if [ "$DRIVER" = rxe ] || [ "$PEER_DRIVER" = rxe ]; then
		skip "ibv_rc_pingpong -O" "rdma_rxe has no implicit on-demand paging"
	else
		pingpong rc 4 -n 100 -O
	fi
	pingpong ud 4 -n 100
	pingpong ud 6 -n 100 -e
	pingpong srq 4 -n 100
	pingpong srq 6 -n 100 -e -q 4
	skip "ibv_xsrq_pingpong" "librxe has no XRC; 42-xrc.sh uses the own provider"
	skip "ibv_rc_pingpong -t" "the ABI has no completion timestamps"
	skip "ibv_rc_pingpong -j" "neither driver has device memory"
}

events() {
	local pid
	timeout 60 stdbuf -oL ibv_asyncwatch -d "$DEV" >/tmp/events 2>&1 &
	pid=$!
	within 10 test -s /tmp/events
	ip link set "$NETDEV" down
	within 10 grep -qiE "port.err" /tmp/events
	ip link set "$NETDEV" up
	within 10 grep -qiE "port.active" /tmp/events
	kill "$(pgrep -P "$pid")"
	wait "$pid"
	check "ibv_asyncwatch reports the link down" grep -qiE "port.err" /tmp/events
	check "ibv_asyncwatch reports the link up" grep -qiE "port.active" /tmp/events
	address "$NETDEV" "$ADDR" "$ADDR6" 2>/dev/null
	gid_index "$DEV" "$ADDR" >/dev/null
	gid_index "$DEV" "$ADDR6" >/dev/null
	pingpong rc 4 -n 50
}

# ---- librdmacm -------------------------------------------------------------------------------

connections() { # ADDRESS
	by_manager "rping -s -a $1 -C 10 -V" "rping -c -a $1 -C 10 -V"
	by_manager "rping -s -a $1 -C 5 -V -S 65000" "rping -c -a $1 -C 5 -V -S 65000"
	by_manager "ucmatose -b $1 -c 10 -C 20 -S 8192" "ucmatose -s $1 -c 10 -C 20 -S 8192"
	by_manager "udaddy -b $1 -c 4 -C 20" "udaddy -s $1 -c 4 -C 20"
	by_manager "rdma_server -s $1" "rdma_client -s $1"
}

# connection_times COUNT [OPTION...]: cmtime as this release has it. On one device the ends must not choose the same QP
# numbers; the oldest makes real QPs, has no options, and its server does not end.
connection_times() {
	case $(cmtime -h 2>&1) in
	*controller*) by_manager "cmtime -L -b $ADDR -C $ADDR -c $*" "cmtime -b $PEER_ADDR -C $ADDR -c $* -q 200000" ;;
	*base_qpn*) by_manager "cmtime -b $ADDR -c $*" "cmtime -s $ADDR -c $* -q 200000" ;;
	*) STOP=1 by_manager "cmtime -b $ADDR -c $1" "cmtime -s $ADDR -c $1" ;;
	esac
}

more_connections() {
	by_manager "rdma_xserver -c r" "rdma_xclient -s $ADDR -c r"
	by_manager "ucmatose -b $ADDR -c 2 -t 8" "ucmatose -s $ADDR -c 2 -t 8"
	by_manager "ucmatose -b $ADDR -c 1 -m" "ucmatose -s $ADDR -c 1 -m"
	STOP=1 by_manager "rping -s -a $ADDR -C 5 -P" "rping -c -a $ADDR -C 5"
	by_manager "rping -s -a $ADDR -C 5 -q" "rping -c -a $ADDR -C 5 -q"
	connection_times 20
	connection_times "${CONNECTIONS:-1000}" -n 2
	skip "rdma_xserver -c x" "librxe has no XRC; 42-xrc.sh uses the own provider"
	skip "udpong" "librdmacm's datagram sockets make an address handle without GRH, wrong on any RoCE device"
}

groups() {
	local group TRAFFIC_SECONDS=60
	if [ "$DRIVER" = rxe ]; then
		skip "mckey" "rdma_rxe loses unsignaled sends of a queue pair that is destroyed at once"
		return
	fi
	for group in 239.1.1.5 239.255.1.7; do
		both "mckey -m $group" mckey_joined "stdbuf -oL mckey -m $group -b $ADDR -C 5" \
			"mckey -m $group -b $PEER_ADDR -s -C 5"
	done
	both "mckey -m 239.1.1.9 -o" mckey_joined "stdbuf -oL mckey -m 239.1.1.9 -b $ADDR -C 5" \
		"mckey -m 239.1.1.9 -b $PEER_ADDR -s -o -C 5"
	skip "mckey -M" "the core joins no IPv6 group on RoCEv2 (ENOTSUPP)"
}

sockets() {
	local size
	for size in 64 4096 65536 all; do
		by_manager "rstream -S $size -C 5 -I 5" "rstream -s $ADDR -S $size -C 5 -I 5"
	done
	by_manager "rstream -T b -S 4096 -C 10 -I 5" "rstream -s $ADDR -T b -S 4096 -C 10 -I 5"
	by_manager "rstream -T f -S 4096 -C 10 -I 5" "rstream -s $ADDR -T f -S 4096 -C 10 -I 5"
	by_manager "rstream -T r -S 4096 -C 10 -I 5" "rstream -s $ADDR -T r -S 4096 -C 10 -I 5"
	by_manager "rstream -T v -S 4096 -C 10 -I 5" "rstream -s $ADDR -T v -S 4096 -C 10 -I 5"
	by_manager "riostream -S 65536 -C 5 -I 5" "riostream -s $ADDR -S 65536 -C 5 -I 5"
	head -c 3000000 /dev/urandom >/tmp/from
	STOP=1 by_manager "rcopy" "rcopy /tmp/from $ADDR:/tmp/to"
	check "rcopy copies the file unchanged" cmp /tmp/from /tmp/to
}

pingpongs
connections "$ADDR"
connections "$ADDR6"
more_connections
groups
sockets
events
check "no connection identifier is left" not sh -c 'rdma resource show cm_id | grep lqpn'
finish
