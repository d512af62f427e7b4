# SPDX-License-Identifier: GPL-2.0
#
# On-demand paging as an application sees it, while pages are taken away in every way; see odp.py, odp_races.py,
# odp_waits.py and odp_advice.py. SEED seeds the random choices.
#
#	v0 [DEV] ------ v1      two QPs of one device talk to each other
#
# How much memory waits for pages is a share of all memory, and takes most of the time.
#
# machine: VM_POISON=1 VM_USER_MEMORY=1G
# vm: TOPOLOGY=single VM_TIMEOUT=900 KERNEL=umdebug
# vm: TOPOLOGY=single VM_TIMEOUT=900 VM_ENV=LOCAL_PATH=0 KERNEL=umdebug

echo 16 >/proc/sys/vm/nr_hugepages
# Swap space for the pages. Without it, one test reports that it is missing.
if modprobe zram 2>/dev/null && echo 256M >/sys/block/zram0/disksize; then
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
fi
cd "${VM_LIB%/*}" && exec python3 -c "
import odp, odp_races, odp_waits, odp_advice, tap
print('# seed', odp.SEED)
tap.run(odp.TESTS, odp_races.TESTS, odp_waits.TESTS, odp_advice.TESTS)"
