# SPDX-License-Identifier: GPL-2.0
#
# The kernel's own tools/testing/selftests/rdma, from the source of the booted kernel. The scripts are edited only to
# replace the name of the driver, and fixed sleeps by waits for a condition. The output of a script is shown as
# comments.
#
# machine: VM_TIMEOUT=1500
# vm: TOPOLOGY=single VM_TIMEOUT=1500

. "$VM_LIB"

here=/tmp/selftests
cp -r /usr/share/ferroce/selftests "$here"
name=$(module "$DRIVER")
sed -i "s/type rxe\b/type $DRIVER/g; s/rdma_rxe/$name/g" "$here"/rdma/*.sh
# A second is not always enough for a server to listen, and the core removes a device in a work item; the server sends
# the last packet of a connection.
listening() { cm_listens || cm_listens ip netns exec test1; }
await_server() { within 10 listening; sleep 0.5; }
no_port() { ! ss -Huln | grep -q :4791; }
export -f within cm_listens listening await_server no_port
sed -i 's/^sleep 1\b.*/await_server/; s/^new_s=/wait; new_s=/' \
	"$here"/rdma/rxe_rping_between_netns.sh "$here"/rdma/rxe_sent_rcvd_bytes.sh
sed -i 's/^ip link del "$DEV_NAME"$/&; within 10 no_port/' "$here"/rdma/rxe_test_NETDEV_UNREGISTER.sh
# The scripts load and unload the module by name, and start without it.
unload "$DRIVER"
if [ "$DRIVER" = ferroce ]; then
	install -D "$KO" "/lib/modules/$(uname -r)/updates/ferroce.ko"
	depmod
fi

for script in "$here"/rdma/*.sh; do
	test=${script##*/}
	mark "$test"
	rc=0
	(cd "$here/rdma" && timeout 400 bash "./$test") >/tmp/log 2>&1 || rc=$?
	note </tmp/log
	case $rc in
	0) ok "$test" ;;
	4) skip "$test" "$(grep -i skip /tmp/log | tail -n 1)" ;;
	*)
		note "it returned $rc"
		not_ok "$test"
		;;
	esac
	rmmod "$name" 2>/dev/null
done

finish
