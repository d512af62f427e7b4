# SPDX-License-Identifier: GPL-2.0
#
# Common to the tests of packages; sourced by them, on the machine that has the packages in /srv.

export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
HERE=/srv
OLD=0.0.9
NEW=$(cat "$HERE/version")
RELEASE=$(cat "$HERE/release")
NUMBER=0
LOG=/tmp/log
# What the command of the check before printed.
SAID=/tmp/said

# check NAME COMMAND...: one test; says what the command printed if it fails.
check() {
	local name=$1
	shift
	[ ! -e "$LOG" ] || mv "$LOG" "$SAID"
	NUMBER=$((NUMBER + 1))
	if ("$@") </dev/null >"$LOG" 2>&1; then
		echo "ok $NUMBER $name"
	else
		echo "not ok $NUMBER $name"
		tail -n 40 "$LOG" | sed 's/^/# /'
	fi
}

fails() { if "$@"; then return 1; fi; }

# says COMMAND... -- TEXT: the command fails with exit code 1, and its only line contains TEXT.
says() {
	local command=() output rc=0
	while [ "$1" != -- ]; do command+=("$1"); shift; done
	output=$("${command[@]}" 2>&1) || rc=$?
	echo "exit code $rc: $output"
	[ "$rc" = 1 ] && [ "$(wc -l <<<"$output")" = 1 ] && [[ $output == *"$2"* ]]
}

apt() { apt-get -y -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0 "$@"; }
deb() { ls "$HERE"/debs/"$1"_"$2"_*.deb; } # PACKAGE VERSION
install_dkms() { apt install "$(deb ferroce-common "$1")" "$(deb ferroce-dkms "$1")"; } # VERSION
installed() { [ "$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$1")" = "installed $2" ]; } # PACKAGE VERSION

# snapshot FILE: every file with its mode, and its length or target. Left out is what is not the packages': logs,
# caches, states of dpkg, apt and systemd, the key of DKMS, and the unit of the test.
snapshot() {
	local skip=() path
	for path in /proc /sys /dev /run /tmp /srv /root /lost+found /var/{log,cache,tmp,backups} \
		/var/lib/{dpkg,apt,systemd,private} '/var/lib/dkms/mok.*' /etc/machine-id /etc/resolv.conf \
		/etc/.updated /var/.updated '*/ferroce-test.service'; do
		skip+=(-o -path "$path")
	done
	find / -xdev \( "${skip[@]:1}" \) -prune -o -type d -printf '%p %y %m %u:%g\n' \
		-o -printf '%p %y %m %u:%g %s %l\n' | sort >"$1"
}

version_is() { [ "$(modinfo -k "$RELEASE" -F version ferroce)" = "$1" ]; }
dkms_has_only() { # VERSION
	dkms status
	[ "$(dkms status | grep -c '^ferroce/')" = 1 ] && dkms status | grep -q "^ferroce/$1, $RELEASE, .*: installed"
}
signed_by_dkms() { modinfo -k "$RELEASE" -F signer ferroce | grep .; }
resolves() { modprobe -S "$RELEASE" --show-depends "$1" | tee /dev/stderr | grep -q '/ferroce\.ko'; } # NAME
brings() { modprobe -S "$RELEASE" --show-depends ferroce | grep "/$1\.ko"; } # MODULE
# described: every parameter has a text.
described() {
	modinfo -k "$RELEASE" -p ferroce | grep ':[A-Z]' && ! modinfo -k "$RELEASE" -p ferroce | grep -v ':[A-Z]'
}
# takes_the_place NAME: modprobe loads ferroce for it, with the parameter.
takes_the_place() { modprobe -S "$RELEASE" --show-depends "$1" | grep '/ferroce\.ko.* as_rxe=1'; }
gone() { for path; do [ ! -e "$path" ] || { ls -ld "$path"; return 1; }; done; } # PATH...
unchanged() { # FILE FILE
	diff "$1" "$2"
}

# removal_of PACKAGE...: packages with the module, and not a file stays. Needs the snapshot /tmp/before.
removal_of() {
	check "apt removes it" apt remove "$@"
	check "and the module" gone "/lib/modules/$RELEASE/updates"
	check "dpkg purges it" dpkg --purge "$@"
	snapshot /tmp/after
	check "no file is left" unchanged /tmp/before /tmp/after
}
