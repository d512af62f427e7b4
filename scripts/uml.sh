#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Machines that are user-mode Linux: a process of the host, which runs at native speed. Sourced by vm.sh.
#
# Its root is the toolchain root, as the host's file system, under an overlay in memory. The job and the
# results are directories; see scripts/guest-init.

# user_machine_prepare KERNEL: what every machine needs; sets USER_KERNEL, USER_CMDLINE and
# USER_ROOT.
user_machine_prepare() {
	USER_ROOT=$("$SRC/scripts/toolchain.sh" "${VM_IMAGE:-guest}")
	USER_KERNEL=$("$SRC/scripts/kernel.sh" -k "$1")
	USER_CMDLINE=
	[ "$1" != umdebug ] || USER_CMDLINE="page_poison=1 page_owner=on"
}

# user_machine_run DIR: a machine that does the job in DIR/job.d, in the background; sets MACHINE_PID.
# It leaves console, out, ctl, dmesg and files in DIR.
user_machine_run() {
	: >"$1/ctl"
	: >"$1/files"
	awk -F': *' '/^cpu MHz/ { print $2; exit }' /proc/cpuinfo >"$1/mhz"
	as_root "$SRC/scripts/uml.sh" --inside "$USER_ROOT" "$USER_KERNEL" "$1" \
		"${VM_MEMORY:-2G}" "${VM_CPUS:-2}" "$USER_CMDLINE ${VM_CMDLINE-}" </dev/null >"$1/uml.log" 2>&1 &
	MACHINE_PID=$!
}

# inside ROOT KERNEL DIR MEMORY CPUS CMDLINE: in a mount namespace of its own. The kernel's output goes
# through pipes: it cannot wait for files.
inside() {
	local guest=$3/guest root=$3/guest/root arguments
	mkdir "$guest"
	mount -t tmpfs tmpfs "$guest"
	mkdir "$guest"/{upper,work,root}
	mount -t overlay -o "lowerdir=$1,upperdir=$guest/upper,workdir=$guest/work" overlay "$root"
	mkdir -p "$root"/{dev,proc,sys,ferroce,results,usr/lib/modules}
	cp -r "$3/job.d/." "$root/ferroce/"
	cp "$(dirname "$0")/guest-init" "$2/vmlinuz" "$root/ferroce/"
	mount --bind "$3" "$root/results"
	mount --bind "$2/modules" "$root/usr/lib/modules"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs tmpfs "$root/dev/shm"
	mount --rbind /proc "$root/proc"
	# A kernel that lld has linked for user mode does not tell where its .bss is, so kmemleak would not
	# see what only that points to. It works in the debug kernel of QEMU.
	arguments=(kmemleak=off seccomp=on "mem=$4" "ncpus=$5" root=/dev/root rootfstype=hostfs
		hostfs=/ rw init=/ferroce/guest-init con=null con0=null,fd:1 con1=null,fd:5 con2=null,fd:6
		loglevel=5 panic=-1 oops=panic log_buf_len=4M)
	exec 5> >(cat >"$3/out") 6> >(cat >"$3/ctl") > >(cat >"$3/console") 2>&1
	# Killing the starter kills the machine and all its processes.
	exec setpriv --pdeathsig KILL unshare --pid --fork --kill-child -- \
		chroot "$root" env -i HOME=/dev/shm TMPDIR=/dev/shm /ferroce/vmlinuz "${arguments[@]}" $6
}

if [ "${1-}" = --inside ]; then
	set -euo pipefail
	shift
	inside "$@"
fi
