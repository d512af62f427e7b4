#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of ferroce-run from its caller's side: in a container, as a user without rights, in a directory that is
# writable. SANDBOX is where it is unpacked. scripts/release/check-sandbox.sh makes all that. The container has bash,
# coreutils, procps and ibverbs-utils. ENGINE=tcg tests what matters most on that, for a machine takes 10 seconds to
# start then.

. ./lib.sh
RUN=(ferroce-run --memory 512M ${ENGINE:+--engine "$ENGINE"})

# returns CODE COMMAND...: the command ends with this exit code.
returns() {
	local rc=0
	"${@:2}" || rc=$?
	echo "exit code $rc, expected $1"
	[ "$rc" = "$1" ]
}

# says CODE TEXT COMMAND...: the same, and standard error contains the text.
says() {
	returns "$1" "${@:3}" 2>errors || { cat errors; return 1; }
	cat errors
	grep -qF -- "$2" errors
}

run() { "${RUN[@]}" "$@"; }

# begin SCRIPT: runs it in the background, as $PID, and returns when it has said `ready`. Its output goes to the files
# out and error.
begin() {
	rm -f out
	"${RUN[@]}" -- sh -c "$1" >out 2>error &
	PID=$!
	until grep -qs ready out; do sleep 0.1; done
}

# ---- the command -----------------------------------------------------------------------------

streams_stay_apart() {
	run -- sh -c 'echo out; echo error >&2' >out 2>error
	[ "$(<out)" = out ] && [ "$(<error)" = error ]
}

input_arrives() {
	head -c 2000000 /dev/urandom >input
	[ "$(run -- md5sum <input)" = "$(md5sum <input)" ]
}

output_is_not_changed() {
	head -c 5000000 /dev/urandom >data
	run -- cat data >copy && cmp data copy
}

# A command that never reads must not be in the way of anything.
input_is_not_read() { returns 3 run -- sh -c 'sleep 0.2; exit 3' < <(head -c 5000000 /dev/zero); }

output_is_not_held_back() {
	coproc "${RUN[@]}" -- sh -c 'echo first; read line; echo "$line"'
	local first second
	read -r -t 60 first <&"${COPROC[0]}"
	echo second >&"${COPROC[1]}"
	read -r -t 60 second <&"${COPROC[0]}"
	[ "$first $second" = "first second" ]
}

arguments_are_kept() {
	[ "$(run -- printf '<%s>' 'a  b' $'c\nd' '' '*' "e'f")" = $'<a  b><c\nd><><*><e\'f>' ]
}

environment_is_kept() { [ "$(ODD=$' a\nb=c ' run -- sh -c 'echo "$ODD"')" = $' a\nb=c ' ]; }

directory_is_kept() {
	mkdir -p 'odd, dir=x'
	cd 'odd, dir=x' && [ "$(run -- pwd)" = "$PWD" ] && run -- sh -c 'echo a >b' && [ "$(<b)" = a ]
}

signal_arrives() { # SIGNAL
	local rc=0
	begin "trap 'echo got it; exit 7' $1; echo ready; while :; do sleep 0.1; done"
	kill -s "$1" "$PID"
	wait "$PID" || rc=$?
	cat out
	[ "$rc" = 7 ] && grep -q 'got it' out
}

# The second request to stop is not passed on.
second_stop_stops() {
	local rc=0
	begin 'trap "" INT; echo ready; while :; do sleep 0.1; done'
	kill -s INT "$PID"
	sleep 0.5
	kill -0 "$PID" || return 1
	kill -s INT "$PID"
	wait "$PID" || rc=$?
	[ "$rc" = 130 ] && grep -q stopped error
}

closed_output_ends_it() {
	run --timeout 60s -- sh -c 'while :; do echo y; done' 2>error | head -n 1
	local rc=${PIPESTATUS[0]}
	echo "exit code $rc"
	[ "$rc" = 141 ]
}

user_is_the_caller() { [ "$(run --user caller -- id -u):$(run --user caller -- id -g)" = "$(id -u):$(id -g)" ]; }
user_is_root() { [ "$(run -- id -u)" = 0 ]; }

# ---- files -----------------------------------------------------------------------------------

files_stay() {
	run -- sh -ec 'mkdir -p made/deep; echo text >made/deep/file; chmod 750 made; ln -s deep made/link
		mv made/deep/file moved'
	[ "$(<moved)" = text ] && [ "$(readlink made/link)" = deep ] &&
		[ "$(stat -c %a:%u made)" = "750:$(id -u)" ]
}

large_files_stay() {
	run -- sh -c 'head -c 50000000 /dev/urandom >large; md5sum large >sum' && md5sum -c sum
}

