# SPDX-License-Identifier: GPL-2.0
#
# What check-secure-boot.sh runs in the guest.

. "$VM_LIB"

RELEASE=$(uname -r)
PLACE=/usr/lib/modules/$RELEASE/updates

refused() { ! insmod "/ferroce/$1.ko" && [ ! -d /sys/module/ferroce ]; } # MODULE

# told PATTERN: what the service says when no device can be added, which is one line.
told() {
	! DEVICE=fr0 TYPE=ferroce /usr/lib/ferroce/link add "$NETDEV" 2>/tmp/told &&
		[ "$(grep -c '^ferroce: ' /tmp/told)" = 1 ] && grep -q "^ferroce: .*$1" /tmp/told && return
	sed 's/^/# /' /tmp/told
	return 1
}

# install_module FILE: in the place of the package's.
install_module() {
	mkdir -p "$PLACE"
	cp "$1" "$PLACE/ferroce.ko"
	depmod
}

mount -t securityfs none /sys/kernel/security 2>/dev/null
check "the firmware has Secure Boot on" grep -qi 'secure boot enabled' <(dmesg)
check "so the kernel is locked down" grep -q '\[integrity\]' /sys/kernel/security/lockdown
check "there is no compiler" sh -c '! command -v gcc && ! command -v rustc'

modprobe -a ib_uverbs udp_tunnel ip6_udp_tunnel
check "a module without a signature is refused" refused unsigned
check "and one of which a byte was altered" refused altered

dpkg -i --force-depends /ferroce/ferroce-common*.deb >/dev/null
check "without a module, the service says what to install" told "ferroce-modules-$RELEASE"
install_module /ferroce/unsigned.ko
check "with one that is not signed, it says that a key must be enrolled" told 'enrol its key'
sed "s/vermagic=$RELEASE/vermagic=${RELEASE%?}X/" /ferroce/unsigned.ko >/tmp/other.ko
install_module /tmp/other.ko
check "with one for another kernel, it names both kernels" told "for kernel ${RELEASE%?}X, not for the running $RELEASE"
rm -r "$PLACE"

started=$(date +%s)
check "the package is installed" dpkg -i --force-depends /ferroce/ferroce-modules*.deb
check "the service loads the signed module" env DEVICE=fr0 TYPE=ferroce /usr/lib/ferroce/link add "$NETDEV"
echo "# from the package to the device: $(($(date +%s) - started)) s"
check "there is the device" rdma link show fr0/1
check "it says who signed it" sh -c 'modinfo -F signer ferroce | grep -x ferroce-test'
check "the kernel is not tainted by an unsigned module" sh -c '[ $(($(cat /proc/sys/kernel/tainted) & 8192)) = 0 ]'
finish
