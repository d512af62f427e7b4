# SPDX-License-Identifier: GPL-2.0
#
# What check-planted.sh runs in the guest: FAULTS, in words with commas between, is what the module
# (tests/module/planted.c) does when it is loaded, one after the other. Nobody here looks at what comes of it: that is
# what is tested. PLANTED_RC is what the script itself ends with.

. "$VM_LIB"

# Sooner than usual: a fault that lasts is told of while it does.
sysctl -qw kernel.hung_task_timeout_secs=5 kernel.watchdog_thresh=2 2>/dev/null
for fault in ${FAULTS//,/ }; do
	mark "planted $fault"
	echo "planted: $fault begins"
	insmod /ferroce/planted.ko fault="$fault" && rmmod planted || exit 97
done
mark "planted"
echo "planted: all done"
exit "${PLANTED_RC:-0}"