other_files_do_not_stay() {
	run -- sh -c 'echo a >/etc/ferroce-test; echo b >>/etc/passwd; echo c >/tmp/ferroce-test; cat /etc/ferroce-test'
	[ ! -e /etc/ferroce-test ] && [ ! -e /tmp/ferroce-test ]
}

written_where_asked() {
	mkdir -p work more
	(cd work && run --write ../more -- sh -c 'echo a >../more/file; echo b >../neither') &&
		[ "$(<more/file)" = a ] && [ ! -e neither ]
}

# Either the command sees it, or it has ended before.
lost_files_are_told() {
	! run --write small -- sh -c 'head -c 9000000 /dev/zero >small/file' 2>errors || return 1
	cat errors
	grep 'No space left' errors
}

# ---- devices ---------------------------------------------------------------------------------

device_is_there() { run -- sh -c 'ibv_devinfo -d $FERROCE_DEVICE' | grep PORT_ACTIVE; }
other_driver_is_there() {
	run --driver rxe -- sh -c 'ibv_devinfo -d rxe0; cat /sys/module/rdma_rxe/initstate' | grep live
}
# Programs find the provider without a setting of theirs, and no other can drive the device.
own_provider_is_there() {
	run --driver ferroce_direct -- sh -c 'echo $FERROCE_DRIVER; ibv_devinfo -d $FERROCE_DEVICE' >out
	grep ferroce_direct out && grep PORT_ACTIVE out &&
		! run --driver ferroce_direct -- env -u RDMAV_DRIVERS ibv_devinfo
}
device_has_its_name() { run --device mlx5_0 -- ibv_devinfo -d mlx5_0 | grep PORT_ACTIVE; }

# Starts a server, and waits until it listens, on port 18515.
PAIR='ibv_rc_pingpong -d $FERROCE_DEVICE -g $FERROCE_GID_INDEX &
	until grep -q ":4853 .* 0A " /proc/net/tcp /proc/net/tcp6; do kill -0 $! || exit; sleep 0.05; done; '
one_device_carries() {
	run -- sh -c "${PAIR}ibv_rc_pingpong -d \$FERROCE_DEVICE -g \$FERROCE_GID_INDEX localhost" | grep usec
}
namespaces_carry() { # OPTION...
	run --topology netns "$@" -- sh -c "${PAIR}ferroce-on peer ibv_rc_pingpong -d \$FERROCE_PEER_DEVICE \
		-g \$FERROCE_PEER_GID_INDEX \$FERROCE_ADDRESS" | grep usec
}
machines_carry() { # NODES
	local server='while :; do ibv_rc_pingpong -d $FERROCE_DEVICE -g $FERROCE_GID_INDEX; done'
	run --topology nodes --nodes "$1" --node-command "$server" -- \
		sh -ec 'for host in $FERROCE_HOSTS; do
			[ $host != node0 ] || continue
			for try in $(seq 50); do
				ibv_rc_pingpong -d $FERROCE_DEVICE -g $FERROCE_GID_INDEX $host && continue 2
				sleep 0.1
			done
			exit 1
		done' | grep -c usec
}
each_machine_runs_it() {
	run --topology nodes --nodes 3 -- sh -c 'echo $FERROCE_NODE of $FERROCE_NODES' | sort >out
	cat out
	[ "$(<out)" = $'0 of 3\n[1] 1 of 3\n[2] 2 of 3' ]
}
command_on_another_machine() {
	run --topology nodes --node-command 'sleep 1000' -- \
		sh -c 'echo text | ferroce-on node1 "cat; hostname; pwd; exit 5"; echo $?' >out
	cat out
	[ "$(<out)" = $'text\nnode1\n'"$PWD"$'\n5' ]
}
wire_loses() {
	run --topology netns --loss 10% --delay 1ms -- sh -c 'ping -q -c 100 -i 0.01 -W 1 $FERROCE_PEER_ADDRESS' >out
	cat out
	grep -qE ' ([5-9]|[1-4][0-9])(\.[0-9]*)?% packet loss' out && ! grep -q ' min/avg/max.* = [01]\.' out
}

# ---- what programs find ------------------------------------------------------------------------

node_is_there() {
	run --cpus 2 -- sh -ec 'cd /sys/devices/system/node; cat online has_cpu has_memory node0/cpulist node0/distance
		grep -q "Node 0 MemTotal: *[1-9]" node0/meminfo; ls -d node0/cpu1 ../cpu/cpu1/node0' >out
	cat out
	[ "$(<out)" = $'0\n0\n0\n0-1\n10\n../cpu/cpu1/node0\nnode0/cpu1' ]
}
device_has_attributes() {
	run -- sh -ec 'cd /sys/class/infiniband/$FERROCE_DEVICE; cat node_type fw_ver ports/1/link_layer ports/1/rate
		cat ports/1/gid_attrs/ndevs/$FERROCE_GID_INDEX ports/1/gid_attrs/types/$FERROCE_GID_INDEX' >out
	cat out
	[ "$(sed 2d out | paste -sd ,)" = "1: CA,Ethernet,100 Gb/sec (4X EDR),eth0,RoCE v2" ]
}

