# SPDX-License-Identifier: GPL-2.0
#
# libfabric's fi_pingpong, which checks the data, over the providers that use verbs.

. ./lib.sh

# Without a shared receive queue, ofi_rxm posts a receive to an endpoint that it has closed, if it sees that the
# peer disconnects before it sees the last message: libfabric's issue 11828, seen with 2.1.
export FI_OFI_RXM_USE_SRX=1

# both PROVIDER DOMAIN [OPTION...]: DOMAIN is the end of the name of the device's domain.
both() {
	local provider=$1 domain=$2
	shift 2
	compare "$provider $*" -- sh -c '
		export FI_VERBS_IFACE=$FERROCE_NETDEV
		base="fi_pingpong -p \"$1\" -d $FERROCE_DEVICE$2 -c $3"
		exec sh ./pair.sh 47592 "$base" "exec $base $FERROCE_ADDRESS"' \
		sh "$provider" "$domain" "$*"
}

both verbs '' -e msg -I 10 -S 1024
# The completion queues of rdma_rxe are too small for this one.
both 'verbs;ofi_rxm' '' -e rdm -I 10 -S 1024
[ -n "$WHOLE" ] || exit 0
both verbs '' -e msg -I 10 -S all
both verbs -dgram -e dgram -I 10 -S 1024
both 'verbs;ofi_rxd' -dgram -e rdm -I 10 -S 1024
both 'verbs;ofi_rxm' '' -e rdm -I 10 -S all
