#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Tests of ferroce-run where there is next to nothing: busybox is the only program, musl the only library, and there is
# neither /tmp nor a list of users. scripts/release/check-sandbox.sh --bare makes that.

PATH=$SANDBOX/bin:/bin
NUMBER=0

# check NAME COMMAND...: one test; says what the command printed if it fails.
check() {
	verdict=ok
	name=$1
	shift
	("$@") >log 2>&1 </dev/null || verdict='not ok'
	NUMBER=$((NUMBER + 1))
	echo "$verdict $NUMBER $name"
	[ "$verdict" = ok ] || tail -n 30 log | sed 's/^/# /'
}

# returns CODE COMMAND...: the command ends with this exit code.
returns() {
	expected=$1
	shift
	rc=0
	"$@" || rc=$?
	echo "exit code $rc, expected $expected"
	[ "$rc" = "$expected" ]
}

run() { ferroce-run --memory 512M "$@"; }

device_is_there() { [ "$(run -- busybox sh -c 'ls /sys/class/infiniband')" = fr0 ]; }
library_loads() { run -- /lib/ld-musl-x86_64.so.1 2>&1 | grep -i 'musl libc'; }
input_and_output() { [ "$(echo text | run -- cat)" = text ]; }
files_stay() {
	run -- sh -ec 'mkdir made; echo text >made/file; echo text >/other; mkdir -p /tmp; echo text >/tmp/file'
	[ "$(cat made/file)" = text ] && [ ! -e /other ] && [ ! -e /tmp ]
}
user_is_the_caller() { [ "$(run --user caller -- id -u)" = "$(id -u)" ]; }
signal_arrives() {
	ferroce-run --memory 512M -- sh -c 'trap "exit 7" TERM; echo ready >ready; while :; do sleep 0.1; done' &
	until [ -e ready ]; do sleep 0.1; done
	kill -TERM $!
	returns 7 wait $!
}
namespaces() {
	run --topology netns -- sh -c 'ferroce-on peer "ls /sys/class/infiniband; ping -c 1 $FERROCE_ADDRESS"' >out
	cat out
	grep -qx fr1 out && grep -q ' 0% packet loss' out
}
machines() {
	run --topology nodes --nodes 2 --node-command 'sleep 1000' -- \
		sh -c 'ping -c 1 node1; echo text | ferroce-on node1 "cat; hostname; exit 5"; echo $?' >out
	cat out
	grep -q ' 0% packet loss' out && [ "$(tail -n 3 out | tr '\n' ' ')" = "text node1 5 " ]
}

check "a device is there" device_is_there
check "musl is loaded" library_loads
check "input arrives, and output" input_and_output
check "an exit code comes back" returns 77 run -- sh -c 'exit 77'
check "a signal that ends the command is told" returns 139 run -- sh -c 'kill -SEGV $$'
check "no such command" returns 127 run -- /no/such/command
check "SIGTERM arrives" signal_arrives
check "files below the working directory stay" files_stay
check "the command is the caller" user_is_the_caller
check "two namespaces" namespaces
check "two machines" machines
check "the doctor finds it well" ferroce-run --doctor
