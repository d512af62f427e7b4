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
		sed -e 's/.*| *//' -e 's/(.*//' -e 's/ //g' -e '/^ferroce/d' \
			-e "s/^linux-source-.*/linux-source-$series/"
}

build() {
	local mirror archive sources=()
	say ROOT "a Debian machine with kernel $release, about two minutes"
	# From where the toolchain root came.
	mirror=$(sed -n "s|^deb \(\[[^]]*\] \)\?\([^ ]*\) $SUITE .*|\2|p" \
		"$(TOOLCHAIN=$SUITE "$SRC/scripts/toolchain.sh")/etc/apt/sources.list" | sed -n 1p)
	for archive in "$suite" $archives; do
		[ "$archive" = "$suite" ] && [ "${#sources[@]}" -gt 0 ] || sources+=("deb $mirror $archive main")
	done
	debian_root "$root.new" "$CACHE/machine.log" "$packages" --variant=minbase "$suite" - "${sources[@]}"
	as_root mv "$root.new" "$root"
}

release=$(<"$("$SRC/scripts/kernel.sh")/release")
origin=$(origin_of "$release")
suite=${origin%% *} archives=${origin#* }
series=$(sed -E 's/^([0-9]+\.[0-9]+).*/\1/' <<<"$release")
# The kernel needs linux-base from where it comes itself.
packages=$(echo $PACKAGES_MACHINE "linux-base/${archives%% *}" "linux-image-$release" "linux-headers-$release" \
	$(depends dkms; depends common))
root=$CACHE/machine-$(key "$suite" "$packages")
if [ ! -d "$root" ]; then
	lock machine
	[ -d "$root" ] || build
fi
echo "$root"
