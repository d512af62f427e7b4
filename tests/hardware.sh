#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# hardware.sh HOST [OPTION...]: tries an RDMA device of this machine with one of HOST, for example an adapter, and
# writes one text file to send us: versions, GIDs and MTUs of both ends, the result of each program, and what the
# counters of both ends have counted meanwhile. Nothing is changed or installed; no root is needed.
#
#	--here DEVICE    device of this machine (default: the first one of ferroce)
#	--there DEVICE   device of HOST (default: its first one with a RoCEv2 GID)
#	--at ADDRESS     IPv4 address of HOST's device (default: that of its first RoCEv2 GID)
#	--by COMMAND     runs commands at HOST by this instead of ssh, for example "ip netns exec b"
#	--only PATTERN   only the tests whose names match, as in bash
#	--out FILE       the report (default: hardware-report.txt)
#
# HOST is reached by ssh without a password. Where that is not possible, it prints what to type at both ends.
# Both machines need perftest, ibverbs-utils, rdmacm-utils and iproute2.

set -uo pipefail

out=hardware-report.txt host=${1-} here= there= at= by= only='*'
die() { echo "hardware.sh: $*" >&2; exit 2; }
case $host in '' | -*) die "usage: hardware.sh HOST [OPTION...]; the head of the file explains the options" ;; esac
shift
while [ $# -gt 0 ]; do
	[ $# -gt 1 ] || die "$1 needs a value"
	case $1 in
	--here) here=$2 ;;
	--there) there=$2 ;;
	--at) at=$2 ;;
	--by) by=$2 ;;
	--only) only=$2 ;;
	--out) out=$2 ;;
	*) die "unknown option $1" ;;
	esac
	shift 2
done

# at_host TEXT: runs a line of shell at HOST.
at_host() {
	if [ -n "$by" ]; then
		# shellcheck disable=SC2086
		$by sh -c "$1"
	else
		ssh -o BatchMode=yes -o ConnectTimeout=10 "$host" "$1"
	fi
}
at_home() { sh -c "$1"; }

