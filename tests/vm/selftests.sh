# SPDX-License-Identifier: GPL-2.0
#
# The kernel's own tools/testing/selftests/rdma, from the source of the kernel that is booted. Only the name
# of the driver is replaced, on the fly, and waiting for a while by waiting for what is wanted. What a script
# prints is shown as a comment.
#
# machine: VM_TIMEOUT=600
# vm: TOPOLOGY=single VM_TIMEOUT=600

. "$VM_LIB"
. /ferroce/wait.sh

here=/tmp/selftests
cp -r /usr/share/ferroce/selftests "$here"
name=$(module "$DRIVER")
sed -i "s/type rxe\b/type $DRIVER/g; s/rdma_rxe/$name/g" "$here"/rdma/*.sh
# A second is not always enough for a server to listen, nor no time at all for the core, which takes a device away in a
# work item; and the last packet of a connection is the server's.
sed -i -e 's/^sleep 1\b.*/until rdma resource show cm_id | grep -q LISTEN; do sleep 0.1; done; sleep 0.1/' \
	-e 's/^new_s=/wait; new_s=/' \
	-e 's/^ip link del "$DEV_NAME"$/&; for _ in {1..100}; do ss -Huln | grep -q :4791 || break; sleep 0.1; done/' \
	"$here"/rdma/*.sh
# They load and unload the module by name, and begin without it.
unload "$DRIVER"
if [ "$DRIVER" = ferroce ]; then
	install -D "$KO" "/lib/modules/$(uname -r)/updates/ferroce.ko"
	depmod
fi

for script in "$here"/rdma/*.sh; do
	test=${script##*/}
	mark "$test"
	rc=0
	(cd "$here/rdma" && timeout 120 bash "./$test") >/tmp/log 2>&1 || rc=$?
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
