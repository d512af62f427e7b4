# SPDX-License-Identifier: GPL-2.0
#
# NVMe over RDMA, target and host on one device: kernel ULPs. Data are written and verified, the controller is reset,
# loses its link in mid-I/O, and loses its device.
#
#	nvme host ---- nvme-rdma ---- [DEV] ---- nvmet-rdma ---- null_blk, in memory
#
# machine: VM_IMAGE=suites VM_TIMEOUT=1200
# vm: TOPOLOGY=single VM_IMAGE=suites VM_TIMEOUT=1200
# long: TOPOLOGY=single KERNEL=debug VM_IMAGE=suites VM_TIMEOUT=2400

. "$VM_LIB"
. "${VM_LIB%/*}/storage.sh"

# Seconds until a lost controller reconnects.
DELAY=3

# ---- target ----------------------------------------------------------------------------------

make_target() { modprobe nvme_rdma && make_nvme_target memory_backed=1 && open_port; }
open_port() { open_nvme_port 1 rdma "$ADDR" 4420; }
close_port() { rm "$NVMET/ports/1/subsystems/$NQN"; }

# ---- host ------------------------------------------------------------------------------------

connect() {
	nvme connect -t rdma -a "$ADDR" -s 4420 -n "$NQN" --reconnect-delay="$DELAY" --ctrl-loss-tmo=600 \
		--keep-alive-tmo=5 "$@" && within 30 has_disk
}

no_disk() { ! has_disk; }
state_is() { [ "$(cat /sys/class/nvme/nvme*/state)" = "$1" ]; }

disconnect() { nvme disconnect -n "$NQN" && within 60 no_disk; }

# copies BLOCK-SIZE: 8 MiB to the disk and back, bypassing the page cache.
copies() {
	head -c 8M /dev/urandom >/tmp/there
	dd if=/tmp/there "of=/dev/$(disk)" bs="$1" oflag=direct status=none &&
		dd "if=/dev/$(disk)" of=/tmp/back bs="$1" count="$((8388608 / ${2:-65536}))" iflag=direct status=none &&
		cmp /tmp/there /tmp/back
}

# verified NAME FIO-OPTION...: writes and reads back, every block with a checksum.
verified() {
	timeout 300 fio --name="$1" --filename="/dev/$(disk)" --direct=1 --ioengine=libaio --verify=crc32c \
		--verify_fatal=1 --output=/tmp/fio "${@:2}" || { cat /tmp/fio; return 1; }
	! grep -qE 'verify: bad|err= *[1-9]' /tmp/fio
}

file_system() {
	local at=/tmp/mounted
	mkdir -p "$at"
	mkfs.ext4 -q "/dev/$(disk)" && mount "/dev/$(disk)" "$at" && cp -r /usr/bin/[a-d]* "$at/" || return 1
	umount "$at" && mount "/dev/$(disk)" "$at" || return 1
	(cd /usr/bin && md5sum $(find . -maxdepth 1 -type f -name '[a-d]*')) >/tmp/sums
	(cd "$at" && md5sum --quiet -c /tmp/sums) && umount "$at"
}

link_down() { ip link set "$NETDEV" down; }
link_up() {
	ip link set "$NETDEV" up
	address "$NETDEV" "$ADDR" "$ADDR6" 2>/dev/null
	gid_index "$DEV" "$ADDR" >/dev/null
}

# Reads and writes may be late, but not wrong. The host detects the loss by its keep-alive timeout, and is live again
# after a reconnect.
flap_in_mid_io() {
	local pid rc=0
	verified flap --rw=randwrite --bs=4k --iodepth=8 --size=4m --time_based=0 --rate_iops=200 &
	pid=$!
	sleep 3
	link_down
	within 60 state_is connecting || rc=1
	link_up
	within 60 state_is live || rc=1
	wait "$pid" && [ "$rc" = 0 ]
}

# must NAME COMMAND...: a check whose failure makes all later ones meaningless.
must() {
	local failed=$KTAP_FAILED
	check "$@"
	[ "$KTAP_FAILED" = "$failed" ] || { dmesg | tail -n 20 | note; finish; }
}

# ---- tests -----------------------------------------------------------------------------------

must "the target listens" make_target
check "nvme discovers the target" sh -c "nvme discover -t rdma -a $ADDR -s 4420 | grep $NQN"
for options in "" "-i 2" "-i 1 -Q 16"; do
	must "nvme connects $options" connect $options
	check "8 MiB are copied in 64 KiB blocks $options" copies 64k 65536
	check "8 MiB are copied in 1 MiB blocks $options" copies 1M 1048576
	check "fio verifies random 4 KiB writes $options" verified small --rw=randrw --bs=4k --iodepth=16 --size=4m
	check "nvme disconnects $options" disconnect
done
must "nvme connects again" connect -i 2
check "fio verifies 1 MiB writes" verified big --rw=write --bs=1m --iodepth=4 --size=32m
check "a file system keeps its files" file_system
check "the controller is reset" nvme reset "/dev/$(disk | sed s/n1//)"
check "the controller is live after the reset" within 60 state_is live
check "8 MiB are copied after the reset" copies 64k 65536
if [ "$DRIVER" = rxe ]; then
	skip "I/O survives a link flap" "rdma_rxe never connects again (its QP1 stays in ERR)"
else
	check "I/O survives a link flap" flap_in_mid_io
	check "8 MiB are copied after the link came back" copies 64k 65536
fi
check "rdma link del removes a device with a connected controller" rdma link del "$DEV"
check "the device is removed" within 60 not has_device "$DEV"
check "nvme disconnects without a device" disconnect
check "the port closes" close_port
must "a new device is added" add_device "$DEV" "$DRIVER" "$NETDEV"
gid_index "$DEV" "$ADDR" >/dev/null
check "the port opens on the new device" open_port
must "nvme connects to the new device" connect -i 1
check "8 MiB are copied over the new device" copies 64k 65536
check "nvme disconnects from the new device" disconnect
close_port
rmdir "$NVMET/ports/1"
echo 0 >"$NVMET/subsystems/$NQN/namespaces/1/enable"
rmdir "$NVMET/subsystems/$NQN/namespaces/1" "$NVMET/subsystems/$NQN"
check "nvmet_rdma unloads" within 20 rmmod nvmet_rdma
check "nvme_rdma unloads" within 20 rmmod nvme_rdma
check "the driver unloads" unload "$DRIVER"
finish
