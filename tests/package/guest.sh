#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The life of the packages on a machine: installation, a device at boot, interfaces that are renamed or go away,
# upgrade, removal. A service runs it at each boot; it reboots once and powers off at the end. Prepared by
# scripts/release/check-package.sh.

. /srv/lib.sh

SERVICE=ferroce@eth0.service

stty -F /dev/ttyS1 raw -echo

# within SECONDS COMMAND...: the command succeeds some time.
within() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 1
	done
}

device_on() { rdma link | tee /dev/stderr | grep -q "^link $1/1 .* netdev $2 "; } # DEVICE NETDEV
no_device() { ! rdma link | grep .; }
in_journal() { journalctl -b --no-pager | grep "$1"; } # TEXT
is_active() { systemctl is-active "$1"; }
is_inactive() { systemctl is-active "$1" | grep -x inactive; }
loaded() { [ "$(cat /sys/module/ferroce/version)" = "$1" ]; } # VERSION
network() {
	ip link set "$1" up
	ip address replace 10.9.0.1/24 dev "$1"
	within 30 grep -q 4: "/sys/class/infiniband/fr_eth0/ports/1/state"
}
gid_index() { grep -l 'ffff:0a09:0001' /sys/class/infiniband/fr_eth0/ports/1/gids/* | sed 's/.*\///' | head -n 1; }
# pingpong COUNT: over the device, in the background, with its result in /tmp/pingpong.
pingpong() {
	rm -f /tmp/pingpong
	(
		ibv_rc_pingpong -d fr_eth0 -g "$(gid_index)" -n "$1" >/tmp/server 2>&1 &
		sleep 5
		ibv_rc_pingpong -d fr_eth0 -g "$(gid_index)" -n "$1" 10.9.0.1 >/tmp/client 2>&1 && wait $! &&
			touch /tmp/pingpong
	) &
}

installation() {
	if [ ! -e /srv/before ]; then
		snapshot /srv/before
		check "apt installs it" install_dkms "$OLD"
		sed 's/^/# /' "$LOG"
	fi
	check "DKMS has built it" dkms_has_only "$OLD"
	check "and signed it" signed_by_dkms
	check "enabling the service adds a device" systemctl enable --now "$SERVICE"
	check "which rdma link shows" device_on fr_eth0 eth0
	check "and the module has been loaded" loaded "$OLD"
	check "and ib_uverbs with it" test -d /sys/module/ib_uverbs
	network eth0
	pingpong 100
	check "and programs use it" within 60 test -e /tmp/pingpong
}

boot() {
	check "after a reboot the service is active" within 60 is_active "$SERVICE"
	check "and the device is there" device_on fr_eth0 eth0
	check "and nothing has failed" test -z "$(systemctl --failed --plain --no-legend)"
}

renaming() {
	network eth0
	pingpong 30000
	sleep 7
	ip link set eth0 name lan0
	check "when the interface is renamed, the device stays" device_on fr_eth0 lan0
	check "and the service of the old name ends" within 30 is_inactive "$SERVICE"
	check "and still the device stays" device_on fr_eth0 lan0
	check "and programs go on" within 300 test -e /tmp/pingpong
	check "the service of the new name takes it over" systemctl start ferroce@lan0
	check "which adds no other" test "$(rdma link | wc -l)" = 1
	check "and deletes it" systemctl stop ferroce@lan0
	check "so that it is gone" no_device
	ip link set lan0 name eth0
	check "when the old name appears again, so does the device" within 30 device_on fr_eth0 eth0
}

hotplug() {
	local port=/sys/class/net/eth0/device name
	name=$(basename "$(readlink -f "$port")")
	echo "$name" >/sys/bus/virtio/drivers/virtio_net/unbind
	check "when the interface goes, the device goes" within 30 no_device
	check "and the service ends without an error" within 30 is_inactive "$SERVICE"
	echo "$name" >/sys/bus/virtio/drivers/virtio_net/bind
	check "when it comes again, so does the device" within 30 device_on fr_eth0 eth0
}

settings() {
	mkdir -p "/etc/systemd/system/$SERVICE.d"
	printf '[Service]\nEnvironment=DEVICE=fr0\n' >"/etc/systemd/system/$SERVICE.d/override.conf"
	systemctl daemon-reload
	check "a drop-in names the device" systemctl restart "$SERVICE"
	check "and is obeyed" device_on fr0 eth0
	systemctl stop "$SERVICE"
	rdma link add other type ferroce netdev eth0
	check "an interface that has a device already is an error" fails systemctl start "$SERVICE"
	check "which the journal explains" in_journal "ferroce: cannot add fr0"
	check "and that device stays" device_on other eth0
	rdma link del other
	check "without it, the service starts" systemctl start "$SERVICE"
}

upgrade() {
	check "apt upgrades it" install_dkms "$NEW"
	sed 's/^/# /' "$LOG"
	check "and says that the old one stays loaded" grep "ferroce $OLD stays loaded" "$SAID"
	check "DKMS has replaced it" dkms_has_only "$NEW"
	check "the device has stayed" device_on fr0 eth0
	systemctl stop "$SERVICE"
	rmmod ferroce
	systemctl start "$SERVICE"
	check "the next load is the new one" loaded "$NEW"
	check "and has the device" device_on fr0 eth0
}

removal() {
	check "apt purges it" apt purge ferroce-dkms ferroce-common
	sed 's/^/# /' "$LOG"
	check "and its device is gone" no_device
	check "the module can be unloaded" rmmod ferroce
	snapshot /srv/after
	check "no file is left" unchanged /srv/before /srv/after
	check "and no unit" test -z "$(systemctl list-units --all --plain --no-legend 'ferroce@*')"
}

if [ ! -e /srv/count ]; then
	installation
	echo "$NUMBER" >/srv/count
	systemctl reboot 2>/dev/null
else
	NUMBER=$(cat /srv/count)
	boot
	renaming
	hotplug
	settings
	upgrade
	removal
	echo "1..$NUMBER"
	systemctl poweroff 2>/dev/null
fi
