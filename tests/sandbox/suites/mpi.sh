# SPDX-License-Identifier: GPL-2.0
#
# Open MPI over UCX across machines, which it starts its processes on by ferroce-on; mpi.py checks its results.

. ./lib.sh

# ranks NUMBER NODES TRANSPORT FAMILY: FAMILY is 6 for an IPv6 GID, otherwise empty.
ranks() {
	local nodes=(--topology nodes --nodes "$2" --node-command 'sleep infinity')
	compare "$1 ranks on $2 machines over $3" "${nodes[@]}" -- sh -c '
		export UCX_TLS=$2,tcp:aux,self UCX_NET_DEVICES=$FERROCE_DEVICE:1,$FERROCE_NETDEV
		eval "export UCX_IB_GID_INDEX=\$FERROCE_GID_INDEX$3"
		export OMPI_MCA_btl_tcp_if_include=$FERROCE_NETDEV PRTE_MCA_prte_silence_shared_fs=1
		hosts=$(echo "$FERROCE_HOSTS" | sed "s/[ ,]/:$1,/g; s/\$/:$1/")
		exec mpirun --allow-run-as-root --host "$hosts" -n "$1" --map-by node \
			--mca pml ucx --mca osc ucx --mca btl ^openib \
			-x UCX_TLS -x UCX_NET_DEVICES -x UCX_IB_GID_INDEX python3 mpi.py' \
		sh "$1" "$3" "$4"
}

ranks 4 2 rc_verbs ''
[ -n "$WHOLE" ] || exit 0
ranks 2 2 rc_verbs ''
ranks 8 4 rc_verbs ''
ranks 4 2 ud_verbs 6
