# SPDX-License-Identifier: GPL-2.0
#
# rdma-core's own tests, as the distribution installs them, over a device that is its own peer. pyverbs.list names the
# expected outcomes. PYVERBS=PATTERN selects tests, and PYVERBS=sample those of the verbs, over an IPv4 GID only.
#
# machine: VM_TIMEOUT=2400
# vm: TOPOLOGY=single KERNEL=umdebug VM_ENV=PYVERBS=sample
# vm: TOPOLOGY=single KERNEL=umdebug GUEST=bookworm VM_ENV=PYVERBS=sample
# vm: TOPOLOGY=single KERNEL=umdebug GUEST=sid VM_ENV=PYVERBS=sample
# vm: TOPOLOGY=single KERNEL=umdebug PROVIDER=direct VM_ENV=PYVERBS=sample
# long: TOPOLOGY=single VM_TIMEOUT=2400
# long: TOPOLOGY=single KERNEL=umdebug VM_TIMEOUT=2400
# long: TOPOLOGY=single KERNEL=uml PROVIDER=direct
# long: TOPOLOGY=single KERNEL=uml GUEST=bookworm PROVIDER=direct
# long: TOPOLOGY=single KERNEL=uml GUEST=sid PROVIDER=direct
# long: TOPOLOGY=single KERNEL=uml GUEST=bookworm
# long: TOPOLOGY=single KERNEL=uml GUEST=sid

. "$VM_LIB"

HUGE_PAGES=/proc/sys/vm/nr_hugepages
modprobe -a rdma_ucm ib_umad
[ ! -w "$HUGE_PAGES" ] || echo 64 >"$HUGE_PAGES"
cp -r /usr/share/doc/rdma-core/tests /tmp/tests
gunzip /tmp/tests/*.gz
RELEASE=$(dpkg-query -W -f '${source:Upstream-Version}' rdma-core)
note "rdma-core $RELEASE"
# The tests of the connection manager of older releases find only netdevs of hardware: show it where they look.
if [ "${RELEASE%%.*}" -lt 56 ]; then
	sysfs=$(realpath "/sys/class/infiniband/$DEV")
	mkdir /tmp/sysfs
	mount --bind "$sysfs" /tmp/sysfs
	mount -t tmpfs tmpfs "$sysfs"
	ln -s /tmp/sysfs/* "$sysfs/"
	mkdir -p "$sysfs/device/net/$NETDEV"
fi
gids="IPv4=$GID4 IPv6=$GID6" provider=librxe
[ "$PROVIDER" != direct ] || provider=direct
if [ "${PYVERBS-}" = sample ]; then
	PYVERBS="test_atomic. test_cq. test_cqex. test_device.Dev test_mr. test_odp. test_pd. test_qp. test_qpex."
	PYVERBS+=" CMTestCase"
	[ "$PROVIDER" != direct ] || PYVERBS+=" xrc test_parent_domain. test_shared_pd."
	gids="IPv4=$GID4"
fi
exec python3 run_pyverbs.py /tmp/tests pyverbs.list "$DRIVER,$provider,$RELEASE,${KERNEL/umdebug/uml}" "$DEV" \
	$gids ${PYVERBS:+-- $PYVERBS}
