#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# image.sh [KERNEL]: makes what a virtual machine boots from. Prints a directory that holds
#
#	root.img     an ext4 file system with the programs of the guest, one for all kernels
#	modules.img  another with the modules of the kernel, and with the kernel's own tests of RDMA
#	vmlinuz      the kernel
#	arch         amd64 or arm64
#	initrd       mounts both read-only, with a memory overlay, and starts scripts/machine/guest-init
#
# GUEST=bookworm takes the programs of that release of Debian. VM_IMAGE=suites makes a bigger root, with the programs of
# the big suites and SCSI. GUEST_TESTS=n leaves the kernel's tests out.
#
# `image.sh --programs` makes only the part that needs no kernel, and prints its directory.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

# What only the build needs stays out. The RDMA user-space tests are documentation files.
LEFT_OUT=('/dev/*' '/proc/*' '/sys/*' '/tmp/*' '/run/*' '/root/*' /boot /media /home /srv
	/usr/lib/{llvm-19,rustlib,gcc,udev,systemd} /usr/include /usr/libexec/gcc '*.a'
	'/usr/lib/*-linux-gnu/lib'{LLVM,rustc,clang,z3,std-,asan,tsan,hwasan,lsan,ubsan,gprofng,isl}'*'
	/usr/bin/{cargo,clippy,rust,bindgen,x86_64-linux-gnu-}'*'
	/usr/share/{locale,man,perl,zoneinfo,cargo} /var/cache/apt /var/lib/apt '/usr/share/doc/[!r]*')

# Drivers of hardware that no virtual machine has; dependencies are still checked by depmod.
MODULES_LEFT_OUT=(sound drivers/{accel,ata,bluetooth,comedi,crypto,edac,extcon,firewire,gpio,gpu,hid}
	drivers/{hwmon,i2c,iio,input,isdn,leds,media,memstick,mfd,mmc,mtd,net/wireless,net/usb,parport}
	drivers/{net/ethernet,net/can,pcmcia,platform,power,regulator,rtc,scsi,spi,staging,thermal,usb,video})

# The suites' guest mounts disks over iSCSI and SRP.
if [ "${VM_IMAGE-}" = suites ]; then
	MODULES_LEFT_OUT=("${MODULES_LEFT_OUT[@]/#drivers\/scsi/none}")
fi

# Modules that the initrd needs to reach the root, and what they depend on.
BOOT_MODULES="virtio_pci virtio_blk ext4 overlay"

# file_system DIRECTORY FILE: read-only, so it needs little room to spare.
file_system() {
	mke2fs -q -t ext4 -O '^has_journal' -E lazy_itable_init=0 -d "$1" "$2" \
		"$(($(du -sm "$1" | cut -f1) * 11 / 10 + 64))M"
}

make_root() { # ROOT DIRECTORY
	local work=$2/work options=() path
	for path in "${LEFT_OUT[@]}"; do options+=(--exclude="$path"); done
	rsync -aH "${options[@]}" "$1/" "$work/"
	rm -rf "$work/usr/lib/modules"
	mkdir -p "$work/usr/lib/modules" "$work/usr/share/ferroce" "$work"/{dev,proc,sys,run,tmp,ferroce}
	ln -s ../../lib/modules/source/tools/testing/selftests "$work/usr/share/ferroce/selftests"
	rm -f "$work/etc/resolv.conf"
	file_system "$work" "$2/root.img"
}

make_modules() { # KERNEL TREE DIRECTORY
	local work=$3/work options=() path release
	release=$(<"$1/release")
	for path in "${MODULES_LEFT_OUT[@]}"; do options+=(--exclude="/*/kernel/$path"); done
	mkdir -p "$work/usr/lib/modules/source/net/rds"
	ln -s usr/lib "$work/lib"
	rsync -a "${options[@]}" "$1/modules/" "$work/usr/lib/modules/"
	# Unpacking at every modprobe is dear on an emulated processor.
	find "$work/usr/lib/modules" -name '*.ko.xz' -print0 | xargs -0 -r -P "$(nproc)" -n 16 xz -d
	# Some tests look for the tree of the kernel around them.
	[ -z "$2" ] || (cd "$2" && cp -r --parents tools/testing/selftests/{rdma,kselftest,net/rds,net/lib/py} \
		tools/net/ynl/pyynl "$work/usr/lib/modules/source/")
	cp "$1/build/.config" "$work/usr/lib/modules/source/"
	touch "$work/usr/lib/modules/$release"/modules.{order,builtin}
	depmod -b "$work" "$release"
	file_system "$work/usr/lib/modules" "$3/modules.img"
	make_initrd "$3" "$release"
}

