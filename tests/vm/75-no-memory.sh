# SPDX-License-Identifier: GPL-2.0
#
# Memory runs out, at each allocation of each verb in turn; see no_memory.py and no_memory_more.py. It takes a kernel
# that can be told to fail: the debug kernel. In user mode page faults and the clock are system calls and fail, too.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# vm: TOPOLOGY=single

. "$VM_LIB"

injection=/sys/kernel/debug/failslab
if [ ! -d "$injection" ]; then
	skip "every allocation of every verb fails once" "this kernel has no failslab"
	finish
elif [ "$KERNEL" = umdebug ]; then
	skip "every allocation of every verb fails once" "user mode fails by itself"
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
cd "${VM_LIB%/*}" || exit
python_tests no_memory.py
python_tests no_memory_more.py
finish
