# SPDX-License-Identifier: GPL-2.0
#
# Failing copies from and to the memory of a process, each copy of each verb; see no_memory.py and the files named after
# it. The test needs fault injection, so a debug kernel. The user-mode kernel cannot exclude copies, so 75-no-memory.sh
# fails all of them there. This test, without most of the allocations, belongs to the long check.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# long: TOPOLOGY=single KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=debug

. "$VM_LIB"

if [ ! -d /sys/kernel/debug/fail_usercopy ]; then
	skip "Every copy of every verb fails once" "this kernel has no fail_usercopy"
	finish
fi
# By default only allocations that cannot sleep fail.
for cause in failslab fail_page_alloc fail_usercopy; do
	[ ! -w "/sys/kernel/debug/$cause/verbose" ] || echo 0 >"/sys/kernel/debug/$cause/verbose"
done
cd "${VM_LIB%/*}" || exit
export COPIES=1
for tests in no_memory.py no_memory_more.py no_memory_rest.py no_memory_posts.py; do python_tests "$tests"; done
pingpong rc 4 -n 100
check "The device is removed" timeout 60 rdma link del "$DEV"
check "The driver unloads" unload "$DRIVER"

finish
