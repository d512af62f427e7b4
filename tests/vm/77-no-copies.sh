# SPDX-License-Identifier: GPL-2.0
#
# Copies from and to the memory of a process fail, each of each verb in turn; see no_memory.py and what is named after
# it. It takes a kernel that can be told to fail: one of the debug kernels. That of user mode cannot leave copies out,
# so 75-no-memory.sh has all of them fail as well there; this one, without most of the allocations, is for a long
# check.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# long: TOPOLOGY=single KERNEL=umdebug
# long: TOPOLOGY=single KERNEL=debug

. "$VM_LIB"

if [ ! -d /sys/kernel/debug/fail_usercopy ]; then
	skip "every copy of every verb fails once" "this kernel has no fail_usercopy"
	finish
fi
# Of memory, only what may not wait for it can fail, as it does by default.
for cause in failslab fail_page_alloc fail_usercopy; do
	[ ! -w "/sys/kernel/debug/$cause/verbose" ] || echo 0 >"/sys/kernel/debug/$cause/verbose"
done
cd "${VM_LIB%/*}" || exit
export COPIES=1
for tests in no_memory.py no_memory_more.py no_memory_rest.py no_memory_posts.py; do python_tests "$tests"; done
pingpong rc 4 -n 100
check "the device goes" timeout 60 rdma link del "$DEV"
check "the driver is unloaded" unload "$DRIVER"

finish
