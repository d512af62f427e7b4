# SPDX-License-Identifier: GPL-2.0
#
# A container like those of CI services, for the tests of ferroce-run: a user without rights, the engine's default
# seccomp profile, no capability, no network, a read-only root and a /dev/shm of 64 MiB. Sourced after lib.sh.

# The kernel counts the processes of a user in all containers together, so each test has a user of its own.
USER_ID=$((10000 + BASHPID % 20000))
# What is said of /dev/shm.
SHM=(--shm-size 64m)

# need_container: exits with 77, skipped, if this machine cannot have one.
need_container() {
	if [ "$(id -u)" != 0 ]; then
		say SKIP "the container that this test makes takes root"
		exit 77
	fi
	need podman podman
	need runc runc
}

# podman_as COMMAND ARGUMENT...: podman with what this machine has.
podman_as() { podman --cgroup-manager cgroupfs --runtime runc "$@"; }

# This release of podman leaves the limits of this machine alone only if it is told some.
LIMITS=(--ulimit nofile=1024:1024 --ulimit nproc=1000:1000)

# container TREE DIRECTORY [OPTION...] ROOT COMMAND...: runs the command on the files of ROOT; the sandbox TREE is
# /opt/sandbox and the directory is /srv, where the command starts.
container() {
	podman_as run --rm --rootfs --read-only --user "$USER_ID:$USER_ID" \
		--cap-drop all --security-opt no-new-privileges --network none "${SHM[@]}" "${LIMITS[@]}" \
		--volume "$1:/opt/sandbox:ro" --volume "$2:/srv" --workdir /srv --env SANDBOX=/opt/sandbox \
		--env HOME=/srv "${@:3}"
}
