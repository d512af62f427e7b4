# SPDX-License-Identifier: GPL-2.0
#
# Storage of the kernel that is served over RDMA: an NVMe target with a null disk, and an NFS server. Sourced by
# the tests of the kernel's users of verbs and by scripts/bench/vm/work.sh.

NQN=nqn.2024-01.org.ferroce:test
NVMET=/sys/kernel/config/nvmet

# make_nvme_target OPTION...: a subsystem with one disk, which null_blk makes with these options.
make_nvme_target() {
	modprobe -a nvmet_rdma nvmet_tcp configfs && modprobe null_blk nr_devices=1 gb=1 bs=512 "$@" || return 1
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	mkdir -p "$NVMET/subsystems/$NQN/namespaces/1" || return 1
	echo 1 >"$NVMET/subsystems/$NQN/attr_allow_any_host"
	echo /dev/nullb0 >"$NVMET/subsystems/$NQN/namespaces/1/device_path"
	echo 1 >"$NVMET/subsystems/$NQN/namespaces/1/enable"
}

# open_nvme_port NUMBER TRANSPORT ADDRESS PORT: serves the subsystem there.
open_nvme_port() {
	mkdir -p "$NVMET/ports/$1" || return 1
	echo "$2" >"$NVMET/ports/$1/addr_trtype"
	echo ipv4 >"$NVMET/ports/$1/addr_adrfam"
	echo "$3" >"$NVMET/ports/$1/addr_traddr"
	echo "$4" >"$NVMET/ports/$1/addr_trsvcid"
	ln -s "$NVMET/subsystems/$NQN" "$NVMET/ports/$1/subsystems/"
}

disk() { lsblk -dno NAME 2>/dev/null | grep '^nvme[0-9]*n1$'; }
has_disk() { [ -b "/dev/$(disk)" ]; }

# serve_nfs SIZE THREADS: NFS of a tmpfs of that size, over TCP and RDMA.
serve_nfs() {
	modprobe -a nfsd rpcrdma nfs || return 1
	mkdir -p /srv/nfs /mnt/nfs /run/rpcbind /var/lib/nfs/{sm,v4recovery,rpc_pipefs}
	mount -t tmpfs -o size="$1" none /srv/nfs
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
	exportfs -o rw,fsid=0,insecure,no_root_squash,no_subtree_check '*:/srv/nfs'
	rpc.mountd -N 3 || return 1
	# The grace period would delay the first write.
	echo 10 >/proc/fs/nfsd/nfsv4leasetime
	echo 10 >/proc/fs/nfsd/nfsv4gracetime
	rpc.nfsd -N 3 -V 4.2 "$2" || return 1
	echo Y >/proc/fs/nfsd/v4_end_grace
	echo "rdma 20049" >/proc/fs/nfsd/portlist
}
