# SPDX-License-Identifier: GPL-2.0
#
# For scripts that run in a guest: devices, namespaces, traffic, and results in KTAP.
# Sourced as `. "$VM_LIB"`. The environment describes the set-up:
#
#	NODE        a, or b on the second machine of TOPOLOGY=pair
#	DRIVER      ferroce, rxe or none      PEER_DRIVER   the driver of the other end
#	LINK_TYPE   that of its devices       PROVIDER      one of vm.sh's
#	DEV         fr0 or rxe0               PEER_DEV      the device at the other end
#	NETDEV      below DEV                 PEER_NETDEV
#	ADDR ADDR6  IPv4 and IPv6 of DEV      PEER_ADDR PEER_ADDR6
#	LOCAL_PATH  0: ferroce uses the network to reach peers on this machine, too
#	VERIFY_ICRC 1: ferroce checks the ICRC of packets that never left the machine, too
#	KERNEL      one of vm.sh's            SLOWNESS      how many times slower than stock it is
#	GID4 GID6   indices of their GIDs     PEER_GID4 PEER_GID6 (when the peer is in this kernel)
#
#	single   v0 (10.0.0.1) ------ v1        one device, on v0; the peer is the device itself
#	netns    v0 (10.0.0.1) ------ v1 (10.0.0.2) in namespace b, with its own device
#	pair     eth0 (10.0.0.1) of machine a ------ eth0 (10.0.0.2) of machine b
#
# The veth and the wire have an MTU of 4200, so that a path MTU of 4096 fits.

. "${BASH_SOURCE[0]%/*}/wait.sh"

MTU=${MTU:-4200}
KO=/ferroce/ferroce.ko

# ---- setting up ------------------------------------------------------------------------------

# vm_set_up: creates the topology. Called by the guest before the script.
vm_set_up() {
	local a=(10.0.0.1 fd00::1) b=(10.0.0.2 fd00::2) ours
	ours=("link set lo up" "link add v0 type veth peer name v1" "link set v0 mtu $MTU up"
		"addr add ${a[0]}/24 dev v0" "addr add ${a[1]}/64 dev v0 nodad")
	[ "$PROVIDER" != direct ] || install_provider || exit 98
	set -a
	ADDR=${a[0]} ADDR6=${a[1]} PEER_ADDR=${a[0]} PEER_ADDR6=${a[1]}
	NETDEV=v0 PEER_NETDEV=v0
	name_device DEV "$DRIVER" 0
	PEER_DEV=$DEV
	name_link_type LINK_TYPE "$DRIVER"
	case $TOPOLOGY in
	single)
		ip_all "${ours[@]}" "link set v1 mtu $MTU up"
		set_up_device
		PEER_GID4=${GID4-} PEER_GID6=${GID6-}
		;;
	netns)
		PEER_ADDR=${b[0]} PEER_ADDR6=${b[1]} PEER_NETDEV=v1
		name_device PEER_DEV "$PEER_DRIVER" 1
		ip_all "${ours[@]}" "netns add b" "link set v1 netns b"
		IP_NAMESPACE=b ip_all "link set lo up" "link set v1 mtu $MTU up" \
			"addr add ${b[0]}/24 dev v1" "addr add ${b[1]}/64 dev v1 nodad"
		set_up_device
		set_up_peer
		;;
	pair)
		NETDEV=eth0 PEER_NETDEV=eth0
		name_device PEER_DEV "$PEER_DRIVER" 0
		if [ "$NODE" = a ]; then
			PEER_ADDR=${b[0]} PEER_ADDR6=${b[1]}
		else
			ADDR=${b[0]} ADDR6=${b[1]}
		fi
		ip link set eth0 address "52:54:00:00:00:0$NODE" mtu "$MTU"
		address eth0 "$ADDR" "$ADDR6"
		until [ "$(</sys/class/net/eth0/carrier)" = 1 ]; do pause 0.05; done
		set_up_device
		barrier
		;;
	esac
	set +a
}

# name_device VARIABLE DRIVER NUMBER: librxe requires no particular name; these show the driver. Sets a variable, as a
# process for `$(...)` is dear.
name_device() {
	case $2 in
	ferroce) printf -v "$1" "fr$3" ;;
	rxe) printf -v "$1" "rxe$3" ;;
	*) printf -v "$1" '' ;;
	esac
}