by_hand() {
	cat <<-END
		hardware.sh: no command runs at $host. Let ssh in without a password, or type at both:

		  grep . /sys/class/infiniband/*/ports/1/gid_attrs/types/*       # an index of "RoCE v2": -g, -x
		  ibv_devinfo -v | grep -E 'hca_id|active_mtu|GID'
		  rdma statistic show                                                 # again at the end

		then at $host, and here with its address behind it:

		  ibv_rc_pingpong -d DEVICE -g INDEX -c        ibv_ud_pingpong -d DEVICE -g INDEX -c
		  ib_write_bw -d DEVICE -x INDEX -F -a         ib_read_bw, ib_send_bw, ib_atomic_bw, ib_write_lat
		  rping -s -a ADDRESS -C 10 -V                 rping -c -a ADDRESS -C 10 -V
	END
}

# What is asked of each end, as text for its shell. A device and its IPv4 GID of RoCEv2: "DEVICE INDEX ADDRESS MTU".
# shellcheck disable=SC2016
FIND='find_device() { # DEVICE ADDRESS
	for d in /sys/class/infiniband/${1:-*}; do
		for t in "$d"/ports/1/gid_attrs/types/*; do
			i=${t##*/}
			[ "$(cat "$t" 2>/dev/null)" = "RoCE v2" ] || continue
			g=$(cat "$d/ports/1/gids/$i")
			case $g in 0000:0000:0000:0000:0000:ffff:*) ;; *) continue ;; esac
			g=${g#*ffff:}
			h=${g%:*} l=${g#*:}
			a=$(printf "%d.%d.%d.%d" "0x${h%??}" "0x${h#??}" "0x${l%??}" "0x${l#??}")
			[ -z "$2" ] || [ "$2" = "$a" ] || continue
			m=$(ibv_devinfo -d "${d##*/}" | awk "/active_mtu/ { print \$2; exit }")
			echo "${d##*/} $i $a $m"
			return
		done
	done
}'
# shellcheck disable=SC2016
ABOUT='about() { # DEVICE
	uname -srm
	ibv_devinfo -v -d "$1" | grep -E "hca_id|fw_ver|vendor|board|active_mtu|max_qp|state|GID"
	(cd "/sys/class/infiniband/$1/ports/1/gid_attrs" && grep . types/* ndevs/* 2>/dev/null)
	n=$(cat "/sys/class/infiniband/$1/ports/1/gid_attrs/ndevs/"* 2>/dev/null | head -n 1)
	ip -d address show dev "$n"
	ethtool -i "$n"
	ethtool -n "$n" rx-flow-hash udp4
	for p in ib_write_bw rping; do command -v "$p" || echo "$p is missing"; done
	ib_write_bw --version
} 2>&1'
# shellcheck disable=SC2016
COUNTERS='counters() { (cd "/sys/class/infiniband/$1/ports/1" && grep . hw_counters/* counters/* 2>/dev/null); }'

at_host true || { by_hand; exit 1; }
if [ -z "$here" ]; then
	for here in $(rdma link 2>/dev/null | sed -n 's/^link \([^/]*\).*/\1/p'); do
		[ "$(cat "/sys/class/infiniband/$here/node_desc" 2>/dev/null)" = ferroce ] && break
	done
fi
read -r here here_gid here_at here_mtu < <(at_home "$FIND; find_device '$here'")
read -r there there_gid there_at there_mtu < <(at_host "$FIND; find_device '$there' '$at'")
[ -n "${here_mtu-}" ] || die "this machine has no RDMA device with a RoCEv2 GID of an IPv4 address"
[ -n "${there_mtu-}" ] || die "$host has no RDMA device with a RoCEv2 GID of an IPv4 address"
mtu=$((here_mtu < there_mtu ? here_mtu : there_mtu))

passed=0 failed=0
say() { echo "$*" | tee -a "$out"; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# serves PLACE: waits until a server of that end listens, on TCP or by the connection manager.
serves() {
	"$1" 'for i in $(seq 100); do
		ss -Hltn | grep -qE ":(18515|7471)[^0-9]" && exit
		rdma resource show cm_id 2>/dev/null | grep -q LISTEN && sleep 0.3 && exit
		sleep 0.1
	done; exit 1'
}

# try NAME SERVER CLIENT: runs a program at both ends, the server at HOST and then here. In the text, %d, %g and %a
# stand for device, GID index and address of the end, %s for the address of the server.
try() {
	local name=$1 server client from to direction
	# shellcheck disable=SC2053
	[[ $name == $only ]] || return 0
	for direction in out in; do
		from=at_home to=at_host
		server=$2 client=$3
		if [ "$direction" = out ]; then
			server=$(fill "$server" "$there" "$there_gid" "$there_at" "$there_at")
			client=$(fill "$client" "$here" "$here_gid" "$here_at" "$there_at")
		else
			from=at_host to=at_home
			server=$(fill "$server" "$here" "$here_gid" "$here_at" "$here_at")
			client=$(fill "$client" "$there" "$there_gid" "$there_at" "$here_at")
		fi
		run "$name ($direction)" "$from" "$to" "$server" "$client"
	done
}

fill() { # TEXT DEVICE GID ADDRESS SERVER
	local text=${1//%d/$2}
	text=${text//%g/$3}
	text=${text//%a/$4}
	echo "${text//%s/$5}"
}

# run NAME FROM TO SERVER CLIENT
run() {
	local name=$1 from=$2 to=$3 pid rc_server=0 rc_client=0
	"$to" "timeout 120 $4" >"$work/server" 2>&1 &
	pid=$!
	serves "$to" || rc_server=silent
	"$from" "timeout 60 $5" >"$work/client" 2>&1 || rc_client=$?
	wait "$pid" || rc_server=$?
	if [ "$rc_server $rc_client" = "0 0" ] && ! grep -q 'invalid data' "$work"/*; then
		passed=$((passed + 1))
		say "ok      $name   $(grep -E '^ *[0-9]+ ' "$work/client" | tail -n 1)"
		return
	fi
	failed=$((failed + 1))
	say "FAILED  $name   server $rc_server, client $rc_client"
	{
		echo "  server: $4"
		tail -n 15 "$work/server" | sed 's/^/    /'
		echo "  client: $5"
		tail -n 15 "$work/client" | sed 's/^/    /'
	} >>"$out"
}

# changes BEFORE AFTER: the counters that differ.
changes() {
	awk -F: 'NR == FNR { before[$1] = $2; next } $2 != before[$1] { print "  " $1, $2 - before[$1] }' "$1" "$2"
}

# matrix: perftest with the sizes around packets.
matrix() {
	local verb size options="-d %d -x %g -F -m $mtu"
	for verb in write read send; do
		for size in 1 "$mtu" 65536 1048576; do
			try "ib_${verb}_bw $size" "ib_${verb}_bw $options -s $size -n 500" \
				"ib_${verb}_bw $options -s $size -n 500 %s"
		done
		try "ib_${verb}_lat" "ib_${verb}_lat $options -s 8 -n 1000" "ib_${verb}_lat $options -s 8 -n 1000 %s"
	done
	try ib_atomic_bw "ib_atomic_bw -d %d -x %g -F -n 500" "ib_atomic_bw -d %d -x %g -F -n 500 %s"
	try "ib_read_bw, 16 outstanding" "ib_read_bw $options -o 16 -s 4096 -n 1000" \
		"ib_read_bw $options -o 16 -s 4096 -n 1000 %s"
	try "ib_write_bw, 16 queue pairs" "ib_write_bw $options -q 16 -s 65536 -n 200" \
		"ib_write_bw $options -q 16 -s 65536 -n 200 %s"
	try "ib_send_bw, UD" "ib_send_bw $options -c UD -s 1024 -n 500" "ib_send_bw $options -c UD -s 1024 -n 500 %s"
}

: >"$out" || die "cannot write $out"
say "hardware.sh: $here (GID $here_gid, $here_at) with $there of $host (GID $there_gid, $there_at), path MTU $mtu"
{
	echo "== here"
	at_home "$ABOUT; about $here"
	echo "== $host"
	at_host "$ABOUT; about $there"
	echo "== tests"
} >>"$out"
at_home "$COUNTERS; counters $here" >"$work/here"
at_host "$COUNTERS; counters $there" >"$work/there"
for kind in rc uc; do
	try "ibv_${kind}_pingpong" "ibv_${kind}_pingpong -d %d -g %g -c -m $mtu -n 200" \
		"ibv_${kind}_pingpong -d %d -g %g -c -m $mtu -n 200 %s"
done
try ibv_ud_pingpong "ibv_ud_pingpong -d %d -g %g -c -n 50" "ibv_ud_pingpong -d %d -g %g -c -n 50 %s"
matrix
try rping "rping -s -a %a -C 20 -V" "rping -c -a %s -C 20 -V"
try udaddy "udaddy -b %a -c 2 -C 10" "udaddy -s %s -c 2 -C 10"
at_home "$COUNTERS; counters $here" >"$work/here-after"
at_host "$COUNTERS; counters $there" >"$work/there-after"
{
	echo "== counters here"
	changes "$work/here" "$work/here-after"
	echo "== counters of $host"
	changes "$work/there" "$work/there-after"
} >>"$out"
say "$passed passed, $failed failed"
echo "What to send us: $out"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
