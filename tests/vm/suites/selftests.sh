# SPDX-License-Identifier: GPL-2.0
#
# The kernel's own tools/testing/selftests/rdma, unedited, from the source of the booted kernel. They load rdma_rxe and
# add devices of the type rxe: the configuration of the package ferroce-as-rxe gives them ferroce. With
# VM_ENV=AS_RXE=0 they are edited instead, to name ferroce and its type. The output of a script is shown as comments.
#
# machine: VM_TIMEOUT=1500 VM_FILES=scripts/package/as-rxe.conf
# vm: TOPOLOGY=single VM_TIMEOUT=1500
# long: TOPOLOGY=single VM_TIMEOUT=1500 VM_ENV=AS_RXE=0

. "$VM_LIB"

here=/usr/share/ferroce/selftests
# The scripts load and unload the module by name, and start without it.
unload "$DRIVER"
if [ "$DRIVER" = ferroce ]; then
	install_driver
	if [ "${AS_RXE:-1}" = 1 ]; then
		cp "${VM_LIB%/*}/as-rxe.conf" /etc/modprobe.d/
	else
		cp -r "$here" /tmp/selftests
		here=/tmp/selftests
		sed -i "s/type rxe\b/type ferroce/g; s/rdma_rxe/ferroce/g" "$here"/rdma/*.sh
	fi
fi
# The scripts give a server one second to start, which is little under emulation.
cat >/usr/local/sbin/sleep <<'END'
#!/bin/sh
case $1 in
*[!0-9]*) exec /usr/bin/sleep "$1" ;;
*) exec /usr/bin/sleep $(($1 * 5)) ;;
esac
END
chmod +x /usr/local/sbin/sleep

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
	rmmod "$(module "$DRIVER")" 2>/dev/null
done
if [ "$DRIVER" = ferroce ]; then check "rdma_rxe was never loaded" eval '! dmesg | grep -q "rdma_rxe: loaded"'; fi

finish