# rxe_takes_port: whether rdma_rxe of this kernel opens port 4791 of the first namespace when it is loaded, as before
# 7.1: then it goes with no device of another driver there.
rxe_takes_port() { ! grep -aq rxe_ns_init "$(modinfo -n rdma_rxe)"; }

load_driver() { # DRIVER
	case $1 in
	ferroce)
		[ -d /sys/module/ferroce ] || insmod "$KO" ${LOCAL_PATH:+local_path="$LOCAL_PATH"} \
			${VERIFY_ICRC:+verify_icrc="$VERIFY_ICRC"}
		;;
	rxe) modprobe rdma_rxe ;;
	esac || { echo "# cannot load $1"; return 1; }
}

make_veth() { # NAME PEER
	ip_all "link add $1 type veth peer name $2" "link set $1 mtu $MTU up" "link set $2 mtu $MTU up"
}

# ip_all COMMAND...: all commands of `ip`, whether those before have failed or not, in one process.
ip_all() {
	local commands
	printf -v commands '%s\n' "$@"
	ip ${IP_NAMESPACE:+-n "$IP_NAMESPACE"} -force -batch - <<<"$commands"
}

# address NETDEV IPV4 IPV6 [NAMESPACE]
address() {
	local IP_NAMESPACE=${4-}
	ip_all "link set $1 mtu $MTU up" "addr add $2/24 dev $1" "addr add $3/64 dev $1 nodad"
}