# ---- whether RDMA was used ---------------------------------------------------------------------

rdma_is_proved() {
	run --require-rdma --stats -- sh -c "${PAIR}ibv_rc_pingpong -d \$FERROCE_DEVICE \
		-g \$FERROCE_GID_INDEX localhost" 2>errors &&
		grep -E 'fr0: sent [1-9][0-9]{3,} packets, [1-9][0-9]{6,} bytes; received [1-9]' errors
}
rdma_of_another_machine_counts() {
	local rc=0 pair="${PAIR}ibv_rc_pingpong -d \$FERROCE_DEVICE -g \$FERROCE_GID_INDEX localhost"
	run --topology nodes --nodes 3 --require-rdma --stats --node-command true --node-command "$pair; sleep 1000" \
		-- sleep 2 2>errors || rc=$?
	cat errors
	[ "$rc" = 0 ] && grep -E 'machine 2: fr0: sent [1-9]' errors
}
removed_device_counts() {
	run --require-rdma -- sh -ec "${PAIR}ibv_rc_pingpong -d \$FERROCE_DEVICE -g \$FERROCE_GID_INDEX localhost
		sleep 0.3; rdma link delete \$FERROCE_DEVICE"
}
# cmtime connects, and sends nothing. Its second half fails, as no queue pair takes part.
connection_is_no_proof() {
	says 123 'no RDMA' run --require-rdma --stats -- sh -ec 'cmtime -c 4 & sleep 0.3
		cmtime -s $FERROCE_ADDRESS -c 4 || true' && grep -E ' [1-9][0-9]* of the connection manager' errors
}

# ---- results ---------------------------------------------------------------------------------

tap_is_written() {
	returns 1 run --tap tap --junit xml -- sh -c 'echo ok 1 one; echo not ok 2 two; exit 1'
	grep -qx 'not ok 2 - two' tap && grep -q '<testsuite.*tests="2" failures="1"' xml
}
packets_are_written() {
	namespaces_carry --pcap packets && od -An -tx4 -N24 packets &&
		[ "$(od -An -tx4 -N4 packets | tr -d ' ')" = a1b2c3d4 ] &&
		stat -c %s packets && [ "$(stat -c %s packets)" -gt 100000 ]
}
log_is_written() {
	run --dmesg kernel.log -- true && grep -q 'Linux version' kernel.log &&
		# User-mode Linux complains about itself while it boots.
		! sed '1,/Run .init as init/d' kernel.log | grep -E 'WARNING|BUG|Oops'
}

# ---- what goes wrong -------------------------------------------------------------------------

time_is_up() { says 124 'time is up' run --timeout 3s -- sleep 1000; }
# Its processes are the caller's: half of those that the limit allows remain.
fork_bomb_ends() {
	local bomb rc=0
	rm -f errors
	says 124 'time is up' run --timeout 15s --memory 256M -- sh -c 'f() { f | f & }; f; sleep 1000' &
	bomb=$!
	for _ in {1..100}; do
		if grep -qs 'Cannot fork' errors; then break; fi
		sleep 0.1
	done
	returns 0 run -- true || rc=1
	wait "$bomb" && [ "$rc" = 0 ]
}
few_processes_will_do() { returns 0 bash -c 'ulimit -u 64 && exec "$@"' limited "${RUN[@]}" -- sh -c 'true & wait'; }
no_thread() { says 125 'cannot start a thread' bash -c 'ulimit -u 1 && exec "$@"' limited "${RUN[@]}" -- true; }
daemon_ends() {
	returns 0 run -- sh -c 'setsid sleep 1000 & setsid sh -c "while :; do sleep 1; done" >/dev/null 2>&1 & exit 0'
}
kernel_dies() {
	local rc=0
	begin 'echo ready; sleep 1000'
	pkill -KILL -P "$PID"
	wait "$PID" || rc=$?
	cat error
	[ "$rc" = 125 ] && grep -q 'has died' error
}
caller_dies() {
	begin 'echo ready; sleep 1000'
	kill -s KILL "$PID"
	nothing_is_left
}
# The kernel ends the processes of a machine after the machine itself; on a loaded computer that takes a while.
nothing_is_left() {
	local attempt
	for attempt in {1..50}; do
		pgrep -u "$(id -u)" -x "$PROCESSES" >/dev/null || return 0
		sleep 0.1
	done
	echo "after $attempt attempts:"
	pgrep -a -u "$(id -u)" -x "$PROCESSES"
	return 1
}
PROCESSES='linux|ferroce-run|uml-userspace|qemu-system-x86'
next_engine_is_taken() {
	FERROCE_SANDBOX=$BROKEN says 3 'user-mode Linux does not start here' ferroce-run -- sh -c 'exit 3'
}

