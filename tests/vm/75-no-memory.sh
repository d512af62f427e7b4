# SPDX-License-Identifier: GPL-2.0
#
# Memory runs out, at each allocation of each verb in turn; see no_memory.py and what is named after it. It takes a
# kernel that can be told to fail: one of the debug kernels. In user mode, copies from and to the memory of a process
# fail in their turn, too; for copies without most allocations, see 77-no-copies.sh.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# vm: TOPOLOGY=single KERNEL=umdebug VM_TIMEOUT=1200

. "$VM_LIB"

injection=/sys/kernel/debug/failslab
copies=/sys/kernel/debug/fail_usercopy
if [ ! -d "$injection" ]; then
	skip "every allocation of every verb fails once" "this kernel has no failslab"
	finish
fi
# Also those that may wait; and no stack trace for each, which would look like a warning.
for cause in failslab fail_page_alloc; do
	echo N >"/sys/kernel/debug/$cause/ignore-gfp-wait"
	echo 0 >"/sys/kernel/debug/$cause/verbose"
done
echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem
# Also single pages, which rings are made of.
echo 0 >/sys/kernel/debug/fail_page_alloc/min-order
# Copies are counted with the allocations, unless the kernel can be told who may fail: nobody who copies is there.
# Where it cannot, in user mode, they fail in their turn, also those of page faults and of the clock.
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
check "the device goes" timeout 60 rdma link del "$DEV"
check "the driver is unloaded" unload "$DRIVER"
if [ "$DRIVER" = ferroce ]; then python_tests no_memory_module.py; fi
check "and comes back" set_up_device
pingpong rc 4 -n 100

finish