# copy_provider: programs that ask for ferroce's own provider find it.
copy_provider() {
	cp /ferroce/provider/*.so "$(dirname "$(find /usr/lib -name 'librxe-rdmav*.so' -print -quit)")"
}

# install_provider: all programs do, for its own link type.
install_provider() { copy_provider && cp /ferroce/provider/ferroce.driver /etc/libibverbs.d/; }

# name_link_type VARIABLE DRIVER
name_link_type() {
	if [ "$2-$PROVIDER" = ferroce-direct ]; then printf -v "$1" ferroce_direct; else printf -v "$1" %s "$2"; fi
}

# add_device NAME DRIVER NETDEV [NAMESPACE]
add_device() {
	local in=() type
	# `ip netns exec` would also mount sysfs anew, which `rdma` does not read.
	[ -z "${4-}" ] || in=(nsenter "--net=/run/netns/$4")
	name_link_type type "$2"
	"${in[@]}" rdma link add "$1" type "$type" netdev "$3" ||
		{ echo "# rdma link add $1 failed"; return 1; }
}

set_up_device() {
	[ "$DRIVER" != none ] || return 0
	load_driver "$DRIVER" && add_device "$DEV" "$DRIVER" "$NETDEV" || exit 98
	find_gid GID4 "$DEV" "$ADDR"
	find_gid GID6 "$DEV" "$ADDR6"
}

set_up_peer() {
	[ "$PEER_DRIVER" != none ] || return 0
	if [ "$DRIVER-$PEER_DRIVER" = ferroce-rxe ] && rxe_takes_port; then
		echo "skipped: rdma_rxe of this kernel opens port 4791 when it is loaded, which ferroce has"
		exit 77
	fi
	load_driver "$PEER_DRIVER" && add_device "$PEER_DEV" "$PEER_DRIVER" v1 b || exit 98
	find_gid PEER_GID4 "$PEER_DEV" "$PEER_ADDR"
	find_gid PEER_GID6 "$PEER_DEV" "$PEER_ADDR6"
}

# name_gid VARIABLE ADDRESS: sets it to the GID of an address of ours (a dotted quad or fd00::N) as sysfs writes it.
name_gid() {
	case $2 in
	*.*.*.*)
		local IFS=. name=$1
		set -- $2
		printf -v "$name" '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "$@"
		;;
	*) printf -v "$1" 'fd00:0000:0000:0000:0000:0000:0000:%04x' "0x${2##*:}" ;;
	esac
}

# find_gid VARIABLE DEVICE ADDRESS: waits for the GID, which the core adds in a work item, and sets the variable to its
# index. Reads only the first few entries: a table may have a thousand, and each is a file.
find_gid() {
	local wanted i try text
	name_gid wanted "$3"
	printf -v "$1" ''
	for try in {1..400}; do
		for i in {0..7}; do
			read -r text 2>/dev/null <"/sys/class/infiniband/$2/ports/1/gids/$i" || continue
			if [ "$text" = "$wanted" ]; then printf -v "$1" "$i"; return; fi
		done
		pause 0.05
	done
	echo "# $2 has no GID for $3 after 20 s" >&2
	return 1
}

# gid_index DEVICE ADDRESS: waits likewise, and prints it.
gid_index() {
	local found
	find_gid found "$@" && echo "$found"
}

# ---- results ---------------------------------------------------------------------------------

KTAP_NUMBER=0
KTAP_FAILED=0

ok() { echo "ok $((++KTAP_NUMBER)) $*"; }
not_ok() {
	echo "not ok $((++KTAP_NUMBER)) $*"
	KTAP_FAILED=$((KTAP_FAILED + 1))
}

# skip NAME REASON: skips a test. With the reason "this kernel has no ..." it fails on a debug kernel, which must have
# everything.
skip() {
	case ${KERNEL-}-${*:2} in
	*debug*-"this kernel has no "*) not_ok "$1: ${*:2}" ;;
	*) echo "ok $((++KTAP_NUMBER)) $1 # SKIP ${*:2}" ;;
	esac
}

# note: prints a line, or standard input, as comments of the result.
note() { if [ $# -gt 0 ]; then echo "# $*"; else sed 's/^/# /'; fi; }

# check NAME COMMAND...: the command must succeed. Its output is shown if it fails. Each shell, and each check within
# a check, has a file of its own for that, which stays: to make and remove one takes two processes.
check() {
	local name=$1 depth=$((${depth:-0} + 1)) rc
	local log=/tmp/check.$BASHPID.$depth
	shift
	if "$@" >"$log" 2>&1; then
		ok "$name"
	else
		rc=$?
		note "'$*' returned $rc:"
		note <"$log"
		not_ok "$name"
	fi
}

# check_fails NAME COMMAND...: the command must fail, but neither be killed nor time out.
check_fails() {
	local name=$1 depth=$((${depth:-0} + 1)) rc=0
	local log=/tmp/check.$BASHPID.$depth
	shift
	"$@" >"$log" 2>&1 || rc=$?
	if [ "$rc" -gt 0 ] && [ "$rc" -lt 124 ]; then
		ok "$name"
	else
		note "'$*' returned $rc:"
		note <"$log"
		not_ok "$name"
	fi
}

# python_tests SCRIPT [ARGUMENT...]: runs tests in Python, whose results count with ours.
python_tests() {
	local log=/tmp/python.$BASHPID line ended=
	python3 "${VM_LIB%/*}/$1" "${@:2}" >"$log" 2>&1
	while IFS= read -r line || [ -n "$line" ]; do
		case $line in
		1..*) ended=1 ;;
		"ok "[0-9]*) ok "${line#ok * }" ;;
		"not ok "[0-9]*) not_ok "${line#not ok * }" ;;
		*) echo "$line" ;;
		esac
	done <"$log"
	check "$1 runs to its end" [ -n "$ended" ]
}

# nothing_at_error_level: consumers cannot cause kernel errors, so neither the driver nor the core logs at that level.
nothing_at_error_level() { ! dmesg --level=emerg,alert,crit,err | grep -E "ferroce|infiniband|$DEV"; }

# log_is_not_flooded [LINES]: neither peers nor consumers can fill the log: it has fewer lines than this about the
# driver. A message may appear, but not each time. Traces of the OOM killer are not the driver's, and other traces end
# the run.
log_is_not_flooded() {
	dmesg | grep -vE 'ferroce-test:|\[ferroce\]$' | grep -E "ferroce|infiniband|$DEV" >/tmp/said
	tail -n 20 /tmp/said
	[ "$(wc -l </tmp/said)" -lt "${1:-100}" ]
}

# seeded [NUMBER]: seeds RANDOM with SEED plus a number. Bash seeds it anew in each subshell, that is in the
# background and in `$(...)`: those seed it themselves, or use no random numbers.
seeded() { RANDOM=$((${SEED:-4791} + ${1:-0})); }

# finish: prints the plan, and exits with the script's exit code. The last line of every test.
finish() {
	echo "1..$KTAP_NUMBER"
	[ "$KTAP_NUMBER" -gt 0 ] || { echo "# nothing was tested"; exit 1; }
	exit $((KTAP_FAILED > 0))
}

# mark TEXT: writes a marker into the kernel log for its readers.
mark() { echo "ferroce-test: $*" >/dev/kmsg; }

# ---- counters --------------------------------------------------------------------------------

# counter DEVICE NAME: prints a hardware counter of the port.
counter() {
	local value
	read -r value <"/sys/class/infiniband/$1/ports/1/hw_counters/$2" && echo "$value"
}

# sum_of_drops: filters what `tc -s qdisc show` prints: the number of packets that the queues have dropped.
sum_of_drops() { sed -n 's/.*dropped \([0-9]*\),.*/\1/p' | awk '{ sum += $1 } END { print sum }'; }

# moved DEVICE NAME COMMAND...: prints how far the counter advanced while the command ran, which must succeed.
moved() {
	local device=$1 name=$2 before
	shift 2
	before=$(counter "$device" "$name")
	"$@" >/dev/null || return
	echo $(($(counter "$device" "$name") - before))
}

# grows NAME WHAT DEVICE COUNTER COMMAND...: checks the change of the counter while the command runs, -gt 0 or -eq 0.
grows() {
	local name=$1 what=$2 count
	shift 2
	if count=$(moved "$@") && [ "$count" $what ]; then
		ok "$name"
	else
		note "$2 of $1 advanced by '$count', not $what"
		not_ok "$name"
	fi
}

# ---- traffic ---------------------------------------------------------------------------------

# Under emulation even a small transfer may be slow.
TRAFFIC_SECONDS=${TRAFFIC_SECONDS:-60} # times SLOWNESS, like every argument of `timeout`

# at_peer COMMAND...: runs the command in the peer's namespace, if the peer is in this kernel.
at_peer() {
	if [ "$TOPOLOGY" = netns ]; then ip netns exec b "$@"; else "$@"; fi
}

# Synchronizes both machines of a pair; no-op elsewhere. Each call uses a port of its own.
BARRIER_PORT=5000
barrier() {
	[ "$TOPOLOGY" = pair ] || return 0
	BARRIER_PORT=$((BARRIER_PORT + 1))
	export BARRIER_PORT
	local line= try
	if [ "$NODE" = a ]; then
		echo go | timeout 120 busybox nc -l -p "$BARRIER_PORT" >/dev/null
		return
	fi
	for try in {1..1200}; do
		{ read -r line <"/dev/tcp/$PEER_ADDR/$BARRIER_PORT"; } 2>/dev/null && return
		pause 0.1
	done
	echo "# the other machine did not come to the barrier"
	return 1
}

# cm_listens [COMMAND...]: whether an identifier of the connection manager listens, as `rdma` (run by the command, if
# any) shows it. The core reports LISTEN shortly before it accepts, and rejects connections in between; a virtual
# processor may stand still there.
cm_listens() { "$@" rdma resource show cm_id | grep -q LISTEN && pause 0.5; }

# mckey_joined: whether the mckey that writes to /tmp/server has joined its group and posted its receives.
mckey_joined() { grep -q 'joined dgid' /tmp/server; }

# await_listener PORT [PROCESS]: waits until a TCP server listens at our end (or, reversed, at the peer's), or in the
# namespace of a process.
await_listener() {
	local try
	for try in {1..600}; do
		if [ -z "${2-}" ] && [ -n "${REVERSE-}" ]; then
			[ -z "$(at_peer ss -Hltn "sport = :$1")" ] || return 0
		else
			! tcp_listens "$1" "${2:-self}" || return 0
		fi
		pause 0.05
	done
	echo "# nobody listens on port $1 after 30 s"
	return 1
}

# tcp_listens PORT PROCESS: whether a TCP server does in the namespace of that process. `ss` is a process for each look.
tcp_listens() {
	local at lines=()
	printf -v at '%04X' "$1"
	{ mapfile -t lines <"/proc/$2/net/tcp" && mapfile -t -O "${#lines[@]}" lines <"/proc/$2/net/tcp6"; } 2>/dev/null
	# The state of a listener is 0A.
	[[ ${lines[*]} =~ :\ [0-9A-F]+:"$at"\ [0-9A-F]+:0000\ 0A\  ]]
}

# says FILE TEXT: whether the text is in a small file. `grep` is a process.
says() {
	local text=
	read -r -d '' text <"$1"
	[[ $text == *"$2"* ]]
}

# traffic NAME PORT SERVER CLIENT: runs two command lines that communicate; both must succeed. They are given as text
# in which $dev, $gid4 and $gid6 stand for their own end's and $to for the server's address. The server runs at our
# end and the client at the peer's; REVERSE=1 swaps them. Their output is left in /tmp/server and /tmp/client.
traffic() {
	local name=$1 port=$2 server=$3 client=$4
	local serve=1 connect=1 rc_server=0 rc_client=0 pid
	if [ "$TOPOLOGY" = pair ]; then
		# Each machine runs its own end.
		case $NODE${REVERSE:+-reversed} in
		a | b-reversed) connect= ;;
		*) serve= ;;
		esac
	fi
	: >/tmp/server
	: >/tmp/client
	mark "$name"
	if [ -n "$serve" ]; then
		run_end server "$server" exec >/tmp/server 2>&1 &
		pid=$!
		await_listener "$port" "$pid"
	fi
	barrier
	if [ -n "$connect" ]; then run_end client "$client" >/tmp/client 2>&1 || rc_client=$?; fi
	if [ -n "$serve" ]; then wait "$pid" || rc_server=$?; fi
	# The pingpongs report wrong data, but do not fail.
	if says /tmp/server 'invalid data' || says /tmp/client 'invalid data'; then rc_server=invalid-data; fi
	if [ "$rc_server" = 0 ] && [ "$rc_client" = 0 ]; then
		ok "$name"
		return 0
	fi
	note "server ($server) returned $rc_server:"
	tail -n 30 /tmp/server | note
	note "client ($client) returned $rc_client:"
	tail -n 30 /tmp/client | note
	(cd /sys/class/infiniband && grep -H '[1-9]' */ports/1/hw_counters/*_err */ports/1/hw_counters/rx_*) | note
	not_ok "$name"
	return 1
}

