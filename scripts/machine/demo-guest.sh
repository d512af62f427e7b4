# SPDX-License-Identifier: GPL-2.0
#
# The part of the demo that runs in the guest: each program's own output, and what it shows.

. "$VM_LIB"

case $TOPOLOGY in
single) where="one $DRIVER device, $DEV on $NETDEV" ;;
netns) where="two $DRIVER devices in two network namespaces, $DEV and $PEER_DEV joined by veth" ;;
esac

# shown WHAT PATTERN: prints the client's output; it must hold the pattern.
shown() {
	sed 's/^/    /' /tmp/client
	if grep -qE "$2" /tmp/client; then
		echo "--> shown: $1"
	else
		not_ok "the output lacks '$2'"
	fi
}

echo
echo "=== $where; Linux $(uname -r), rdma-core $(dpkg-query -Wf '${Version}' ibverbs-providers 2>/dev/null)"
rdma link | sed 's/^/    /'
for family in 4 6; do
	echo
	echo "\$ ibv_rc_pingpong -d $DEV -c -n 1000      (GIDs of IPv$family)"
	pingpong rc "$family" -n 1000
	shown "1000 round trips of checked 4 KiB messages over a reliable connection, RoCEv2 on IPv$family" \
		'1000 iters'
done
echo
echo "\$ ib_write_bw -d $DEV -s 65536 -n 1000"
perftest ib_write_bw -s 65536 -n 1000
shown "RDMA writes of 64 KiB straight into the peer's memory, and their bandwidth" ' 65536 +1000 '
finish
