# SPDX-License-Identifier: GPL-2.0
#
# What it costs to give IP packets one by one, as lists of buffers, which is what the driver does, though with payload
# that it copies, or as one buffer that is segmented: figures, see "Bursts are lists of buffers" in
# Documentation/decisions.rst. A module (tests/module) sends them in these ways, in turn, on one processor; the driver
# has no part in it. The figures mean something on a machine that does nothing else. What is judged is that every byte
# arrives, and that the interface splits what it says it splits.
#
#	v0 ------ v1     v1 is in namespace b
#
# SEGMENT_ROUNDS rounds of SEGMENT_TURNS turns of some hundred packets, for each way, size and interface.
#
# long: alone TOPOLOGY=netns KERNEL=uml VM_CMDLINE=pin_cpus
# long: TOPOLOGY=netns KERNEL=umdebug VM_ENV=SEGMENT_TURNS=10

. "$VM_LIB"

if [ ! -f /ferroce/segments.ko ]; then
	skip "segments" "the module comes with a build of ferroce"
	finish
fi
if ! command -v ethtool >/dev/null; then
	skip "segments" "no ethtool"
	finish
fi

# results: what the module has written since the log was last emptied.
results() { sed -n 's/^.*ferroce-test: \(\(not \)\?ok \|# \|1\.\.\)/\1/p' /tmp/log; }

# send_over INTERFACE ADDRESS BYTES PACKETS LISTS SEGMENTS: turns of so many packets to that address; whether lists and
# what is to be segmented pass that interface whole.
send_over() {
	local line came=
	dmesg >/tmp/before
	# It never stays, so loading it fails.
	taskset -c 1 insmod /ferroce/segments.ko to="$2" bytes="$3" packets="$4" lists="$5" segments="$6" \
		rounds="${SEGMENT_ROUNDS:-5}" turns="${SEGMENT_TURNS:-300}" 2>/tmp/error
	dmesg | tail -n +$(($(wc -l </tmp/before) + 1)) >/tmp/log
	note "$1, $4 packets of $3 bytes:"
	while read -r line; do
		case $line in
		ok*) ok "$1, $3 bytes: ${line#ok * }" ;;
		not*) not_ok "$1, $3 bytes: ${line#not ok * }" ;;
		'#'*) echo "$line" ;;
		1..*) came=1 ;;
		esac
	done < <(results)
	check "$1, $3 bytes: the module came to its end" [ -n "$came" ]
}

# over INTERFACE ADDRESS LISTS SEGMENTS
over() {
	send_over "$1" "$2" 4096 120 "$3" "$4"
	send_over "$1" "$2" 1024 248 "$3" "$4"
}

# Its hook would be asked, too.
rmmod ferroce
check "the far end is there" ping -q -c 1 "$PEER_ADDR"
over "veth" "$PEER_ADDR" 1 1
over "lo" 127.0.0.1 1 1
ethtool -K "$NETDEV" tx-gso-list off
over "veth that takes no lists" "$PEER_ADDR" 0 1
ethtool -K "$NETDEV" tx-udp-segmentation off
over "veth that takes neither" "$PEER_ADDR" 0 0
ethtool -K "$NETDEV" tx-checksum-ip-generic off >/dev/null
over "veth that takes neither, nor checksums" "$PEER_ADDR" 0 0
ethtool -K "$NETDEV" sg off >/dev/null
over "veth that takes none of these, nor fragments" "$PEER_ADDR" 0 0
finish
