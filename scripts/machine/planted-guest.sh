# SPDX-License-Identifier: GPL-2.0
#
# What check-planted.sh runs in the guest: FAULTS, in words with commas between, is what the module
# (tests/module/planted.c) does when it is loaded, one after the other. This script ignores the
# consequences, which are the subject of the test. It ends with PLANTED_RC.

. "$VM_LIB"

# patience SECONDS SECONDS: how long a task may hang, and half of how long a processor may be held.
patience() { sysctl -qw kernel.hung_task_timeout_secs="$1" kernel.watchdog_thresh="$2"; }
usual=($(sysctl -n kernel.hung_task_timeout_secs kernel.watchdog_thresh 2>/dev/null))

for fault in ${FAULTS//,/ }; do
	mark "planted $fault"
	echo "planted: $fault begins"
	case $fault in hung | stuck) patience 5 2 ;; esac
	insmod /ferroce/planted.ko fault="$fault" && rmmod planted || exit 97
	case $fault in hung | stuck) patience "${usual[@]}" ;; esac
done
mark "planted"
echo "planted: all done"
exit "${PLANTED_RC:-0}"
