# SPDX-License-Identifier: GPL-2.0
#
# Real work on the stock kernel under QEMU: NVMe, NFS, UCX and Open MPI, over DRIVER, and if TCP=1 over TCP as well.
# Each line of work.txt is a program, the name of a run, and options. What a run printed stands between two lines that
# bench.emulated recognises; its name there is NAME/CONTESTANT.
#
#	single, pair   NVMe: the in-tree drivers for RDMA know no other namespace than the first
#	netns          NFS, UCX, Open MPI
#	pair           UCX
#
# machine: VM_IMAGE=suites

. "$VM_LIB"
. "${VM_LIB%/*}/storage.sh"

SERVER=$ADDR
# Seconds of a run of fio, and of its start and end.
SECONDS_IO=2 SECONDS_MOST=60

is_server() { [ "$TOPOLOGY" != pair ] || [ "$NODE" = a ]; }
is_client() { [ "$TOPOLOGY" != pair ] || [ "$NODE" = b ]; }
if ! is_server; then SERVER=$PEER_ADDR; fi

# shown NAME COMMAND...: runs it at the client's end, and shows what it printed.
shown() {
	local name=$1 rc=0
	shift
	"$@" >/tmp/said 2>&1 || rc=$?
	is_client || return 0
	echo "bench: begin $name"
	cat /tmp/said
	echo "bench: end $rc"
}

# lines PROGRAM: "NAME OPTION..." of each of its runs.
lines() { sed -n "s/^$1 //p" /ferroce/work.txt; }

# io FILE OPTION...: fio, and the processor time of the machine just before and after its I/O.
io() {
	cd /tmp || return
	rm -f io.*run.txt
	timeout "$SECONDS_MOST" fio --name=io --filename="$1" --direct=1 --ioengine=libaio --time_based \
		--runtime="$SECONDS_IO" --clat_percentiles=0 --lat_percentiles=1 --percentile_list=50:99 \
		--output-format=json --exec_prerun='head -n 1 /proc/stat' \
		--exec_postrun='head -n 1 /proc/stat' "${@:2}" && cat io.prerun.txt io.postrun.txt
}

# ---- NVMe ------------------------------------------------------------------------------------

nvme_over() { # CONTESTANT TRANSPORT NUMBER
	local name options
	if is_server; then open_nvme_port "$3" "$2" "$SERVER" $((4420 + $3)) || return; fi
	barrier
	if is_client; then
		modprobe -a nvme_rdma nvme_tcp
		nvme connect -t "$2" -a "$SERVER" -s $((4420 + $3)) -n "$NQN" >/tmp/connect 2>&1 && within 30 has_disk
		while read -r name options <&3; do
			shown "$name/$1" io "/dev/$(disk)" --size=256m $options
		done 3< <(lines nvme)
		nvme disconnect -n "$NQN" >/dev/null && within 60 not has_disk
	fi
	barrier
}

nvme_all() {
	if is_server; then make_nvme_target || return; fi
	nvme_over "$DRIVER" rdma 1
	[ -z "${TCP-}" ] || nvme_over tcp tcp 2
}

# ---- NFS -------------------------------------------------------------------------------------

# mounted_io OPTIONS FIO-OPTION...: in a process of the client's namespaces, which has mounts of its own.
mounted_io() {
	timeout 120 mount -t nfs -o "vers=4.2,$1" "$SERVER:/" /mnt/nfs || return
	# The first open after the start of the server may have to wait, over any transport.
	dd if=/mnt/nfs/file of=/dev/null bs=128k iflag=direct status=none
	io /mnt/nfs/file "${@:2}"
	umount /mnt/nfs
}

nfs_over() { # CONTESTANT MOUNT-OPTIONS
	local name options
	while read -r name options <&3; do
		shown "$name/$1" at_peer bash -c 'mounted_io "$@"' - "$2" --size=64m $options
	done 3< <(lines nfs)
}

