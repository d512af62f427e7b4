# SPDX-License-Identifier: GPL-2.0
#
# DLSlime, LMDeploy's transfer engine, between two namespaces. It asks for a timer wider than its field.

. ./lib.sh
export PYTHONPATH=$WHEELS PYTHONDONTWRITEBYTECODE=1

compare "1 MiB written and 1 MiB read" --topology netns --require-rdma --stats -- sh -c '
	ferroce-on peer "SLIME_GID_INDEX=$FERROCE_PEER_GID_INDEX python3 dlslime.end.py two one $FERROCE_PEER_DEVICE" &
	SLIME_GID_INDEX=$FERROCE_GID_INDEX python3 dlslime.end.py one two $FERROCE_DEVICE && wait $!'
