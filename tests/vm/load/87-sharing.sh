# SPDX-License-Identifier: GPL-2.0
#
# What queue pairs that have nothing to do with each other share. Two pairs of queue pairs send at once, one on each of
# two processors: a line of memory that goes from one processor to the other for each message is one that 64
# processors would queue for. A plugin of the emulator (tests/plugin) counts such transfers, and locked instructions,
# whatever else the host does. Each case runs perftest for N and for 2 N messages; the difference, divided by the
# number of messages, is the figure. sharing.list says what is expected.
#
#	netns    v0 [DEV] ------ v1 [PEER_DEV]  v1 is in namespace b; "device" is DEV with itself
#
# For each transfer and each locked instruction a comment tells the function, and the function of the driver that ran
# before it. `addr2line -e ferroce.ko` finds the source line of an address in the driver.
#
# SHARING=all measures all cases, otherwise those marked with an asterisk.
#
# long: VM_PLUGIN=1 KERNEL=stock TOPOLOGY=netns VM_TIMEOUT=600
# long: VM_PLUGIN=1 KERNEL=stock TOPOLOGY=netns VM_TIMEOUT=1800 VM_ENV=SHARING=all

. "$VM_LIB"

python_tests sharing.py
finish
