# SPDX-License-Identifier: GPL-2.0
#
# The benchmark on the stock kernel under QEMU: every line of emulated.txt is a name and an RDMA program; then TCP. The
# client's machine prints the output of its programs between two lines that bench.emulated recognises.

. "$VM_LIB"

# shown NAME COMMAND...: a test, and what its client said.
shown() {
	local name=$1 rc=0
	shift
	"$@" || rc=$?
	[ "$TOPOLOGY" != pair ] || [ "$NODE" = b ] || return 0
	echo "bench: begin $name"
	cat /tmp/client
	echo "bench: end $rc"
}

while read -r name command <&3; do
	shown "$name" perftest $command
done 3</ferroce/emulated.txt
shown tcp traffic "iperf3" 5201 "iperf3 -s -1" "iperf3 -c \$to -J -l 64K -t 2"
finish