nfs_all() {
	export -f io mounted_io
	export SECONDS_IO SECONDS_MOST SERVER
	serve_nfs 80m 4 || return
	head -c 64M /dev/zero >/srv/nfs/file
	nfs_over "$DRIVER" proto=rdma,port=20049
	[ -z "${TCP-}" ] || nfs_over tcp proto=tcp
}

# ---- UCX -------------------------------------------------------------------------------------

UCX_PORT=13400

# ucx CONTESTANT TRANSPORTS OPTION...: what the client prints; see tests/vm/suites/middleware.sh.
ucx() {
	local transports=$1 env on=()
	shift
	UCX_PORT=$((UCX_PORT + 1))
	# Both poll. On one processor they would wait for each other.
	[ "$TOPOLOGY" = pair ] || on=("taskset -c 0" "taskset -c 1")
	env="env UCX_TLS=$transports UCX_NET_DEVICES=\$dev:1,$NETDEV,$PEER_NETDEV UCX_IB_GID_INDEX=\$gid4"
	env+=" UCX_LOG_LEVEL=error"
	traffic ucx "$UCX_PORT" "$env ${on[0]-} ucx_perftest -P 0 -p $UCX_PORT" \
		"$env ${on[1]-} ucx_perftest -P 0 -p $UCX_PORT \$to -f $*" >/tmp/traffic
	local rc=$?
	cat /tmp/client
	return $rc
}

ucx_over() { # CONTESTANT TRANSPORTS
	local name options
	while read -r name options <&3; do
		# Not in a subshell: each run has a port and a barrier of its own.
		shown "$name/$1" ucx "$2" $options
	done 3< <(lines ucx)
}

ucx_all() {
	modprobe -a rdma_ucm
	ucx_over "$DRIVER" rc_verbs,tcp:aux,self
	[ -z "${TCP-}" ] || ucx_over tcp tcp,self
}

# ---- Open MPI --------------------------------------------------------------------------------

# mpi_programs: how mpirun starts its daemon at the other end, a host being a namespace with a name of its own; and what
# gives each rank the device of its end.
mpi_programs() {
	cat >/tmp/agent <<-'EOF'
		#!/bin/bash
		shift
		exec ip netns exec b unshare --uts bash -c "busybox hostname b; $*"
	EOF
	cat >/tmp/rank <<-EOF
		#!/bin/bash
		case \$OMPI_COMM_WORLD_RANK in
		0) export UCX_NET_DEVICES=$DEV:1,$NETDEV UCX_IB_GID_INDEX=$GID4 ;;
		*) export UCX_NET_DEVICES=$PEER_DEV:1,$PEER_NETDEV UCX_IB_GID_INDEX=$PEER_GID4 ;;
		esac
		exec taskset -c \$OMPI_COMM_WORLD_RANK python3 /ferroce/mpi_ends.py
	EOF
	chmod +x /tmp/agent /tmp/rank
	busybox hostname a
	printf '%s\n' "127.0.0.1 localhost" "$ADDR a" "$PEER_ADDR b" >/etc/hosts
}

# mpi OPTION...: two ranks, one at each end.
mpi() {
	UCX_TLS=rc_verbs,tcp:aux,self UCX_LOG_LEVEL=error OMPI_MCA_btl_tcp_if_include=10.0.0.0/24 \
		PRTE_MCA_prte_silence_shared_fs=1 PRTE_MCA_plm_ssh_agent=/tmp/agent \
		timeout 120 mpirun --allow-run-as-root --host a:1,b:1 -n 2 --map-by node --bind-to none \
		"$@" -x UCX_TLS -x UCX_LOG_LEVEL /tmp/rank
}

mpi_all() {
	mpi_programs
	shown "mpi/$DRIVER" mpi --mca pml ucx
	[ -z "${TCP-}" ] || shown mpi/tcp mpi --mca pml ob1 --mca btl tcp,self
}

for program in $(cut -d ' ' -f 1 /ferroce/work.txt | uniq); do
	if "${program}_all"; then ok "$program"; else not_ok "$program"; fi
done
finish
