# SPDX-License-Identifier: GPL-2.0
#
# How many instructions a message takes, of the whole machine: of the programs, the kernel and the driver. The machine
# is emulated, has one processor, and its clock counts instructions, so the host's load does not matter. Each case runs
# perftest for N and for 2 N messages, without its computation of peaks, which takes longer than the messages; the
# difference of the time in which a task ran, divided by N, is the figure. instructions.list says what is expected: a
# path must not become longer by more than its tolerance without a change there. instructions_direct.list is for
# ferroce's own provider.
#
#	netns    v0 [DEV] ------ v1 [PEER_DEV]  v1 is in namespace b; "device" is DEV with itself
#
# INSTRUCTIONS=all measures all cases, and those of rdma_rxe beside; otherwise those marked with an asterisk.
#
# vm: VM_ICOUNT=1 VM_CPUS=1 TOPOLOGY=netns VM_TIMEOUT=900
# long: VM_ICOUNT=1 VM_CPUS=1 TOPOLOGY=netns VM_TIMEOUT=900 PROVIDER=direct
# long: VM_ICOUNT=1 VM_CPUS=1 TOPOLOGY=netns VM_TIMEOUT=3600 VM_ENV=INSTRUCTIONS=all

. "$VM_LIB"

# ran: prints for how long the processor has run tasks, in nanoseconds of the machine, that is, instructions.
ran() { awk '$1 == "cpu0" { print $8 }' /proc/schedstat; }

# transfer COUNT PATH COMMAND...: prints how many instructions it takes.
transfer() {
	local count=$1 start client=("$PEER_DEV" "$PEER_GID4")
	local -a at=(at_peer)
	[ "$2" = veth ] || { client=("$DEV" "$GID4"); at=(); }
	shift 2
	"$@" -N -F -d "$DEV" -x "$GID4" -n "$count" >/tmp/server 2>&1 &
	await_listener 18515 || return
	start=$(ran)
	"${at[@]}" "$@" -N -F -d "${client[0]}" -x "${client[1]}" -n "$count" "$ADDR" >/tmp/client 2>&1 || return
	wait
	echo $(($(ran) - start))
}

# measure COUNT PATH COMMAND...: prints the number of instructions of one message.
measure() {
	local count=$1 once twice
	once=$(transfer "$count" "${@:2}") && twice=$(transfer $((2 * count)) "${@:2}") || return
	echo $(((twice - once) / count))
}

# judge NAME EXPECTED TOLERANCE MEASURED
judge() {
	local room=$(($2 * $3 / 100))
	check "$1: $4 instructions, expected $2" [ "$4" -le $(($2 + room)) ]
	[ "$4" -ge $(($2 - room)) ] || note "$1: fewer than expected; lower the number in instructions.list"
}

# The clock jumps while the machine waits for its disk, which RCU takes for a stall.
echo 1 >/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress

# Let what the boot has left to do end; to wait takes no time here. The first run of a program reads it from the disk.
sleep 10
for tool in ib_write_bw ib_send_bw ib_read_bw; do transfer 100 device "$tool" -s 64 >/dev/null; done

list=instructions.list
[ "$PROVIDER" != direct ] || list=instructions_direct.list
while read -r chosen expected tolerance count path command; do
	case $chosen in
	'#'* | '') continue ;;
	-) [ "${INSTRUCTIONS-}" = all ] || continue ;;
	esac
	mark "$path $command"
	found=$(measure "$count" "$path" $command)
	if [ -z "$found" ]; then
		tail -n 20 /tmp/server /tmp/client | note
		not_ok "$path, $command"
	else
		[ "$DRIVER" = ferroce ] || { note "$DRIVER, $path, $command: $found"; continue; }
		judge "$path, $command" "$expected" "$tolerance" "$found"
	fi
done <"${VM_LIB%/*}/$list"
[ "$DRIVER" = ferroce ] || ok "$DRIVER has been measured"
finish
