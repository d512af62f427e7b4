# SPDX-License-Identifier: GPL-2.0
#
# perftest between two namespaces: each operation over each transport that has it, and the options that choose another
# path through the library.

. ./lib.sh

# both TEST [OPTION...]: with -F, a processor whose frequency cannot be measured is no failure.
both() {
	local test=$1
	shift
	compare "$test $*" --topology netns -- sh ./pair.sh 18515 \
		"$test -F -d \$FERROCE_DEVICE -x \$FERROCE_GID_INDEX $*" \
		"exec ferroce-on peer $test -F -d \$FERROCE_PEER_DEVICE -x \$FERROCE_PEER_GID_INDEX \
			$* \$FERROCE_ADDRESS"
}

both ib_write_bw -n 100
both ib_read_lat -n 100
both ib_send_bw -c UD -n 100 -s 1024
both ib_atomic_bw -n 100
[ -n "$WHOLE" ] || exit 0

for test in ib_write_bw ib_write_lat ib_send_bw ib_send_lat; do
	for transport in RC UC; do
		both "$test" -c "$transport" -n 20 -a
		both "$test" -c "$transport" -n 100 -s 64 -I 64
		both "$test" -c "$transport" -n 100 -s 4096 -m 1024
	done
done
for test in ib_read_bw ib_read_lat; do
	both "$test" -n 20 -a
	both "$test" -n 100 -o 1
done
for test in ib_atomic_bw ib_atomic_lat; do
	both "$test" -n 100 -A CMP_AND_SWAP
	both "$test" -n 100 -A FETCH_AND_ADD
done
for test in ib_send_bw ib_send_lat; do
	both "$test" -c UD -n 100 -s 64 -I 64
	both "$test" -e -n 100 -s 4096
	both "$test" -n 100 -s 1024 -r 64 --use-srq
done
both ib_write_bw -n 640 -s 64 -l 64
both ib_write_bw -n 640 -s 64 -l 64 --use_old_post_send
both ib_write_bw -n 100 -q 16 -s 65536
both ib_write_bw -n 100 -b -s 65536
both ib_send_bw -n 100 -b -s 65536
both ib_write_bw -n 100 -R -s 4096
both ib_send_bw -n 100 -R -s 4096
both ib_write_bw -n 100 -D 1
