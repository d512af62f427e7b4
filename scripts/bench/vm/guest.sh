# SPDX-License-Identifier: GPL-2.0
#
# The benchmark's part in the machine: makes a place for each contestant, then runs bench.guest.
#
#	NAME-a: v0 (10.0.0.1) ------ v1 (10.0.0.2): NAME-b
#
# NAME is DRIVER-MTU, or tcp-MTU. Whatever is on one path has it for itself.

. "$VM_LIB"
PLACES=/tmp/places
# The own library is installed. Devices of both link types take part, each as a contestant.
PROVIDER=rxe
prefix() { case $1 in ferroce) echo fr ;; ferroce_direct) echo fd ;; *) echo "$1" ;; esac; }

# place NAME END DEVICE ADDRESS: a line for bench.guest. siw has no GIDs to choose from.
place() {
	local gid=
	case $3 in siw* | '') ;; *) gid=$(gid_index "$3" "$4") || return ;; esac
	echo "$1 $2 $4 $3 $gid" >>"$PLACES"
}

# two_ends CONTESTANT MTU FIRST: two namespaces, and devices from number FIRST on.
two_ends() {
	local name=$1-$2 who=$1 first=$3 dev_a= dev_b=
	MTU=$2
	ip netns add "$name-a"
	ip netns add "$name-b"
	ip link add v0 netns "$name-a" type veth peer name v1 netns "$name-b"
	ip -n "$name-a" link set lo up
	ip -n "$name-b" link set lo up
	address v0 10.0.0.1 fd00::1 "$name-a"
	address v1 10.0.0.2 fd00::2 "$name-b"
	if [ "$who" != tcp ]; then
		dev_a=$(prefix "$who")$first dev_b=$(prefix "$who")$((first + 1))
		add_device "$dev_a" "$who" v0 "$name-a" && add_device "$dev_b" "$who" v1 "$name-b" || return
	fi
	place "$name" a "$dev_a" 10.0.0.1 && place "$name" b "$dev_b" 10.0.0.2
}

modprobe -a rdma_ucm siw
load_driver rxe
load_driver ferroce
: >"$PLACES"
for who in tcp ferroce ferroce_direct rxe siw; do
	two_ends "$who" 4200 0
	two_ends "$who" 1500 2
done
PYTHONPATH=/ferroce exec python3 -m bench.guest "$PLACES" /ferroce/plan.json