# run_end server|client COMMAND [exec]: runs one end of the traffic, in the right namespace; in place of this shell.
run_end() {
	local dev=$DEV gid4=${GID4-} gid6=${GID6-} to=$ADDR where=() there= ours=
	[ "$1" != server ] || ours=1
	if [ -n "${REVERSE-}" ]; then if [ -n "$ours" ]; then ours=; else ours=1; fi; fi
	if [ "$TOPOLOGY" = pair ]; then
		# The other end is never in this kernel; the client connects to the other machine.
		[ "$1" = server ] || to=$PEER_ADDR
	else
		if [ -z "$ours" ]; then dev=$PEER_DEV gid4=${PEER_GID4-} gid6=${PEER_GID6-} there=1; fi
		[ -z "${REVERSE-}" ] || to=$PEER_ADDR
	fi
	local in_place=${3-}
	eval "set -- $2"
	# The one in the path is a script, where it multiplies as well.
	set -- /usr/bin/timeout $((TRAFFIC_SECONDS * ${SLOWNESS:-1})) "$@"
	[ "$there-$TOPOLOGY" != 1-netns ] || where=(ip netns exec b)
	$in_place "${where[@]}" "$@"
}

# pingpong KIND FAMILY [OPTION...]: ibv_KIND_pingpong over IPv4 or IPv6, every byte validated. Only the GID is of that
# family: the program's own TCP connection always uses IPv4.
pingpong() {
	local kind=$1 family=$2
	shift 2
	traffic "ibv_${kind}_pingpong over IPv$family${*:+ $*}${REVERSE:+, reversed}" 18515 \
		"ibv_${kind}_pingpong -d \$dev -g \$gid$family -c $*" \
		"ibv_${kind}_pingpong -d \$dev -g \$gid$family -c $* \$to"
}

