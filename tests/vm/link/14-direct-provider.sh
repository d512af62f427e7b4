# SPDX-License-Identifier: GPL-2.0
#
# ferroce's own provider, with the ABI of ferroce-abi.h.
#
# It is loaded by the environment, so it drives an ordinary device: the ABI is negotiated for each context. A module
# without this ABI is refused with a line that says so, and librxe is not disturbed. With it, the programs of verbs
# run over the provider: at both ends, and against librxe at the other.
#
#	single   v0 [DEV] ------ v1             the device talks to itself
#	netns    v0 [DEV] ------ v1 [PEER_DEV]  v1 is in namespace b
#
# vm: TOPOLOGY=single PROVIDER=present KERNEL=umdebug
# vm: TOPOLOGY=netns PROVIDER=present KERNEL=umdebug

. "$VM_LIB"

REFUSAL="ferroce: $DEV: the module in the kernel does not have the ABI of this library"

# ours COMMAND...: runs the command with the provider.
ours() { RDMAV_DRIVERS=ferroce "$@"; }

lists_device() { "$@" ibv_devices | grep -qw "$DEV"; }

# refuses: whether the device cannot be opened, and the only line that the provider says is why.
refuses() {
	! ours ibv_devinfo -d "$DEV" >/tmp/out 2>/tmp/refused || return 1
	[ "$(grep -c '^ferroce:' /tmp/refused)" = 1 ] && grep -qF "$REFUSAL" /tmp/refused
}

# is_used PROGRAM: whether the program maps the provider.
is_used() { ours env LD_DEBUG=files "$@" 2>&1 | grep -q 'calling init:.*libferroce-rdmav'; }

loading() {
	check "Without the environment, librxe drives the device" ibv_devinfo -d "$DEV"
	check "A program that does not ask for the provider does not load it" \
		[ "$(LD_DEBUG=files ibv_devices 2>&1 | grep -c libferroce)" = 0 ]
	check "The environment loads it" is_used ibv_devices
	check "The device is found" lists_device ours
	check "RDMAV_DRIVERS may have other names, too" lists_device env RDMAV_DRIVERS=rxe:ferroce
	check "IBV_DRIVERS means the same" lists_device env IBV_DRIVERS=ferroce
	echo "driver ferroce" >/etc/libibverbs.d/ferroce.driver
	check "A file of libibverbs.d loads it beside librxe" lists_device env
	check "which drives the device still" ibv_devinfo -d "$DEV"
	rm /etc/libibverbs.d/ferroce.driver
}

rxe_is_not_ours() {
	local dev=rxe_other
	if ! modprobe rdma_rxe 2>/dev/null || ! ip link add d0 type dummy || ! ip link set d0 up ||
		! rdma link add $dev type rxe netdev d0 2>/dev/null; then
		skip "The provider leaves a device of rdma_rxe alone" "rdma_rxe cannot be loaded here"
		return
	fi
	check "The provider leaves a device of rdma_rxe alone" ours ibv_devinfo -d $dev
	rdma link del $dev
	ip link del d0
	rmmod rdma_rxe
}

programs() {
	local kind
	check "A device can be opened" ours ibv_devinfo -v -d "$DEV"
	export RDMAV_DRIVERS=ferroce
	for kind in rc uc ud; do
		pingpong $kind 4 -n 100
		pingpong $kind 6 -n 20 -e
	done
	pingpong srq 4 -n 100
	# With the old and with the new post calls.
	pingpong rc 4 -n 100 -N
	pingpong rc 4 -n 100 -s 1000000 -m 4096
	unset RDMAV_DRIVERS
}

libraries() { find /usr/lib/*/libibverbs -name 'libferroce*' | wc -l; }

# silent COMMAND...: it succeeds, and says nothing on standard error.
silent() { "$@" 2>/tmp/said >/dev/null && [ ! -s /tmp/said ]; }

# packaged: the package serves devices of its own link type, and nothing of it stays.
packaged() {
	local dev=direct0
	if ! command -v dpkg >/dev/null; then
		skip "The package of the provider" "this system has no dpkg"
		return
	fi
	check "The package installs" dpkg -i /ferroce/provider/ferroce-provider_*.deb
	if ip link add d1 type dummy && ip link set d1 up && rdma link add $dev type ferroce_direct netdev d1; then
		check "Programs find a device of its link type" silent ibv_devinfo -d $dev
		rdma link del $dev
	else
		skip "Programs find a device of its link type" "this module has no link type ferroce_direct"
	fi
	ip link del d1
	check "and librxe drives the other" silent ibv_devinfo -d "$DEV"
	check "It is removed" dpkg -r ferroce-provider
	check "and nothing stays that would warn" [ "$(libraries)-$(ls /etc/libibverbs.d | grep -c ferroce)" = 0-0 ]
	check "Programs say nothing" silent ibv_devinfo -d "$DEV"
}

packaged
copy_provider
loading
rxe_is_not_ours
if refuses; then
	ok "This module does not have the ABI: the provider says so, and opens nothing"
	check "libibverbs still works for the program that was refused" ibv_devinfo -d "$DEV"
else
	programs
fi
check "Nothing is logged at error level" nothing_at_error_level

finish
