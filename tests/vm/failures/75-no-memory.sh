# SPDX-License-Identifier: GPL-2.0
#
# Allocation failures at each allocation of each verb, one after the other; see no_memory.py and the files named after
# it. The test needs fault injection, so a debug kernel. In user mode, copies from and to the memory of a process fail
# as well. 77-no-copies.sh fails copies without most of the allocations.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# machine: VM_POISON=1
# vm: TOPOLOGY=single KERNEL=umdebug VM_TIMEOUT=1200

. "$VM_LIB"

injection=/sys/kernel/debug/failslab
copies=/sys/kernel/debug/fail_usercopy
if [ ! -d "$injection" ]; then
	skip "Every allocation of every verb fails once" "this kernel has no failslab"
	finish
fi
# Also allocations that may sleep. No stack trace for each: it would look like a warning.
for cause in failslab fail_page_alloc; do
	echo N >"/sys/kernel/debug/$cause/ignore-gfp-wait"
	echo 0 >"/sys/kernel/debug/$cause/verbose"
done
echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem
# Also single pages: rings consist of them.
echo 0 >/sys/kernel/debug/fail_page_alloc/min-order
# Copies count together with the allocations, unless the kernel can restrict failures to a range of code addresses,
# which here contains no copy. In user mode it cannot, so copies fail as well, including those of page faults and of the
# clock.
[ ! -d "$copies" ] || echo 0 >"$copies/verbose"
if [ -w "$copies/require-start" ]; then
	echo 0 >"$copies/stacktrace-depth"
	echo 1 >"$copies/require-start"
elif [ -d "$copies" ]; then
	export COPIES=1
fi
cd "${VM_LIB%/*}" || exit
for tests in no_memory.py no_memory_more.py no_memory_rest.py no_memory_posts.py; do python_tests "$tests"; done
pingpong rc 4 -n 100
check "The device is removed" timeout 60 rdma link del "$DEV"
check "The driver unloads" unload "$DRIVER"
if [ "$DRIVER" = ferroce ]; then python_tests no_memory_module.py; fi
check "The device is set up again" set_up_device
pingpong rc 4 -n 100

finish
