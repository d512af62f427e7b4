#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# machine.sh: makes the root of a Debian machine that has the stock kernel, systemd, and just what the packages ask
# for, so that one that they forget is missing. Prints its path.

set -euo pipefail
. "$(dirname "$0")/../lib.sh"

PARTS=$SRC/scripts/package
# What a machine has anyway, and what tests call.
PACKAGES_MACHINE="systemd-sysv udev kmod iproute2 initramfs-tools man-db mandoc ibverbs-utils ibverbs-providers
rdma-core"

# depends KIND: the packages that the package depends on, of alternatives the last, without versions; not our own.
depends() {
	sed -n 's/^Depends: //p' "$PARTS/$1.control" | tr ',' '\n' |
		sed -e 's/.*| *//' -e 's/(.*//' -e 's/ //g' -e '/^ferroce/d'
}

build() {
	local mirror archive sources=()
	say ROOT "a Debian machine with kernel $release, about two minutes"
	# From where the toolchain root came.
	mirror=$(sed -n "s|^deb \(\[[^]]*\] \)\?\([^ ]*\) $SUITE .*|\2|p" \
		"$(TOOLCHAIN=$SUITE "$SRC/scripts/root/toolchain.sh")/etc/apt/sources.list" | sed -n 1p)
	for archive in "$suite" $archives; do
		[ "$archive" = "$suite" ] && [ "${#sources[@]}" -gt 0 ] || sources+=("deb $mirror $archive main")
	done
	debian_root "$root.new" "$CACHE/machine.log" "$packages" --variant=minbase "$suite" - "${sources[@]}"
	as_root mv "$root.new" "$root"
}

release=$(<"$("$SRC/scripts/kernel/kernel.sh")/release")
origin=$(origin_of "$release")
read -r suite archives <<<"$origin"
# The release's own kernel comes from no other archive. Another kernel needs linux-base from where it comes itself.
base=linux-base/${archives%% *}
case $release in
6.*) archives='' base=linux-base ;;
esac
packages=$(echo $PACKAGES_MACHINE "$base" "linux-image-$release" "linux-headers-$release" \
	$(depends dkms; depends common))
root=$CACHE/machine-$(key "$suite" "$packages")
if [ ! -d "$root" ]; then
	lock machine
	[ -d "$root" ] || build
fi
hand_out "$root"
