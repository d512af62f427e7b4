#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Machines that are user-mode Linux: a process of the host, which runs at native speed. Sourced by vm.sh.
#
# Its root is that of a guest (see toolchain.sh), as a directory of the host's, under an overlay in memory. The kernel
# itself runs in the toolchain root, whose libraries it was linked with. The job and the results are directories; see
# scripts/machine/guest-init.

# user_machine_prepare KERNEL: what every machine needs; sets USER_KERNEL, USER_CMDLINE, USER_LIBRARIES and
# USER_ROOT.
user_machine_prepare() {
	USER_LIBRARIES=$("$SRC/scripts/root/toolchain.sh")
	USER_ROOT=$("$SRC/scripts/root/toolchain.sh" "${VM_IMAGE:-guest}")
	USER_KERNEL=$("$SRC/scripts/kernel/kernel.sh" -k "$1")
	USER_CMDLINE=
	[ "$1" != umdebug ] || USER_CMDLINE="page_owner=on ${VM_POISON:+page_poison=1}"
}

# user_machine_run DIR: a machine that does the job in DIR/job.d, in the background; sets MACHINE_PID.
# It leaves console, out, ctl, dmesg and files in DIR.
user_machine_run() {
	local mhz
	: >"$1/ctl"
	: >"$1/files"
	awk -F': *' '/^cpu MHz/ { print $2; exit }' /proc/cpuinfo >"$1/mhz"
	# The kernel need not measure how long a loop takes, at 100 Hz: about a cycle.
	mhz=$(<"$1/mhz")
	as_root "$SRC/scripts/machine/uml.sh" --inside "$USER_LIBRARIES" "$USER_ROOT" "$USER_KERNEL" "$1" \
		"${VM_MEMORY:-${VM_USER_MEMORY:-2G}}" "${VM_CPUS:-2}" \
		"$USER_CMDLINE ${mhz:+lpj=$((${mhz%.*} * 10000))} ${VM_CMDLINE-}" \
		</dev/null >"$1/uml.log" 2>&1 &
	MACHINE_PID=$!
}

# overlay LOWER NAME: mounts a directory, with a layer in memory over it, at $guest/NAME.
overlay() {
	mkdir "$guest/$2" "$guest/$2"-{upper,work}
	mount -t overlay -o "lowerdir=$1,upperdir=$guest/$2-upper,workdir=$guest/$2-work" overlay "$guest/$2"
}

# inside LIBRARIES ROOT KERNEL DIR MEMORY CPUS CMDLINE: in a mount namespace of its own. The kernel's output goes
# through pipes: it cannot wait for files.
inside() {
	local guest=$4/guest host=$4/guest/host root=$4/guest/host/guest arguments
	mkdir "$guest"
	mount -t tmpfs tmpfs "$guest"
	overlay "$1" host
	overlay "$2" root
	mkdir -p "$host"/{dev,proc,guest} "$guest/root"/{dev,proc,sys,ferroce,results,usr/lib/modules}
	mount --rbind /dev "$host/dev"
	mount -t tmpfs tmpfs "$host/dev/shm"
	mount --rbind /proc "$host/proc"
	mount --bind "$guest/root" "$root"
	cp -r "$4/job.d/." "$root/ferroce/"
	cp "$(dirname "$0")/guest-init" "$root/ferroce/"
	: >"$host/vmlinuz"
	mount --bind "$3/vmlinuz" "$host/vmlinuz"
	mount --bind "$4" "$root/results"
	mount --bind "$3/modules" "$root/usr/lib/modules"
	# A kernel that lld has linked for user mode does not tell where its .bss is, so kmemleak would not
	# see what only that points to. It works in the debug kernel of QEMU.
	arguments=(kmemleak=off seccomp=on "mem=$5" "ncpus=$6" root=/dev/root rootfstype=hostfs
		hostfs=/guest rw init=/ferroce/guest-init con=null con0=null,fd:1 con1=null,fd:5 con2=null,fd:6
		loglevel=5 panic=-1 oops=panic log_buf_len=4M)
	exec 5> >(cat >"$4/out") 6> >(cat >"$4/ctl") > >(cat >"$4/console") 2>&1
	# Killing the starter kills the machine and all its processes.
	exec setpriv --pdeathsig KILL unshare --pid --fork --kill-child -- \
		chroot "$host" env -i HOME=/dev/shm TMPDIR=/dev/shm /vmlinuz "${arguments[@]}" $7
}

if [ "${1-}" = --inside ]; then
	set -euo pipefail
	shift
	inside "$@"
fi