# perftest TOOL [OPTION...]: for example `perftest ib_write_bw -s 65536 -n 200`.
perftest() {
	local tool=$1
	shift
	traffic "$tool${*:+ $*}${REVERSE:+, reversed}" 18515 \
		"$tool -d \$dev -x \$gid4 -F $*" "$tool -d \$dev -x \$gid4 -F $* \$to"
}

# managed NAME SERVER CLIENT: runs two programs of librdmacm on one machine. The server is ready when the core shows
# its listening identifier.
managed() {
	local name=$1 rc_server=0 rc_client=0 try pid
	mark "$name"
	timeout "$TRAFFIC_SECONDS" $2 >/tmp/server 2>&1 &
	pid=$!
	for try in {1..600}; do
		! cm_listens || break
		pause 0.05
	done
	at_peer timeout "$TRAFFIC_SECONDS" $3 >/tmp/client 2>&1 || rc_client=$?
	wait "$pid" || rc_server=$?
	if [ "$rc_server" = 0 ] && [ "$rc_client" = 0 ]; then
		ok "$name"
		return
	fi
	note "server ($2) returned $rc_server:"
	tail -n 20 /tmp/server | note
	note "client ($3) returned $rc_client:"
	tail -n 20 /tmp/client | note
	not_ok "$name"
}
