# SPDX-License-Identifier: GPL-2.0
#
# perftest: every program, with every option that matters to a driver. The results are not judged. MATRIX selects a
# part: sample (the default), rc, or others (UC, UD, atomics, SRQ, multicast).
#
# machine: VM_TIMEOUT=3000
# vm: TOPOLOGY=netns VM_TIMEOUT=2400 KERNEL=umdebug
# long: TOPOLOGY=netns VM_TIMEOUT=2400
# long: TOPOLOGY=single KERNEL=uml VM_TIMEOUT=3600 VM_ENV=MATRIX=rc
# long: TOPOLOGY=single KERNEL=uml VM_TIMEOUT=3600 VM_ENV=MATRIX=others
# long: TOPOLOGY=netns KERNEL=uml VM_TIMEOUT=3600 VM_ENV=MATRIX=rc
# long: TOPOLOGY=netns KERNEL=uml VM_TIMEOUT=3600 VM_ENV=MATRIX=others
# long: TOPOLOGY=pair VM_TIMEOUT=3600 VM_ENV=MATRIX=rc
# long: TOPOLOGY=pair VM_TIMEOUT=3600 VM_ENV=MATRIX=others

TRAFFIC_SECONDS=180
. "$VM_LIB"

modprobe -a rdma_ucm
n=${PERFTEST_ROUNDS:-100}
# Fewer messages in flight than a receive queue holds: unreliable transports do not wait.
unreliable=50
group=0:0:0:0:0:0:0:0:0:0:255:255:239:1:1:5

# A server of the connection manager does not listen on TCP.
await_listener() { # instead of that of lib.sh
	local try
	for try in {1..300}; do
		! tcp_listens "$1" self || return 0
		[ "${REVERSE+set}${TOPOLOGY}" = setnetns ] || ! cm_listens || return 0
		pause 0.05
	done
}

PERFTEST=$(dpkg-query -W -f '${source:Upstream-Version}' perftest)
note "perftest $PERFTEST, rdma-core $(dpkg-query -W -f '${source:Upstream-Version}' rdma-core)"

# each TOOLS OPTIONS...: runs each of the programs with each set of options, except what its release cannot do.
each() {
	local tools=$1 tool options
	shift
	for options; do
		for tool in $tools; do
			case $PERFTEST-$options in
			4.*--write_with_imm*) skip "$tool $options" "perftest 4.5 has no such option" ;;
			4.*"-c UD -b -q 8 -e"*) skip "$tool $options" "perftest 4.5 waits for an event that has come" ;;
			*-n\ * | *-D*) perftest "$tool" $options ;;
			*) perftest "$tool" $options -n "${rounds:-$n}" ;;
			esac
		done
	done
}

# refused REASON TOOL OPTION...: an unsupported option of perftest itself. Both ends must fail at once.
refused() {
	local reason=$1 log=/tmp/refused
	shift
	if timeout 20 "$1" -d "$DEV" -x "$GID4" -F "${@:2}" >"$log" 2>&1 || [ $? -ge 124 ]; then
		note <"$log"
		not_ok "perftest refuses $*"
	else
		skip "$*" "$reason"
	fi
}

multicast() { # TOOLS
	if [ "$DRIVER" = rxe ] || [ "$PEER_DRIVER" = rxe ]; then
		skip "$1 -g" "rdma_rxe receives nothing for a group that was joined by ibv_attach_mcast alone"
	else
		each "$1" "-c UD -g -M $group -s 1024"
	fi
}

reliable() {
	local bw="ib_write_bw ib_read_bw ib_send_bw" lat="ib_write_lat ib_read_lat ib_send_lat"
	local mtu
	each "$bw $lat" "" "-a -n 5" "-R" "-R -a -n 5" "-z" "--use_old_post_send" "--odp" "-D 2" "-s 1" "-s 65537"
	for mtu in 256 512 1024 2048 4096; do
		each "$bw $lat" "-m $mtu -s 20000"
	done
	each "$bw" "-b" "-q 8" "-b -q 8" "-R -q 8" "-R -b" "-l 8 -s 512 -n 48" "-Q 1" "-s 8388608 -n 5 -t 4"
	each "ib_read_bw ib_send_bw" "-e" "-b -q 8 -e" "-R -b -e"
	each "ib_send_lat ib_read_lat" "-e"
	each "ib_write_bw ib_write_lat ib_send_bw ib_send_lat" "-I 0 -s 64" "-I 64 -s 64" "-I 220 -s 220"
	each "ib_read_bw" "-o 1" "-o 16" "-q 64 -s 1024"
	each "ib_write_bw" "-q 64 -s 1024" "--write_with_imm" "--write_with_imm -q 8" "--write_with_imm -R -b"
	each "ib_write_lat" "--write_with_imm"
	refused "perftest has no events for a WRITE" ib_write_bw -e
	refused "perftest has no inline data for a READ" ib_read_bw -I 64 -s 64
}

