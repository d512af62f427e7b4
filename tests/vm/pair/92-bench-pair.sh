# SPDX-License-Identifier: GPL-2.0
#
# scripts/bench-pair.sh between two machines, by ssh: what is missing is named, figures come of every contestant, and
# nothing that was added stays, even after an interrupt.
#
#	machine b: client, runs the script ====== machine a: server, with sshd
#
# machine: VM_IMAGE=suites VM_FILES=scripts
# long: TOPOLOGY=pair VM_IMAGE=suites VM_FILES=scripts VM_TIMEOUT=1800

. "$VM_LIB"

KEY_PORT=5900
OUT=/out

serve_ssh() {
	mkdir -p /run/sshd /root/.ssh && chmod 700 /root /root/.ssh || return
	ssh-keygen -q -t ed25519 -N '' -f /run/host_key || return
	timeout 120 busybox nc -l -p "$KEY_PORT" >/root/.ssh/authorized_keys || return
	/usr/sbin/sshd -f /dev/null -h /run/host_key -o UsePAM=no -o StrictModes=no -o PermitRootLogin=yes
}

use_ssh() {
	mkdir -p /root/.ssh
	ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519 || return
	echo "StrictHostKeyChecking accept-new" >/root/.ssh/config
	within 60 send_key && within 60 ssh -o BatchMode=yes "$PEER_ADDR" true
}

send_key() { cat /root/.ssh/id_ed25519.pub >"/dev/tcp/$PEER_ADDR/$KEY_PORT"; }

bench() { timeout 1500 /ferroce/scripts/bench-pair.sh "$PEER_ADDR" --out "$OUT" "$@"; }

# refuses TEXT OPTION...: the script ends and says so.
refuses() { ! bench "${@:2}" >/tmp/refused 2>&1 && { grep -q "$1" /tmp/refused || { cat /tmp/refused; false; }; }; }

# is_clean [COMMAND...]: no module and no RDMA device is left, here or where the command runs it.
is_clean() { [ -z "$("$@" sh -c 'cat /proc/modules; rdma link' | grep -E '^(ferroce|rdma_rxe) |bench_')" ]; }
both_clean() { is_clean && is_clean ssh "$PEER_ADDR"; }

# figures EXPRESSION: something about what the file of results holds.
figures() {
	python3 - "$1" <<-'EOF'
		import json, sys
		found = json.load(open("/out/results.json"))
		good = [r["job"] for r in found["results"] if "figures" in r and r["job"]["round"]]
		have = {(job["run"], job["who"]) for job in good}
		ends = found["machine"]["machines"]
		sys.exit(not eval(sys.argv[1]))
	EOF
}

# interrupted: ^C in mid-measurement.
interrupted() {
	local pid rc=0
	setsid /ferroce/scripts/bench-pair.sh "$PEER_ADDR" --out /tmp/not --only write_bw_64kib --rounds 50 \
		>/tmp/interrupted 2>&1 &
	pid=$!
	within 120 grep -q 'write_bw_64kib, wire, ferroce' /tmp/interrupted || return
	kill -INT "$pid"
	wait "$pid" || rc=$?
	cat /tmp/interrupted
	[ "$rc" = 1 ] && grep -q 'interrupted' /tmp/interrupted
}

rdma link del "$DEV" && unload "$DRIVER"
if [ "$NODE" = a ]; then
	check "sshd is started" serve_ssh
	barrier
	check "The module is installed" install_driver
	barrier
	# Longer than a barrier waits.
	check "The other machine says when all is over" within 1700 [ -e /run/over ]
	finish
fi
check "ssh reaches the other machine" use_ssh
barrier
check "A missing module is named, with its machine" refuses "$PEER_ADDR has no module ferroce"
barrier
check "The module is installed" install_driver
check "An address that the other machine lacks is refused" refuses 'is not an address of' --address 10.0.0.9
check "Its own address is refused" refuses 'is an address of this machine' --address "$ADDR"
check "The benchmark runs" bench --rounds 1 --seconds 1
note <"$OUT/table.txt"
check "All RDMA runs have figures" figures 'len([1 for run, who in have if who != "tcp"]) == 12'
check "All TCP runs have figures" figures 'len([1 for run, who in have if who == "tcp"]) == 5'
check "Both machines are described" figures '[e["nic"]["driver"] for e in ends.values()] == ["virtio_net"] * 2'
check "A picture is drawn" grep -q '</svg>' "$OUT/performance.svg"
check "Nothing is left on either machine" both_clean
check "It can be interrupted" interrupted
check "Nothing is left after that" both_clean
ssh "$PEER_ADDR" touch /run/over
finish
