# SPDX-License-Identifier: GPL-2.0
#
# Verbs that only kernel consumers have or that they use differently: fast registration, posting in any context, inline
# data, resizing a kernel CQ, completions handled as they arrive, drains, atomic operations with any SGEs, AHs that
# change, queues destroyed under traffic, and allocation failures in every verb that creates an object; posting
# allocates nothing. The consumer is a module (tests/module). It runs when it is loaded and writes its results to the
# kernel log.
#
#	v0 [DEV] ------ v1      two QPs of one device talk to each other
#
# vm: TOPOLOGY=single KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=kcsan

. "$VM_LIB"

# results: prints the lines that the module wrote since the last load.
results() { sed -n 's/^.*ferroce-test: \(\(not \)\?ok \|# \|1\.\.\)/\1/p' /tmp/log; }

if [ ! -f /ferroce/consumer.ko ]; then
	skip "Kernel verbs" "the module comes with a build of ferroce"
	finish
fi
fail_all_kinds
# objects: the objects of the device in the core's resource tracking.
objects() { rdma resource show "$DEV"; }
objects >/tmp/objects
for family in 4 6; do
	gid=GID$family
	dmesg >/tmp/before
	# The module's init always returns an error, so insmod fails.
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
	check "IPv$family: the module completes" [ "${count-}" -gt 10 ]
	check "IPv$family: the module leaves no object behind" eval 'objects | diff /tmp/objects -'
	unset count
done
finish
