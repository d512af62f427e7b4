# SPDX-License-Identifier: GPL-2.0
#
# What check-secure-boot.sh runs in the guest.

. "$VM_LIB"

mount -t securityfs none /sys/kernel/security 2>/dev/null
modprobe -a ib_uverbs udp_tunnel ip6_udp_tunnel
refused() { ! insmod "/ferroce/$1.ko" && [ ! -d /sys/module/ferroce ]; } # MODULE
check "the firmware has Secure Boot on" grep -qi 'secure boot enabled' <(dmesg)
check "so the kernel is locked down" grep -q '\[integrity\]' /sys/kernel/security/lockdown
check "a module without a signature is refused" refused unsigned
check "and one of which a byte was altered" refused altered
started=$(date +%s)
check "the signed module loads" insmod /ferroce/signed.ko
check "and has a device" rdma link add fr0 type ferroce netdev "$NETDEV"
echo "# $(($(date +%s) - started)) s"
check "it says who signed it" sh -c 'modinfo -F signer /ferroce/signed.ko | grep -x ferroce-test'
check "the kernel is not tainted by an unsigned module" sh -c '[ $(($(cat /proc/sys/kernel/tainted) & 8192)) = 0 ]'
finish
