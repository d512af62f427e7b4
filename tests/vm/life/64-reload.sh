# SPDX-License-Identifier: GPL-2.0
#
# A machine loads the module again in mid-connection, while the link is down, so that its peer does not notice: the
# first connection afterwards succeeds, from the client's side and from the server's.
#
#	machine a: eth0 [DEV] ====== eth0 [DEV] :machine b
#
# vm: TOPOLOGY=pair

. "$VM_LIB"
modprobe -a rdma_ucm

# again: loads the module again and creates the device, as after a loss of power. The link is down, so that no
# disconnection reaches the peer.
again() {
	ip link set eth0 down
	pkill -9 -x rping
	within 30 not pgrep -x rping || return
	rdma link del "$DEV" && rmmod ferroce && load_driver ferroce && ip link set eth0 up || return
	address eth0 "$ADDR" "$ADDR6" 2>/dev/null
	until [ "$(</sys/class/net/eth0/carrier)" = 1 ]; do pause 0.05; done
	add_device "$DEV" ferroce eth0 && gid_index "$DEV" "$ADDR" >/dev/null
}

# serve: starts a server that takes one connection after another.
serve() {
	stdbuf -oL rping -s -P -a "$ADDR" >/tmp/server 2>&1 &
	within 30 cm_listens
}

connects() { timeout 30 rping -c -a "$PEER_ADDR" -C 5 -V; }

# mid_connection: leaves a connection behind that is in use.
mid_connection() {
	rping -c -a "$PEER_ADDR" -C 1000000 >/tmp/client 2>&1 &
	within 20 has_qp "$DEV" RTS && sleep 1
}

# A connection takes a few numbers, so each round is a chance for a number that the peer still knows.
for round in 1 2 3; do
	if [ "$NODE" = a ]; then
		[ "$round" != 1 ] || check "A server listens" serve
		barrier
		barrier
	else
		barrier
		check "A connection is in use, $round" mid_connection
		check "The client's machine loads the module again, $round" again
		check "The first connection of the client succeeds, $round" connects
		barrier
	fi
done
# The server's machine: its numbers are those that the client's peer knows.
if [ "$NODE" = a ]; then
	check "The server's machine loads the module again" again
	check "A server listens again" serve
	barrier
	barrier
else
	mid_connection
	barrier
	check "The first connection to the new server succeeds" connects
	barrier
fi
finish
