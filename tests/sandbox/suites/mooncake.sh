# SPDX-License-Identifier: GPL-2.0
#
# Mooncake's transfer engine between two namespaces. It takes TCP without a word where it finds no device.

. ./lib.sh
export PYTHONPATH=$WHEELS PYTHONDONTWRITEBYTECODE=1

compare "8 MiB written and read back" --topology netns --require-rdma --stats -- sh -c '
	ferroce-on peer "MC_GID_INDEX=$FERROCE_PEER_GID_INDEX python3 mooncake.end.py \
		$FERROCE_PEER_ADDRESS $FERROCE_PEER_DEVICE" &
	MC_GID_INDEX=$FERROCE_GID_INDEX python3 mooncake.end.py \
		$FERROCE_ADDRESS $FERROCE_DEVICE $FERROCE_PEER_ADDRESS && wait $!'
