# SPDX-License-Identifier: GPL-2.0
#
# rdma-core's own tests, as the distribution installs them, over a device that is its own peer. pyverbs.list names the
# expected outcomes. PYVERBS="PATTERN..." selects tests.
#
# machine: VM_TIMEOUT=2400
# vm: TOPOLOGY=single VM_TIMEOUT=2400

. "$VM_LIB"

modprobe -a rdma_ucm ib_umad
echo 64 >/proc/sys/vm/nr_hugepages
cp -r /usr/share/doc/rdma-core/tests /tmp/tests
gunzip /tmp/tests/*.gz
note "rdma-core $(dpkg-query -W -f '${Version}' rdma-core)"
exec python3 run_pyverbs.py /tmp/tests pyverbs.list "$DRIVER" "$DEV" \
	"IPv4=$GID4" "IPv6=$GID6" ${PYVERBS:+-- $PYVERBS}
