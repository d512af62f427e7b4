# SPDX-License-Identifier: GPL-2.0
#
# The kernel's own tools/testing/selftests/net/rds over RDMA, unedited, as in selftests.sh: 50000 datagrams between two
# devices in one namespace. The output is shown as comments, without its lines about progress.
#
# machine: VM_IMAGE=suites VM_TIMEOUT=2400 VM_FILES=scripts/package/as-rxe.conf
# long: TOPOLOGY=single

. "$VM_LIB"

# The script loads the driver, and expects no RDMA devices.
unload "$DRIVER"
ip link del v0
if [ "$DRIVER" = ferroce ]; then
	install_driver
	cp "${VM_LIB%/*}/as-rxe.conf" /etc/modprobe.d/
fi
if ! modinfo rds_rdma >/dev/null 2>&1; then
	skip "net/rds/rds_run.sh" "this kernel has no RDS over RDMA"
	finish
fi

rds_run() {
	local rc=0
	(cd /usr/share/ferroce/selftests/net/rds && bash ./rds_run.sh -T rdma -t 1800) >/tmp/log 2>&1 || rc=$?
	grep -v '# sending\|# receiving' /tmp/log | note
	return "$rc"
}

rds_run
rc=$?
# It returns 4 where it skips.
if [ "$rc" = 4 ]; then
	skip "net/rds/rds_run.sh" "$(grep -i skip /tmp/log | tail -n 1)"
else
	check "net/rds/rds_run.sh" [ "$rc" = 0 ]
	check "It has sent 50000 datagrams over RDMA" grep -q '^ok 1 rds selftest rdma' /tmp/log
fi
if [ "$DRIVER" = ferroce ]; then check "rdma_rxe was never loaded" eval '! dmesg | grep -q "rdma_rxe: loaded"'; fi

finish
