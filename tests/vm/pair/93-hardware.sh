# SPDX-License-Identifier: GPL-2.0
#
# tests/hardware.sh, with a namespace in place of another machine: all programs pass in both directions, the report has
# what it promises, and where HOST cannot be reached it tells what to type.
#
#	v0 [DEV] ------ v1 [PEER_DEV]     v1 is in namespace b
#
# machine: VM_FILES=tests/hardware.sh
# vm: TOPOLOGY=netns VM_ENV=ONLY=*pingpong KERNEL=umdebug
# long: TOPOLOGY=netns VM_TIMEOUT=1800

. "$VM_LIB"
modprobe -a rdma_ucm
report=/out/hardware-report.txt

tried() {
	/ferroce/hardware.sh "$PEER_ADDR" --here "$DEV" --there "$PEER_DEV" --at "$PEER_ADDR" --by "ip netns exec b" \
		--only "${ONLY-*}" --out "$report"
}

# has TEXT...: the report has each of them.
has() { local text; for text in "$@"; do grep -q -- "$text" "$report" || { echo "no $text"; return 1; }; done; }

check "All programs pass in both directions" tried
check "The report describes both ends" has "== here" "== $PEER_ADDR" RoCE "active_mtu" "$NETDEV"
check "The report has results" has "ok      ibv_rc_pingpong (out)" "ok      ibv_ud_pingpong (in)" ", 0 failed"
check "The report has the counters of both ends" has "== counters here" "== counters of" "hw_counters/sent_pkts"
check_fails "A host that does not answer ends it" /ferroce/hardware.sh 192.0.2.1 --by false --out /tmp/none
check "It tells what to type then" sh -c \
	'/ferroce/hardware.sh 192.0.2.1 --by false --out /tmp/none | grep -q "ibv_rc_pingpong -d DEVICE"'
finish
