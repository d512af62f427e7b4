# SPDX-License-Identifier: GPL-2.0
#
# A container like those of CI services, for the tests of ferroce-run: a user without rights, the engine's default
# seccomp profile, no capability, no network, a read-only root and a /dev/shm of 64 MiB. Sourced after lib.sh.

USER_ID=1000

# need_container: exits with 77, skipped, if this machine cannot have one.
need_container() {
	if [ "$(id -u)" != 0 ]; then
		say SKIP "the container that this test makes takes root"
		exit 77
	fi
	need podman podman
	need runc runc
}

# container TREE DIRECTORY [OPTION...] ROOT COMMAND...: runs the command on the files of ROOT; the sandbox TREE is
# /opt/sandbox and the directory is /srv, where the command starts. This release of podman leaves the limits of this
# machine alone only if it is told some.
container() {
	podman --cgroup-manager cgroupfs --runtime runc run --rm --rootfs --read-only --user "$USER_ID:$USER_ID" \
		--cap-drop all --security-opt no-new-privileges --network none --shm-size 64m \
		--ulimit nofile=1024:1024 --ulimit nproc=1000:1000 \
		--volume "$1:/opt/sandbox:ro" --volume "$2:/srv" --workdir /srv --env SANDBOX=/opt/sandbox \
		--env HOME=/srv "${@:3}"
}
