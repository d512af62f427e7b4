# SPDX-License-Identifier: GPL-2.0
#
# mpi4py over the Open MPI of PyPI, which brings its own UCX, across machines; mpi.py checks its results.

. ./lib.sh
export PYTHONPATH=$WHEELS PYTHONDONTWRITEBYTECODE=1 OPAL_PREFIX=$WHEELS/usr LD_LIBRARY_PATH=$WHEELS/usr/lib
export PATH=$WHEELS/usr/bin:$PATH

# ranks NUMBER NODES
ranks() {
	compare "$1 ranks on $2 machines" --require-rdma --stats --topology nodes --nodes "$2" \
		--node-command 'sleep infinity' -- sh -c '
		export UCX_TLS=rc_verbs,tcp:aux,self UCX_NET_DEVICES=$FERROCE_DEVICE:1,$FERROCE_NETDEV
		export UCX_IB_GID_INDEX=$FERROCE_GID_INDEX
		export OMPI_MCA_btl_tcp_if_include=$FERROCE_NETDEV PRTE_MCA_prte_silence_shared_fs=1
		hosts=$(echo "$FERROCE_HOSTS" | sed "s/[ ,]/:$1,/g; s/\$/:$1/")
		exec mpirun --allow-run-as-root --host "$hosts" -n "$1" --map-by node --mca pml ucx --mca osc ucx \
			-x UCX_TLS -x UCX_NET_DEVICES -x UCX_IB_GID_INDEX python3 mpi.py' sh "$1"
}

ranks 2 2
ranks 4 2
