# SPDX-License-Identifier: GPL-2.0
#
# Both drivers in one kernel. They share a driver id, and rdma_rxe takes any device that it finds by its
# netdev for one of its own; so it must not find ours, whatever happens to the netdevs.
#
#	v0 [DEV, ferroce] ------ v1 [PEER_DEV, rxe]     v1 is in namespace b
#	w0                ------ w1                     for refusals; no device
#
# Run with the drivers exchanged too. In a kernel with KASAN this would show writes into the wrong device.
#
# vm: TOPOLOGY=netns DRIVER=ferroce PEER_DRIVER=rxe
# vm: TOPOLOGY=netns DRIVER=rxe PEER_DRIVER=ferroce

. "$VM_LIB"

# Which end is whose. Only the words differ: devices, netdevs, and where to run a command.
if [ "$DRIVER" = ferroce ]; then
	ours=$DEV ours_net=$NETDEV theirs=$PEER_DEV theirs_net=$PEER_NETDEV
	at_ours() { "$@"; }
	at_theirs() { at_peer "$@"; }
else
	ours=$PEER_DEV ours_net=$PEER_NETDEV theirs=$DEV theirs_net=$NETDEV
	at_ours() { at_peer "$@"; }
	at_theirs() { "$@"; }
fi

both_ways() { # NAME
	mark "$1"
	pingpong rc 4 -n 100
	REVERSE=1 pingpong rc 4 -n 100
}

# What the core says of a device: its attributes must not change behind our back.
facts() { ibv_devinfo -v -d "$1" | grep -v 'hca_id\|transport\|GID\['; }

check "both devices are active" bash -c "rdma link | grep -c ACTIVE | grep -qx 2"
both_ways "interop at MTU 1024"
pingpong rc 6 -n 100 -m 4096 -s 65536
REVERSE=1 pingpong rc 6 -n 100 -m 4096 -s 65536

# Every event of each netdev, with both drivers listening.
before=$(facts "$ours")
for event in down up "mtu 1500" "mtu $MTU" "address 02:00:00:00:00:77" "promisc on" "promisc off" \
	"multicast off" "multicast on"; do
	# shellcheck disable=SC2086
	at_ours ip link set "$ours_net" $event
	# shellcheck disable=SC2086
	at_theirs ip link set "$theirs_net" ${event/:77/:78}
done
at_ours ip addr add 10.0.0.100/24 dev "$ours_net"
at_theirs ip addr add 10.0.0.101/24 dev "$theirs_net"
at_ours ip addr del 10.0.0.100/24 dev "$ours_net"
at_theirs ip addr del 10.0.0.101/24 dev "$theirs_net"
for netdev in "$ours_net" "$theirs_net"; do
	where=at_ours
	[ "$netdev" = "$ours_net" ] || where=at_theirs
	$where ip link set "$netdev" down
	$where ip link set "$netdev" name e9
	$where ip link set e9 name "$netdev"
	$where ip link set "$netdev" up
done
check "ours is active again" within 5 port_is "$ours" ACTIVE
check "theirs is active again" within 5 port_is "$theirs" ACTIVE
check "what ours reports has not changed" [ "$(facts "$ours")" = "$before" ]
# IPv6 addresses went with the link.
ip addr add "$ADDR6/64" dev "$NETDEV" nodad
at_peer ip addr add "$PEER_ADDR6/64" dev "$PEER_NETDEV" nodad
check "all GIDs are there" within 5 eval 'has_gid "$DEV" "$ADDR6" && has_gid "$PEER_DEV" "$PEER_ADDR6"'
both_ways "after every event"

# Port 4791 of a namespace belongs to the driver that was first in it; the other is refused there.
make_veth w0 w1
if [ "$DRIVER" = ferroce ]; then first=ferroce second=rxe; else first=rxe second=ferroce; fi
check_fails "$second is refused where $first has the port" add_device second "$second" w0
check "$first makes a second device there" add_device first "$first" w0
ip link set w0 mtu 1500
ip link set w0 down
ip link set w0 up
check "which is active after events" within 5 port_is first ACTIVE
check "its MTU followed" within 5 attribute_is first active_mtu '^1024'
ip link del w0
check "it goes with the netdev" within 10 not has_device first
both_ways "after a netdev that both wanted"

# Either driver is removed first, the other works on.
load_again() { # DRIVER
	load_driver "$1"
	if [ "$1" = "$DRIVER" ]; then set_up_device; else set_up_peer; fi
}

check "our device is removed first" rdma link del "$ours"
check "theirs is not impressed" port_is "$theirs" ACTIVE
check "our driver is unloaded" unload ferroce
check "theirs is still there" port_is "$theirs" ACTIVE
check "our driver comes back" load_again ferroce
both_ways "after ours was gone"
check "their device is removed first" rdma link del "$theirs"
check "ours is not impressed" port_is "$ours" ACTIVE
check "their device comes back" load_again rxe
both_ways "after theirs was gone"

# rdma_rxe unregisters every device of the shared driver id when it goes. That is documented; what matters
# is that ours go in order. With lockdep, each of its queue pairs holds rdma_rxe, also QP 1 of a device (7.3,
# rxe_reclassify_send_socket()).
case $KERNEL in debug | umdebug) rdma link del "$theirs" ;; esac
mark "rmmod rdma_rxe"
check "their driver is unloaded" timeout 60 rmmod rdma_rxe
check "their device is gone" not has_device "$theirs"
check "ours, too, as documented" within 10 not has_device "$ours"
check "our driver can be unloaded" unload ferroce
check "both come back" bash -c "modprobe rdma_rxe && insmod $KO"
check "their device comes back" load_again rxe
check "our device comes back" load_again ferroce
both_ways "after all was gone"

finish