unreliable() {
	local rounds=$unreliable transport mtu
	for transport in UC UD; do
		local tools="ib_send_bw ib_send_lat" size="-s 1024"
		[ "$transport" = UD ] || tools="$tools ib_write_bw ib_write_lat" size="-s 65536"
		each "$tools" "-c $transport $size" "-c $transport -a -n 5" "-c $transport -z $size" \
			"-c $transport -I 64 -s 64" "-c $transport -I 0 -s 64" \
			"-c $transport --use_old_post_send $size"
		for mtu in 256 512 1024 2048 4096; do
			[ "$transport" = UC ] || size="-s $mtu"
			each "$tools" "-c $transport -m $mtu $size"
		done
		each "ib_send_bw" "-c $transport -e $size" "-c $transport -b $size" "-c $transport -q 8 -s 1024" \
			"-c $transport -b -q 8 -e -s 1024" "-c $transport -l 8 -s 512 -n 48" "-c $transport -Q 1 $size"
	done
	# Messages up to 8 MiB both ways, and UC has no flow control: perftest waits forever after one lost packet.
	each "ib_send_bw ib_write_bw" "-c UC -b -a -n 5"
	each "ib_write_bw" "-c UC -b" "-c UC -q 8" "-c UC -b -q 8" "-c UC -l 8 -s 512 -n 48" "-c UC --write_with_imm"
	each "ib_send_bw ib_send_lat" "-c UD -R -s 1024" "-c UD -a -R -n 5"
	refused "perftest's connection manager has no UC" ib_send_bw -c UC -R
	skip "-c UC --odp" "perftest has no memory on demand for UC; 46-odp.sh has"
}

others() {
	unreliable
	each "ib_atomic_bw ib_atomic_lat" "-A FETCH_AND_ADD" "-A CMP_AND_SWAP" "-A FETCH_AND_ADD -R" \
		"-A CMP_AND_SWAP -e" "-A FETCH_AND_ADD -o 1"
	each "ib_atomic_bw" "-A FETCH_AND_ADD -q 8" "-A CMP_AND_SWAP -b" "-A CMP_AND_SWAP -b -q 8"
	each "ib_send_bw" "--use-srq" "--use-srq -q 8" "--use-srq -b" "--use-srq -e" "--use-srq -R" \
		"--use-srq -R -q 4" "--use-srq -a -n 5"
	each "ib_send_lat" "--use-srq" "--use-srq -R"
	local rounds=$unreliable
	each "ib_send_bw ib_send_lat" "-c UC --use-srq -s 4096" "-c UD --use-srq -s 1024"
	multicast "ib_send_bw ib_send_lat"
	refused "perftest has no immediate data with an SRQ" ib_write_bw --write_with_imm --use-srq
	skip "ib_send_bw -c XRC" "librxe has no XRC; 42-xrc.sh uses the own provider"
	skip "raw_ethernet_bw" "neither driver has raw packet queue pairs"
}

sample() {
	each "ib_write_bw ib_read_bw ib_send_bw" "-R -q 8 -s 4096" "-b -q 8 -s 16384" "-m 256 -s 20000"
	each "ib_send_bw ib_send_lat" "-e"
	each "ib_write_bw ib_send_lat" "-I 0 -s 64" "-I 220 -s 220"
	each "ib_write_lat ib_send_bw" "-a -n 5"
	each "ib_read_bw ib_send_bw" "-R -b -e"
	each "ib_write_bw" "--write_with_imm" "-z"
	each "ib_atomic_bw" "-A FETCH_AND_ADD -q 8" "-A CMP_AND_SWAP -b"
	each "ib_send_bw" "--use-srq -q 8" "--use-srq -R -q 4" "--odp"
	local rounds=$unreliable
	each "ib_send_bw ib_write_bw" "-c UC -q 8 -s 16384" "-c UC -b -a -n 5"
	each "ib_send_bw" "-c UD -b -q 8 -e -s 1024" "-c UD -R -s 1024"
	multicast ib_send_bw
	refused "perftest has no events for a WRITE" ib_write_bw -e
}

case ${MATRIX:-sample} in
sample) sample ;;
rc) reliable ;;
others) others ;;
*) not_ok "MATRIX is sample, rc or others, not '$MATRIX'" ;;
esac
finish
