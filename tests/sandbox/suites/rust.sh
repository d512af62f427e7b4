# SPDX-License-Identifier: GPL-2.0
#
# Tests of crates that use verbs, as their authors publish them. scripts/root/registries.sh has built them: the machine
# has less memory than a compiler takes.

. ./lib.sh

tells() { sed -nE 's/^test result: \w+\. (.*); [0-9]+ measured.*/: \1/p' "$1"; }

# tests CRATE PROGRAM...: each, with its options, in a machine of its own, in the directory that cargo starts it in.
tests() {
	local crate=$1 program
	for program in "${@:2}"; do
		compare "$crate $program" -- sh -c 'cd "$1" && exec programs/$2' sh "$REGISTRIES/$crate" "$program"
	done
}

tests sideway test_atomic test_post_send
tests async-rdma atomic
# Its tests open no device; this example sends to itself.
tests ibverbs loopback
[ -n "$WHOLE" ] || exit 0

tests sideway unittests test_cq test_mr_and_cq test_qp show_gids ibv_devinfo
skip "sideway compiletest" "it opens no device: it compiles programs"
# As its own CI does, between a program and another.
pingpong="$REGISTRIES/sideway/programs/rc_pingpong_split -d \$FERROCE_DEVICE -g \$FERROCE_GID_INDEX"
compare "sideway rc_pingpong_split" -- sh ./pair.sh 18515 "$pingpong" "$pingpong 127.0.0.1"
skip "sideway rc_pingpong" "it does not end, over rdma_rxe either"

tests async-rdma "unittests --skip test_extent_hooks" cancel_safety device loop mr_slice rmr_access \
	"rmr_timeout request_remote_mr"
skip "async-rdma test_extent_hooks" "it fails in its own list of memory, over rdma_rxe too"
skip "async-rdma rmr_timeout" "its other two tests, of deadlines of 100 ms, fail over rdma_rxe in the same way"
skip "async-rdma imm" "it expects the flags of rdma_rxe, IBV_WC_GRH at RC; verbs define that for UD only"

for crate in rdma-sys rdma-mummy-sys ibverbs-rs; do skip "$crate" "its tests open no device"; done
for crate in rdma-io rdma-core-sys; do skip "$crate" "it is published without tests"; done
skip rrddmma "its only test asks for the device mlx5_0"
skip rdma "a crate that it needs has been withdrawn, and it has no lock file"
