# SPDX-License-Identifier: GPL-2.0
#
# Verbs that only consumers in the kernel have, or that they use in another way: fast registration, queues that are
# posted to in any context, inline data, a shared queue of the kernel's that is resized, completions that are handled
# as they come, drains, atomic operations with any pieces, address handles that change, queues that go while they are at
# work, and each verb that makes something while memory runs out; to post takes none. A module (tests/module) is the
# consumer; it runs when it is loaded, and writes its results to the kernel log.
#
#	v0 [DEV] ------ v1      two QPs of one device talk to each other
#
# vm: TOPOLOGY=single
# vm: TOPOLOGY=single KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=kcsan

. "$VM_LIB"

# results: what the module has written since the log was last emptied.
results() { sed -n 's/^.*ferroce-test: \(\(not \)\?ok \|# \|1\.\.\)/\1/p' /tmp/log; }

if [ ! -f /ferroce/consumer.ko ]; then
	skip "kernel verbs" "the module comes with a build of ferroce"
	finish
fi
# Allocations that the module makes fail are also those that may wait, and single pages; and there is no stack trace for
# each, which would look like a warning.
for cause in failslab fail_page_alloc; do
	[ -d "/sys/kernel/debug/$cause" ] || continue
	echo N >"/sys/kernel/debug/$cause/ignore-gfp-wait"
	echo 0 >"/sys/kernel/debug/$cause/verbose"
	[ "$cause" = failslab ] || echo 0 >"/sys/kernel/debug/$cause/min-order"
done
# objects: what the core's tracking has of the device.
objects() { rdma resource show "$DEV"; }
objects >/tmp/objects
for family in 4 6; do
	gid=GID$family
	dmesg >/tmp/before
	# It never stays, so loading it fails.
	insmod /ferroce/consumer.ko device="$DEV" gid="${!gid}" 2>/tmp/error
	dmesg | tail -n +$(($(wc -l </tmp/before) + 1)) >/tmp/log
	while read -r line; do
		case $line in
		ok*) ok "IPv$family: ${line#ok * }" ;;
		not*) not_ok "IPv$family: ${line#not ok * }" ;;
		'#'*) echo "$line" ;;
		1..*) count=${line#1..} ;;
		esac
	done < <(results)
	check "IPv$family: the module came to its end" [ "${count-}" -gt 10 ]
	check "IPv$family: it has left nothing behind" eval 'objects | diff /tmp/objects -'
	unset count
done
finish
