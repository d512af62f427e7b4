# SPDX-License-Identifier: GPL-2.0
#
# The cost of passing IP packets down one by one, as GSO lists (as the driver does, but here the payload is copied), or
# as one buffer that is segmented. For the figures see "Super-packets travel as GSO lists" in
# Documentation/decisions.rst. A module (tests/module) sends packets in these ways, alternately, on one CPU, without the
# driver. The figures are meaningful on an otherwise idle machine. The test checks that every byte arrives, and that the
# interface splits the packets that it claims to split.
#
#	v0 ------ v1     v1 is in namespace b
#
# SEGMENT_ROUNDS rounds of SEGMENT_TURNS turns of some hundred packets, for each method, size and interface.
#
# long: alone TOPOLOGY=netns KERNEL=uml VM_CMDLINE=pin_cpus
# long: TOPOLOGY=netns KERNEL=umdebug VM_ENV=SEGMENT_TURNS=10

. "$VM_LIB"

if [ ! -f /ferroce/segments.ko ]; then
	skip "Segments" "the module comes with a build of ferroce"
	finish
fi
if ! command -v ethtool >/dev/null; then
	skip "Segments" "no ethtool"
	finish
fi

# results: prints the lines that the module wrote since the last load.
results() { sed -n 's/^.*ferroce-test: \(\(not \)\?ok \|# \|1\.\.\)/\1/p' /tmp/log; }

# send_over INTERFACE ADDRESS BYTES PACKETS LISTS SEGMENTS RUNS: sends turns of that many packets to the address. LISTS,
# SEGMENTS and RUNS say whether GSO lists, segmented buffers, and runs with one header pass the interface whole.
send_over() {
	local line came=
	dmesg >/tmp/before
	# The module's init always returns an error, so insmod fails.
	taskset -c 1 insmod /ferroce/segments.ko to="$2" bytes="$3" packets="$4" lists="$5" segments="$6" runs="$7" \
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
	check "$1, $3 bytes: the module completes" [ -n "$came" ]
}

# over INTERFACE ADDRESS LISTS SEGMENTS RUNS
over() {
	send_over "$1" "$2" 4096 120 "$3" "$4" "$5"
	send_over "$1" "$2" 1024 248 "$3" "$4" "$5"
}

# The driver's netfilter hooks would also run for each packet.
rmmod ferroce
check "The peer answers" ping -q -c 1 "$PEER_ADDR"
over "veth" "$PEER_ADDR" 1 1 1
over "lo" 127.0.0.1 1 1 0
ethtool -K "$NETDEV" tx-gso-list off
over "veth that takes no lists" "$PEER_ADDR" 0 1 1
ethtool -K "$NETDEV" tx-udp-segmentation off
over "veth that takes neither" "$PEER_ADDR" 0 0 1
ethtool -K "$NETDEV" tx-checksum-ip-generic off >/dev/null
over "veth that takes neither, nor checksums" "$PEER_ADDR" 0 0 0
ethtool -K "$NETDEV" sg off >/dev/null
over "veth that takes none of these, nor fragments" "$PEER_ADDR" 0 0 0
finish
