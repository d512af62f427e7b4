# SPDX-License-Identifier: GPL-2.0
#
# The kernel's other users of verbs, each tested once with real data: NFS over RDMA, iSER, SRP, and between two
# machines RDS. NVMe has a separate test. KERNEL_USERS="nfs iser srp" selects.
#
# machine: VM_IMAGE=suites VM_TIMEOUT=900
# vm: TOPOLOGY=single VM_IMAGE=suites VM_TIMEOUT=1200
# long: TOPOLOGY=pair VM_IMAGE=suites VM_TIMEOUT=600

. "$VM_LIB"
. "${VM_LIB%/*}/storage.sh"

CONFIG=/sys/kernel/config
IQN=iqn.2024-01.org.ferroce:disk

modprobe -a configfs rdma_ucm
mountpoint -q "$CONFIG" || mount -t configfs none "$CONFIG"
head -c 8M /dev/urandom >/tmp/there

# ---- NFS -------------------------------------------------------------------------------------

mount_nfs() { timeout 120 mount -t nfs -o vers=4.2,proto=rdma,port=20049 "$ADDR:/" /mnt/nfs; }

copy_nfs() {
	timeout 120 cp /tmp/there /mnt/nfs/file && sync -f /mnt/nfs || return 1
	umount /mnt/nfs && mount_nfs && cmp /tmp/there /mnt/nfs/file && cmp /tmp/there /srv/nfs/file
}

stop_nfs() {
	umount /mnt/nfs && rpc.nfsd 0 && exportfs -ua && umount /srv/nfs
}

nfs() {
	check "NFS is served over RDMA" serve_nfs 64m 2
	check "NFS is mounted" mount_nfs
	check "the mount uses proto=rdma" grep -q 'proto=rdma' /proc/mounts
	check "8 MiB are copied through NFS" copy_nfs
	check "NFS is unmounted" stop_nfs
}

# ---- disks -----------------------------------------------------------------------------------

TARGET=$CONFIG/target

make_store() {
	modprobe -a target_core_mod sd_mod || return 1
	modprobe null_blk nr_devices=1 memory_backed=1 gb=1 bs=512
	modprobe target_core_iblock || return 1
	mkdir -p "$TARGET/core/iblock_0/store"
	echo udev_path=/dev/nullb0 >"$TARGET/core/iblock_0/store/control"
	echo /dev/nullb0 >"$TARGET/core/iblock_0/store/udev_path"
	echo 1 >"$TARGET/core/iblock_0/store/enable"
}

disk() { lsblk -dno NAME | grep '^sd'; }
has_disk() { [ -b "/dev/$(disk)" ]; }

copy_disk() {
	within 60 has_disk || { dmesg | tail -n 20; return 1; }
	[ -n "$(disk)" ] || return 1
	dd if=/tmp/there "of=/dev/$(disk)" bs=64k oflag=direct status=none &&
		dd "if=/dev/$(disk)" of=/tmp/back bs=1M count=8 iflag=direct status=none &&
		cmp /tmp/there /tmp/back
}

make_iser_target() {
	local group=$TARGET/iscsi/$IQN/tpgt_1
	modprobe -a iscsi_target_mod ib_isert || return 1
	mkdir -p "$TARGET/iscsi" "$group/np/$ADDR:3260" "$group/lun/lun_0"
	echo 1 >"$group/np/$ADDR:3260/iser" || return 1
	ln -s "$TARGET/core/iblock_0/store" "$group/lun/lun_0/store"
	echo 0 >"$group/attrib/authentication"
	echo 1 >"$group/attrib/generate_node_acls"
	echo 1 >"$group/attrib/cache_dynamic_acls"
	echo 0 >"$group/attrib/demo_mode_write_protect"
	echo 1 >"$group/enable"
}

