# SPDX-License-Identifier: GPL-2.0
#
# Both drivers in one kernel. They share a driver id, and rdma_rxe treats any device that it finds by its netdev as its
# own. So it must not find ours, whatever events the netdevs have.
#
#	v0 [DEV, ferroce] ------ v1 [PEER_DEV, rxe]     v1 is in namespace b
#	w0                ------ w1                     for the refusals; no device
#
# Also run with the drivers exchanged. A kernel with KASAN would show writes into the wrong device.
#
# vm: TOPOLOGY=netns DRIVER=ferroce PEER_DRIVER=rxe KERNEL=umdebug
# vm: TOPOLOGY=netns DRIVER=rxe PEER_DRIVER=ferroce KERNEL=umdebug

. "$VM_LIB"

# Select the ends of both drivers. Only names differ: devices, netdevs, and where commands run.
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

# The attributes that the core reports for a device. Events must not change them.
facts() { ibv_devinfo -v -d "$1" | grep -v 'hca_id\|transport\|GID\['; }

check "Both devices are active" bash -c "rdma link | grep -c ACTIVE | grep -qx 2"
both_ways "interop at MTU 1024"
pingpong rc 6 -n 100 -m 4096 -s 65536
REVERSE=1 pingpong rc 6 -n 100 -m 4096 -s 65536

# Send every event of each netdev, with both drivers listening.
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
check "The ferroce device is active again" within 5 port_is "$ours" ACTIVE
check "The rxe device is active again" within 5 port_is "$theirs" ACTIVE
check "The attributes of the ferroce device have not changed" [ "$(facts "$ours")" = "$before" ]
# The IPv6 addresses disappeared with the link.
ip addr add "$ADDR6/64" dev "$NETDEV" nodad
at_peer ip addr add "$PEER_ADDR6/64" dev "$PEER_NETDEV" nodad
check "All GIDs are present" within 5 eval 'has_gid "$DEV" "$ADDR6" && has_gid "$PEER_DEV" "$PEER_ADDR6"'
both_ways "after every event"

# Port 4791 of a namespace belongs to the first driver in it; the other driver is refused there.
make_veth w0 w1
if [ "$DRIVER" = ferroce ]; then first=ferroce second=rxe; else first=rxe second=ferroce; fi
check_fails "$second is refused where $first has the port" add_device second "$second" w0
check "$first creates a second device there" add_device first "$first" w0
ip link set w0 mtu 1500
ip link set w0 down
ip link set w0 up
check "The second device is active after events" within 5 port_is first ACTIVE
check "The MTU of the second device follows the netdev" within 5 attribute_is first active_mtu '^1024'
ip link del w0
check "The second device is removed with the netdev" within 10 not has_device first
both_ways "after a netdev that both wanted"

# Either driver is removed first; the other continues to work.
load_again() { # DRIVER
	load_driver "$1"
	if [ "$1" = "$DRIVER" ]; then set_up_device; else set_up_peer; fi
}

check "The ferroce device is removed first" rdma link del "$ours"
check "The rxe device stays active" port_is "$theirs" ACTIVE
check "ferroce unloads" unload ferroce
check "The rxe device is still active" port_is "$theirs" ACTIVE
check "ferroce loads and adds its device again" load_again ferroce
both_ways "after ours was gone"
check "The rxe device is removed first" rdma link del "$theirs"
check "The ferroce device stays active" port_is "$ours" ACTIVE
check "The rxe device is added again" load_again rxe
both_ways "after theirs was gone"

# On unload, rdma_rxe unregisters every device of the shared driver id. This is documented; our devices must be removed
# cleanly. With lockdep, each QP of rdma_rxe holds a reference on the module, including QP 1 of a device (7.3,
# rxe_reclassify_send_socket()).
case $KERNEL in debug | umdebug) rdma link del "$theirs" ;; esac
mark "rmmod rdma_rxe"
check "rdma_rxe unloads" timeout 60 rmmod rdma_rxe
check "The rxe device is removed" not has_device "$theirs"
check "The ferroce device is removed too, as documented" within 10 not has_device "$ours"
check "ferroce unloads after that" unload ferroce
check "Both modules load again" bash -c "modprobe rdma_rxe && insmod $KO"
check "The rxe device is set up again" load_again rxe
check "The ferroce device is set up again" load_again ferroce
both_ways "after all was gone"

finish
