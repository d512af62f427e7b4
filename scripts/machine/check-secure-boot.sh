#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check-secure-boot.sh: a signed module on a machine with Secure Boot. A key is made and enrolled in the firmware; the
# kernel's image and the module of the package are signed with it, and the machine is booted. The kernel, which then is
# locked down, must load this module, and refuse it unsigned or with an altered byte. The guest has no compilers.
#
# The kernel is Debian's own, or KVER.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

# Of the owner of the key, any.
OWNER=5ec0b007-0000-4000-8000-000000000001

if [ "${1-}" = --inside ]; then
	cd "$2"
	openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /CN=ferroce-test/ -keyout key.pem -out cert.pem
	virt-fw-vars --input /usr/share/OVMF/OVMF_VARS_4M.fd --output vars.fd --secure-boot \
		--set-pk "$OWNER" cert.pem --add-kek "$OWNER" cert.pem --add-db "$OWNER" cert.pem
	cp /usr/share/OVMF/OVMF_CODE_4M.secboot.fd code.fd
	sbsign --key key.pem --cert cert.pem --output vmlinuz.signed vmlinuz
	exit
fi

export KVER=${KVER:-$SUITE}
mkdir -p "$SRC/build"
work=$(mktemp -d "$SRC/build/secure-boot.XXXXXX")
trap 'rm -rf "$work"' EXIT
kernel=$("$SRC/scripts/kernel/kernel.sh")
cp "$kernel/vmlinuz" "$work/"
TOOLCHAIN=firmware "$SRC/scripts/root/in-root.sh" "$SRC/scripts/machine/check-secure-boot.sh" --inside "$work" \
	</dev/null >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; die "cannot prepare the firmware"; }

export SIGNING_KEY=$work/key.pem SIGNING_CERT=$work/cert.pem
"$SRC/scripts/release/package.sh" "$work" >/dev/null 2>"$work/log" ||
	{ tail -n 20 "$work/log" >&2; die "cannot make the packages"; }
"$SRC/scripts/root/in-root.sh" dpkg-deb --fsys-tarfile "$work"/ferroce-modules*.deb </dev/null |
	tar -x -O --wildcards '*/ferroce.ko' >"$work/signed.ko"
"$SRC/scripts/root/in-root.sh" strip --strip-unneeded -o "$work/unsigned.ko" "$work/signed.ko" </dev/null
python3 - "$work/signed.ko" "$work/altered.ko" <<-'EOF'
	import sys
	module = bytearray(open(sys.argv[1], "rb").read())
	module[len(module) // 2] ^= 1
	open(sys.argv[2], "wb").write(module)
EOF

rc=0
DRIVER=none TOPOLOGY=single VM_COLD=1 VM_MACHINE=q35,smm=on VM_KERNEL=$work/vmlinuz.signed \
	VM_QEMU="-global driver=cfi.pflash01,property=secure,value=on
		-drive if=pflash,unit=0,format=raw,readonly=on,file=$work/code.fd
		-drive if=pflash,unit=1,format=raw,file=$work/vars.fd" \
	VM_FILES="$work/unsigned.ko $work/altered.ko $(echo "$work"/ferroce-{common,modules}*.deb)" \
	"$SRC/scripts/vm.sh" "$SRC/scripts/machine/secure-boot-guest.sh" || rc=$?
exit "$rc"
