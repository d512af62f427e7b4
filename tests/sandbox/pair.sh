#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# pair.sh PORT SERVER CLIENT: runs two commands, given as text; the client starts when the server listens on that port
# of TCP, or for connections of any RDMA device. Fails if one of them does.

sh -c "$2" &
server=$!
until [ -n "$(ss -Hltn "sport = :$1"; rdma resource show cm_id | grep LISTEN)" ]; do
	kill -0 "$server" || exit
	sleep 0.05
done
sh -c "$3" || exit
wait "$server"