make_initrd() { # DIRECTORY RELEASE
	local work=$1/work init=$1/initrd.d module
	mkdir -p "$init"/{bin,dev,lower,upper,root}
	cp "$BUSYBOX" "$init/bin/busybox"
	cp "$SRC/scripts/machine/guest-init" "$init/"
	for module in $BOOT_MODULES; do
		# What is not a module is part of the kernel.
		[ -n "$(find "$work/usr/lib/modules/$2" -name "$module.ko")" ] || continue
		modprobe -d "$work" -S "$2" --show-depends "$module"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$1/boot-modules"
	{
		echo '#!/bin/busybox sh'
		echo 'mount() { /bin/busybox mount "$@"; }'
		echo 'mount -t devtmpfs dev /dev'
		while read -r module; do
			cp "$module" "$init/bin/"
			echo "/bin/busybox insmod /bin/${module##*/}"
		done <"$1/boot-modules"
		echo 'until [ -b /dev/vda ] && [ -b /dev/vdc ]; do /bin/busybox usleep 20000; done'
		echo 'mount -t ext4 -o ro,noatime /dev/vda /lower && mount -t tmpfs tmpfs /upper'
		echo '/bin/busybox mkdir /upper/u /upper/w /upper/mu /upper/mw /upper/modules'
		echo 'mount -t overlay -o lowerdir=/lower,upperdir=/upper/u,workdir=/upper/w overlay /root'
		# Writable: packages are installed there.
		echo 'mount -t ext4 -o ro,noatime /dev/vdc /upper/modules'
		echo 'mount -t overlay -o lowerdir=/upper/modules,upperdir=/upper/mu,workdir=/upper/mw' \
			'overlay /root/usr/lib/modules'
		echo '/bin/busybox cp /guest-init /root/ferroce/guest-init; mount --move /dev /root/dev'
		echo 'exec /bin/busybox switch_root /root /ferroce/guest-init'
	} >"$init/init"
	chmod +x "$init/init" "$init/guest-init"
	(cd "$init" && find . | cpio -o -H newc --quiet) >"$1/initrd"
	rm -rf "$init"
}

# Inside the toolchain root.
case ${1-} in
--root)
	make_root "$2" "$3"
	exit
	;;
--modules)
	BUSYBOX=$5
	make_modules "$2" "$3" "$4"
	exit
	;;
esac

# made NAME KEY WHAT ARGUMENT...: prints $CACHE/NAME-KEY, a directory that this script makes inside the toolchain root
# when called with these arguments, `@` standing for the directory.
made() {
	local dir=$CACHE/$1-$2 log=$CACHE/$1.log what=$3
	if [ ! -d "$dir" ]; then
		lock "$1"
		shift 3
		if [ ! -d "$dir" ]; then
			need_room 1000 "the guest's file system"
			say IMAGE "a file system of $what"
			as_root rm -rf "$dir.new"
			mkdir "$dir.new"
			"$SRC/scripts/root/in-root.sh" "$SRC/scripts/root/image.sh" "${@//@/"$dir.new"}" \
				</dev/null >"$log" 2>&1 || fail "$log" "cannot make a file system of ${what%, about*}"
			as_root rm -rf "$dir.new/work"
			mv "$dir.new" "$dir"
		fi
		flock -u "$lock_fd"
	fi
	hand_out "$dir"
}

text=$(cat "$0" "$SRC/scripts/machine/guest-init")
# programs: the file system of the guest's programs.
programs() {
	made guest "$(key "$guest" "$VM_IMAGE" "$text")" "the guest's programs${VM_IMAGE:+ ($VM_IMAGE)}, about 20 s" \
		--root "$guest" @
}

export VM_IMAGE=${VM_IMAGE-}
if [ "${1-}" = --programs ]; then
	ARCH=$(architecture_of "${KVER-}-$(flavour)")
	export ARCH
	guest=$("$SRC/scripts/root/toolchain.sh" "${VM_IMAGE:-guest}")
	programs
	exit
fi
kernel=$("$SRC/scripts/kernel/kernel.sh" -k "${1:-stock}")
# The kernel's own tests are those of the kernel, if its source is here and has them, else those of the default.
tree=$kernel/build
if [ "${GUEST_TESTS-}" = n ]; then
	tree=
elif [ ! -d "$tree/tools/testing/selftests/rdma" ]; then
	tree=$(unset KVER && base_kernel)/build
fi
ARCH=$(architecture_of "$(<"$kernel/release")")
export ARCH
guest=$("$SRC/scripts/root/toolchain.sh" "${VM_IMAGE:-guest}")
root=$(programs)
modules=$(made modules "$(key "$kernel" "$VM_IMAGE" "$guest" "$text" "${tree:+tests}")" \
	"modules of $(<"$kernel/release"), about 15 s" --modules "$kernel" "$tree" @ "$guest/usr/bin/busybox")
dir=$CACHE/image-$(key "$root" "$modules" "$text")
if [ ! -d "$dir" ]; then
	lock image
	if [ ! -d "$dir" ]; then
		rm -rf "$dir.new"
		mkdir "$dir.new"
		ln -s "$root/root.img" "$modules"/{modules.img,initrd} "$kernel/vmlinuz" "$dir.new/"
		echo "$ARCH" >"$dir.new/arch"
		mv "$dir.new" "$dir"
	fi
fi
hand_out "$dir"
