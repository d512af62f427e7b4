# SPDX-License-Identifier: GPL-2.0
#
# Memory windows; see windows.py, window_races.py and window_priority.py.
#
#	v0 [DEV] ------ v1      the device talks to itself
#
# vm: TOPOLOGY=single KERNEL=umdebug
# vm: TOPOLOGY=single VM_ENV=LOCAL_PATH=0 KERNEL=umdebug

cd "${VM_LIB%/*}" && exec python3 -c "
import tap, window_priority, window_races, windows
tap.run([windows.windows_or_skip(test) for test in windows.TESTS + window_races.TESTS + window_priority.TESTS])"
