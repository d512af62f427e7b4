#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# image.sh [KERNEL]: makes what a virtual machine boots from, out of the toolchain root and the modules
# of the stock kernel or of those of our own for QEMU. Prints a directory that holds root.img, an ext4 file system
# that is only ever read, and initrd, which mounts it with a memory overlay and starts
# scripts/guest-init.
#
# VM_IMAGE=suites makes a bigger one, with the programs of the big suites and SCSI.

set -euo pipefail
. "$(dirname "$0")/lib.sh"

# What only the build needs stays out. The RDMA user-space tests are documentation files.
LEFT_OUT=('/dev/*' '/proc/*' '/sys/*' '/tmp/*' '/run/*' '/root/*' /boot /media /home /srv
	/usr/lib/{llvm-19,rustlib,gcc,udev,systemd} /usr/include /usr/libexec/gcc '*.a'
	'/usr/lib/x86_64-linux-gnu/lib'{LLVM,rustc,clang,z3,std-,asan,tsan,hwasan,lsan,ubsan,gprofng,isl}'*'
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
BOOT_MODULES="virtio_blk ext4 overlay"

make_root() { # ROOT MODULES DIRECTORY
	local work=$3/work options=() path
	for path in "${LEFT_OUT[@]}"; do options+=(--exclude="$path"); done
	rsync -aH "${options[@]}" "$1/" "$work/"
	mkdir -p "$work/usr/lib/modules" "$work"/{dev,proc,sys,run,tmp,ferroce}
	options=()
	for path in "${MODULES_LEFT_OUT[@]}"; do options+=(--exclude="/*/kernel/$path"); done
	rsync -a "${options[@]}" "$2/" "$work/usr/lib/modules/"
	# Unpacking at every modprobe is dear on an emulated processor.
	find "$work/usr/lib/modules" -name '*.ko.xz' -print0 | xargs -0 -r -P "$(nproc)" -n 16 xz -d
	# The kernel's own tests of RDMA.
	mkdir -p "$work/usr/share/ferroce/selftests"
	cp -r "$STOCK/build/tools/testing/selftests"/{rdma,kselftest} "$work/usr/share/ferroce/selftests/"
	touch "$work/usr/lib/modules/$RELEASE"/modules.{order,builtin}
	depmod -b "$work" "$RELEASE"
	rm -f "$work/etc/resolv.conf"
	mke2fs -q -t ext4 -O '^has_journal' -E lazy_itable_init=0 -d "$work" "$3/root.img" \
		"$(($(du -sm "$work" | cut -f1) * 11 / 10 + 64))M"
}

make_initrd() { # DIRECTORY
	local work=$1/work init=$1/initrd.d module
	mkdir -p "$init"/{bin,dev,lower,upper,root}
	cp "$work/usr/bin/busybox" "$init/bin/"
	cp "$SRC/scripts/guest-init" "$init/"
	for module in $BOOT_MODULES; do
		modprobe -d "$work" -S "$RELEASE" --show-depends "$module"
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$1/boot-modules"
	{
		echo '#!/bin/busybox sh'
		echo 'mount() { /bin/busybox mount "$@"; }'
		echo 'mount -t devtmpfs dev /dev'
		while read -r module; do
			cp "$module" "$init/bin/"
			echo "/bin/busybox insmod /bin/${module##*/}"
		done <"$1/boot-modules"
		echo 'until [ -b /dev/vda ]; do /bin/busybox usleep 20000; done'
		echo 'mount -t ext4 -o ro,noatime /dev/vda /lower && mount -t tmpfs tmpfs /upper'
		echo '/bin/busybox mkdir /upper/u /upper/w'
		echo 'mount -t overlay -o lowerdir=/lower,upperdir=/upper/u,workdir=/upper/w overlay /root'
		echo '/bin/busybox cp /guest-init /root/ferroce/guest-init; mount --move /dev /root/dev'
		echo 'exec /bin/busybox switch_root /root /ferroce/guest-init'
	} >"$init/init"
	chmod +x "$init/init" "$init/guest-init"
	(cd "$init" && find . | cpio -o -H newc --quiet) >"$1/initrd"
	rm -rf "$init"
}

if [ "${1-}" = --inside ]; then
	RELEASE=$(<"$3/release") STOCK=$5
	make_root "$2" "$3/modules" "$4"
	make_initrd "$4"
	rm -rf "$4/work"
	exit
fi

export VM_IMAGE=${VM_IMAGE-}
root=$("$SRC/scripts/toolchain.sh" $VM_IMAGE)
stock=$("$SRC/scripts/kernel.sh")
kernel=$("$SRC/scripts/kernel.sh" -k "${1:-stock}")
dir=$CACHE/image-$(key "$root" "$kernel" "$(cat "$0" "$SRC/scripts/guest-init")")
if [ ! -d "$dir" ]; then
	lock image
	if [ ! -d "$dir" ]; then
		say IMAGE "the guest's file system${VM_IMAGE:+ ($VM_IMAGE)}, about 30 s"
		as_root rm -rf "$dir.new"
		mkdir "$dir.new"
		"$SRC/scripts/in-root.sh" "$SRC/scripts/image.sh" --inside "$root" "$kernel" "$dir.new" "$stock" \
			</dev/null >"$CACHE/image.log" 2>&1 || { cat "$CACHE/image.log" >&2; die "no image"; }
		ln -s "$kernel/vmlinuz" "$dir.new/vmlinuz"
		mv "$dir.new" "$dir"
	fi
fi
echo "$dir"