log_in() {
	modprobe -a iscsi_tcp ib_iser || return 1
	mkdir -p /etc/iscsi /run/lock/iscsi
	echo "InitiatorName=iqn.2024-01.org.ferroce:host" >/etc/iscsi/initiatorname.iscsi
	iscsid || return 1
	iscsiadm -m node -o new -T "$IQN" -p "$ADDR:3260" -I iser &&
		timeout 120 iscsiadm -m node -T "$IQN" -p "$ADDR:3260" -l
}

log_out() { timeout 60 iscsiadm -m node -T "$IQN" -p "$ADDR:3260" -u && within 30 not has_disk; }

remove_iser_target() {
	local group=$TARGET/iscsi/$IQN/tpgt_1
	echo 0 >"$group/enable"
	rm "$group/lun/lun_0/store"
	rmdir "$group/lun/lun_0" "$group/np/$ADDR:3260" "$group" "$TARGET/iscsi/$IQN"
	within 20 rmmod ib_isert
}

iser() {
	check "an iSER target is created" make_iser_target
	check "iSER logs in" log_in
	check "8 MiB are copied over iSER" copy_disk
	check "iSER logs out" log_out
	check "the iSER target is removed" remove_iser_target
}

# The target names a port by the lower half of its first GID.
port_name() { cut -d: -f5-8 "/sys/class/infiniband/$DEV/ports/1/gids/0"; }

make_srp_target() {
	local group
	modprobe ib_srpt srpt_service_guid=0x1 || return 1
	mkdir -p "$TARGET/srpt"
	echo 5555 >"$(find "$TARGET/srpt" -name rdma_cm_port)" || return 1
	group=$TARGET/srpt/$(port_name)/$(port_name)
	mkdir -p "$group/lun/lun_0" "$group/acls/$ADDR/lun_0" || return 1
	ln -s "$TARGET/core/iblock_0/store" "$group/lun/lun_0/store"
	ln -s "$group/lun/lun_0" "$group/acls/$ADDR/lun_0/disk"
	echo 1 >"$group/enable"
}

log_in_srp() {
	modprobe ib_srp || return 1
	echo "id_ext=0000000000000001,ioc_guid=0000000000000001,dest=$ADDR:5555" \
		>"/sys/class/infiniband_srp/srp-$DEV-1/add_target"
}

log_out_srp() {
	local port
	for port in /sys/class/srp_remote_ports/*; do echo 1 >"$port/delete"; done
	within 60 not has_disk
}

remove_srp_target() {
	local group
	group=$TARGET/srpt/$(port_name)/$(port_name)
	echo 0 >"$group/enable"
	rm "$group/acls/$ADDR/lun_0/disk" "$group/lun/lun_0/store"
	rmdir "$group/acls/$ADDR/lun_0" "$group/acls/$ADDR" "$group/lun/lun_0" "$group" \
		"$TARGET/srpt/$(port_name)" "$TARGET/srpt"
	within 20 rmmod ib_srp && within 20 rmmod ib_srpt
}

srp() {
	check "an SRP target is created" make_srp_target
	check "SRP logs in" log_in_srp
	check "8 MiB are copied over SRP" copy_disk
	check "SRP logs out" log_out_srp
	check "the SRP target is removed" remove_srp_target
}

# ---- RDS -------------------------------------------------------------------------------------

rds() {
	modprobe -a rds rds_rdma || { not_ok "RDS loads"; return; }
	barrier
	check "1000 datagrams return through RDS" timeout 200 python3 /ferroce/rds.py "$NODE" "$ADDR" "$PEER_ADDR"
	rds-info -I 2>/dev/null | note
	check "the datagrams used RDMA" sh -c "dmesg | grep -q 'RDS/IB.*$PEER_ADDR.*version'"
	barrier
}

if [ "$TOPOLOGY" = pair ]; then
	rds
	finish
fi
check "a backing store is created" make_store
for user in ${KERNEL_USERS:-nfs iser srp}; do "$user"; done
skip "9P" "no server of the distribution speaks 9P over RDMA"
skip "SMB Direct, SMC-R, RTRS" "the stock kernel has no such module"
skip "IPoIB" "it is for InfiniBand links"
finish