if [ -n "${ENGINE-}" ]; then
	check "standard output and error stay apart" streams_stay_apart
	check "2 MB of input arrive" input_arrives
	check "exit code 77 comes back" returns 77 run -- sh -c 'exit 77'
	check "SIGTERM arrives" signal_arrives TERM
	check "files below the working directory stay" files_stay
	check "other files do not stay" other_files_do_not_stay
	check "two namespaces carry messages" namespaces_carry
	check "two machines carry messages" machines_carry 2
	check "the next engine is taken where the best does not start" next_engine_is_taken
	check "nothing is left" nothing_is_left
	exit
fi

check "standard output and error stay apart" streams_stay_apart
check "2 MB of input arrive" input_arrives
check "5 MB of output are not changed" output_is_not_changed
check "input that is not read is in the way of nothing" input_is_not_read
check "a line of output comes when it is written" output_is_not_held_back
check "arguments are kept" arguments_are_kept
check "the environment is kept" environment_is_kept
check "a working directory of any name is kept" directory_is_kept
for code in 0 1 77 255; do
	check "exit code $code comes back" returns "$code" run -- sh -c "exit $code"
done
check "a signal that ends the command is told" returns 139 run -- sh -c 'kill -SEGV $$'
check "no such command" says 127 'no such command' run -- /no/such/command
check "a command that is not executable" says 126 'ermission denied' run -- /etc/passwd
check "the command is root" user_is_root
check "the command is the caller" user_is_the_caller
for signal in INT TERM HUP USR1; do check "SIG$signal arrives" signal_arrives "$signal"; done
check "the second ^C stops everything" second_stop_stops
check "a closed output ends it" closed_output_ends_it

check "files below the working directory stay" files_stay
check "large files stay" large_files_stay
check "other files do not stay" other_files_do_not_stay
check "files below --write stay" written_where_asked
if [ -d small ]; then
	check "files that do not fit are told" lost_files_are_told
else
	skip "files that do not fit are told" "no directory small, on a small file system"
fi

check "a device is there" device_is_there
check "rdma_rxe's is there" other_driver_is_there
check "so are those of the own provider" own_provider_is_there
check "a device has the name that is asked for" device_has_its_name
check "one device carries messages" one_device_carries
check "two namespaces carry messages" namespaces_carry
check "two namespaces carry messages over rdma_rxe" namespaces_carry --driver rxe
check "two namespaces carry messages over the own provider" namespaces_carry --driver ferroce_direct
check "two namespaces carry messages with loss" namespaces_carry --loss 1%
check "two machines carry messages" machines_carry 2
check "four machines carry messages" machines_carry 4
check "each machine runs the command" each_machine_runs_it
check "a command runs on another machine" command_on_another_machine
if command -v ping >/dev/null; then
	check "the wire loses and delays packets" wire_loses
else
	skip "the wire loses and delays packets" "no ping here"
fi

check "there is a node with all processors and memory" node_is_there
check "a device has the attributes that programs read" device_has_attributes
check "RDMA is proved" rdma_is_proved
check "RDMA between other machines is proved" rdma_of_another_machine_counts
check "RDMA of a removed device is proved" removed_device_counts
check "connections alone are no RDMA" connection_is_no_proof
check "a program without RDMA is found out" says 123 'no RDMA' run --require-rdma -- true
check "a program without RDMA that fails keeps its code" says 7 'no RDMA' run --require-rdma -- sh -c 'exit 7'

check "TAP and JUnit are written" tap_is_written
check "packets are written" packets_are_written
check "the kernel's log is written" log_is_written

check "time is up" time_is_up
check "a fork bomb ends, and other calls run meanwhile" fork_bomb_ends
check "no room for a thread" no_thread
check "a few processes are enough" few_processes_will_do
check "a daemon ends with the command" daemon_ends
check "a kernel that is killed is told" kernel_dies
check "nothing outlives a caller that is killed" caller_dies
check "one device has no wire" says 125 'need a network' run --loss 1% -- true
check "an option that is not there" says 125 "unexpected argument '--nonsense'" ferroce-run --nonsense -- true
check "no command" says 125 COMMAND ferroce-run
if [ -e /dev/kvm ]; then
	skip "no KVM is told" "it is there"
else
	check "no KVM is told" says 125 'no KVM' run --engine kvm -- true
fi
check "the doctor finds it well" ferroce-run --doctor
check "nothing is left" nothing_is_left
