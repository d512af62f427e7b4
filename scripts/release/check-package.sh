#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-package.sh: installs, upgrades and removes the package for DKMS in the root of a Debian machine (see
# scripts/package/machine.sh) without booting it: runs tests/package/dkms.sh there, at native speed.
# check-package.sh --ready-made: the same with the packages that build nothing there (tests/package/ready-made.sh).
# check-package.sh --boot: that of DKMS on the machine booted, with its own kernel and systemd, in QEMU: runs
# tests/package/guest.sh, which reboots once. The first installation is done before it boots, since a build takes half
# an hour under emulation, and the upgrade after. BUILD_ALL=1 lets the guest do all of it.
#
# What is written goes to an overlay or a temporary image. PACKAGE_OUT=DIRECTORY keeps what the guest said and its
# kernel's log.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"
. "$SRC/scripts/machine/qemu.sh"

# Twice what two builds under emulation take.
GUEST_SECONDS=7200

# A /dev of its own: what an installation does to it must not reach this machine's.
mount_dev() { # DIRECTORY
	local name
	mount -t tmpfs -o mode=755 dev "$1"
	for name in null zero full random urandom tty; do
		: >"$1/$name"
		mount --bind "/dev/$name" "$1/$name"
	done
	ln -s /proc/self/fd "$1/fd"
}

# mount_machine ROOT WORK: what is written there goes to WORK/upper.
mount_machine() {
	local options=
	# In a user namespace, overlayfs keeps its notes in attributes that users may write.
	[ "$(awk '{ print $2, $3 }' /proc/self/uid_map)" = "0 4294967295" ] || options=,userxattr
	mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/workdir$options" overlay "$2/machine"
}

enter_machine() { # WORK SCRIPT
	mount_dev "$1/machine/dev"
	mount --rbind /proc "$1/machine/proc"
	mount -t tmpfs run "$1/machine/run"
	mount --bind "$1/srv" "$1/machine/srv"
	exec chroot "$1/machine" /bin/bash "/srv/$2"
}

# make_image WORK: the machine's disk, with the test as a service of its systemd.
make_image() {
	local units=$1/machine/etc/systemd/system
	if [ -z "${BUILD_ALL-}" ]; then
		unshare --mount --propagation private "$SRC/scripts/release/check-package.sh" --inside seed "$@"
	fi
	cp -r "$1/srv/." "$1/machine/srv/"
	mkdir -p "$units/multi-user.target.wants"
	cp "$1/srv/guest.service" "$units/ferroce-test.service"
	ln -s ../ferroce-test.service "$units/multi-user.target.wants/ferroce-test.service"
	cp "$1/machine/boot/vmlinuz-$release" "$1/vmlinuz"
	cp "$1/machine/boot/initrd.img-$release" "$1/initrd"
	mke2fs -q -t ext4 -O '^has_journal' -E lazy_itable_init=0 -d "$1/machine" "$1/disk" 8G
}

# boot_machine WORK: until it powers itself off. Fails if it did not.
boot_machine() {
	local accelerator=(-accel tcg,thread=multi -cpu max)
	IMAGE=$("$SRC/scripts/root/image.sh")
	machine_kernel stock
	[ "$(accelerator)" != kvm ] || accelerator=(-accel kvm -cpu host)
	: >"$1/tap"
	timeout "$GUEST_SECONDS" qemu-system-x86_64 -nodefaults -no-user-config -display none "${accelerator[@]}" \
		-smp 2 -m 3G -kernel "$1/vmlinuz" -initrd "$1/initrd" \
		-append "root=/dev/vda rw console=ttyS0 net.ifnames=0 panic=-1 oops=panic mitigations=off loglevel=6" \
		-drive "if=virtio,file=$1/disk,format=raw,cache=unsafe" \
		-netdev hubport,id=net,hubid=0 -device virtio-net-pci,netdev=net,romfile= \
		-device virtio-rng-pci -serial "file:$1/console" -serial "file:$1/tap" </dev/null
}

if [ "${1-}" = --inside ]; then
	release=$(<"$3/srv/release")
	[ "$2" = seed ] || mount_machine "$4" "$3"
	case $2 in
	dkms | ready-made | seed) enter_machine "$3" "$2.sh" ;;
	boot) make_image "$3" ;;
	esac
	exit
fi
how=dkms packages=--sources
case ${1-} in
'') ;;
--ready-made) how=ready-made packages= ;;
--boot) how=boot ;;
*) die "usage: check-package.sh [--ready-made | --boot]" ;;
esac
kernel=$("$SRC/scripts/kernel/kernel.sh")
if [ "$(architecture_of "$(<"$kernel/release")")" != amd64 ]; then
	echo "skipped: programs of a machine of kernel $(<"$kernel/release") do not run here"
	exit 77
fi

mkdir -p "$SRC/build"
work=$(mktemp -d "$SRC/build/package.XXXXXX")
trap 'as_root rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work"/{upper,workdir,machine,srv/debs}
root=$("$SRC/scripts/package/machine.sh")
cp "$kernel/release" "$SRC"/tests/package/* "$work/srv/"
echo "$VERSION" >"$work/srv/version"
"$SRC/scripts/release/package.sh" $packages "$work/srv/debs" >/dev/null
[ "$how" = ready-made ] || PACKAGE_VERSION=0.0.9 "$SRC/scripts/release/package.sh" --sources "$work/srv/debs" >/dev/null
export BUILD_ALL=${BUILD_ALL-}
as_root env FERROCE_CACHE="$CACHE" "$SRC/scripts/release/check-package.sh" --inside "$how" "$work" "$root" </dev/null
[ "$how" = boot ] || exit 0

need qemu-system-x86_64 qemu-system-x86
rc=0
boot_machine "$work" || rc=$?
cat "$work/tap"
if [ -n "${PACKAGE_OUT-}" ]; then
	mkdir -p "$PACKAGE_OUT"
	cp "$work"/{tap,console} "$PACKAGE_OUT/"
fi
grep -q '^1\.\.' "$work/tap" || { tail -n 20 "$work/console"; die "the machine ended early (exit code $rc)"; }
"$SRC/scripts/machine/check-dmesg.sh" "$work/console"
