# SPDX-License-Identifier: GPL-2.0
#
# Machines under QEMU: start one, save one that waits for its job, resume it. Sourced by
# vm.sh.
#
# A machine under emulation takes 9 seconds to boot, so it is booted once, saved while it waits
# for a job, and resumed in well under a second after that. VM_COLD=1 boots anew each time.

MACHINE_CPUS=${VM_CPUS:-2}
JOB_SIZE=64M
PLUGIN_OFFSET=$((63 << 20)) PLUGIN_SIZE=$((1 << 20))

# machine_kernel stock|debug|debugrt|kcsan: the differences. KASAN needs an eighth of the memory, and its quarantine
# more; every access is checked, so everything takes several times as long.
machine_kernel() {
	case $1 in
	stock) MACHINE_MEMORY=${VM_MEMORY:-2G} BOOT_SECONDS=90 ;;
	debug | debugrt)
		MACHINE_MEMORY=${VM_MEMORY:-3G} BOOT_SECONDS=300
		# An interrupt while the boot reads the processor's features finds none for a moment, and KASAN
		# then takes addresses of five levels for wild ones.
		MACHINE_CMDLINE="$MACHINE_CMDLINE page_poison=1 page_owner=on no5lvl"
		;;
	kcsan)
		MACHINE_MEMORY=${VM_MEMORY:-2G} BOOT_SECONDS=300
		# A watched access waits for a second one, which comes late under emulation. So watch more of
		# them, for longer: KCSAN's defaults find no race under emulation, not even the kernel's own.
		MACHINE_CMDLINE="$MACHINE_CMDLINE kcsan.early_enable=1 kcsan.skip_watch=400
			kcsan.udelay_task=400 kcsan.udelay_interrupt=150"
		;;
	esac
}

# machine_arch: what depends on the architecture of the image. QEMU's default processor is old; `max` has all features,
# of which pointer authentication with the architecture's own algorithm takes most of the time under emulation.
machine_arch() {
	case $(<"$IMAGE/arch") in
	arm64)
		need qemu-system-aarch64 qemu-system-arm
		MACHINE_QEMU=qemu-system-aarch64
		MACHINE_TYPE="virt,gic-version=3"
		MACHINE_CMDLINE="console=ttyAMA0 $MACHINE_CMDLINE"
		MACHINE_TCG_CPU="max,pauth-impdef=on"
		BOOT_SECONDS=$((BOOT_SECONDS * 2))
		;;
	*)
		need qemu-system-x86_64 qemu-system-x86
		MACHINE_QEMU=qemu-system-x86_64
		MACHINE_TYPE=pc
		MACHINE_CMDLINE="console=ttyS0 $MACHINE_CMDLINE"
		MACHINE_TCG_CPU=max
		;;
	esac
}

# What the kernel is told. An oops ends the run at once; timing checks are of no use under emulation.
MACHINE_CMDLINE="loglevel=5 panic=-1 oops=panic mitigations=off tsc=reliable
no_timer_check random.trust_cpu=on log_buf_len=4M rcupdate.rcu_cpu_stall_timeout=60"

# machine_args DIR kvm|tcg|icount: the machine, the same for every run, or it could not be resumed.
# DIR holds its files: job, console, out, ctl, dmesg, files.
machine_args() {
	local name
	ARGS=(-machine "${VM_MACHINE:-$MACHINE_TYPE}" -nodefaults -no-user-config -display none -no-reboot
		# The debug kernel has no ACPI, and finds a processor per socket.
		-smp "$MACHINE_CPUS,sockets=$MACHINE_CPUS" -m "$MACHINE_MEMORY"
		-kernel "${VM_KERNEL:-$IMAGE/vmlinuz}" -initrd "$IMAGE/initrd"
		-append "$(echo $MACHINE_CMDLINE ${VM_CMDLINE-})"
		-serial "file:$1/console" -monitor "unix:$1/monitor,server=on,wait=off"
		-device virtio-serial-pci
		-drive "if=none,id=root,file=$IMAGE/root.img,format=raw,readonly=on"
		-device virtio-blk-pci,drive=root
		-drive "if=none,id=job,file=$1/job,format=raw,readonly=on"
		-device virtio-blk-pci,drive=job
		-drive "if=none,id=modules,file=$IMAGE/modules.img,format=raw,readonly=on"
		-device virtio-blk-pci,drive=modules
		-device virtio-net-pci,netdev=net,romfile=
		# A machine that was saved stopped goes on when it is resumed.
		-global migration.store-global-state=off)
	ARGS+=(${VM_QEMU-})
	for name in out ctl dmesg files; do
		ARGS+=(-chardev "file,id=$name,path=$1/$name"
			-device "virtserialport,chardev=$name,name=$name")
	done
	case $2 in
	kvm) ARGS+=(-accel kvm -cpu host) ;;
	tcg) ARGS+=(-accel tcg,thread=multi -cpu "$MACHINE_TCG_CPU") ;;
	# A nanosecond of the machine is one instruction; while it waits, its clock goes on to the next timer.
	icount) ARGS+=(-accel tcg,thread=single -cpu "$MACHINE_TCG_CPU" -icount shift=0,sleep=off) ;;
	esac
}

# machine_start DIR ACCELERATOR NETDEV [QEMU-ARGUMENT...]: in the background; sets MACHINE_PID.
machine_start() {
	local dir=$1 accelerator=$2 netdev=$3
	shift 3
	machine_args "$dir" "$accelerator"
	: >"$dir/ctl"
	# It waits for a job for ever, and would keep the locks of a script that was killed.
	setpriv --pdeathsig KILL "$MACHINE_QEMU" "${ARGS[@]}" -netdev "$netdev" "$@" </dev/null >"$dir/qemu.log" 2>&1 &
	MACHINE_PID=$!
}

# machine_await PID FILE WORD SECONDS: until FILE holds a line that begins with WORD. Returns 1
# when the machine died first, 2 when time was up.
machine_await() {
	# One look each 50 ms would cost a tenth of a processor. In the background, as signals interrupt `wait` only.
	# The limit 0 of timeout is none.
	grep -q -m 1 "^$3" < <(
		exec timeout "$(($4 > 0 ? $4 : 1))" tail -n +1 -s 0.2 -f --pid="$1" "$2" 2>/dev/null
	) &
	! wait $! || return 0
	! kill -0 "$1" 2>/dev/null || return 2
	return 1
}

machine_stop() { # PID
	kill -9 "$1" 2>/dev/null || true
	wait "$1" 2>/dev/null || true
}

# monitor DIR COMMAND...: QEMU's own console, for what only it can do. Prints what it says.
monitor() {
	python3 - "$@" <<-'EOF'
		import socket, sys
		console = socket.socket(socket.AF_UNIX)
		console.connect(sys.argv[1] + "/monitor")
		def answer():
		    text = b""
		    while not text.endswith(b"(qemu) "):
		        part = console.recv(65536)
		        if not part:
		            break
		        text += part
		    return text.decode(errors="replace").replace("\r", "")
		answer()
		for command in sys.argv[2:]:
		    console.sendall(command.encode() + b"\n")
		    print(answer())
	EOF
}

# job_file FILE [DIRECTORY]: the disk that carries the job, or one without a job.
# Its size never changes: it is part of the machine.
job_file() {
	rm -f "$1"
	if [ $# = 2 ]; then
		{ printf 'ferroce JOB'; head -c 4085 /dev/zero; tar -C "$2" -c .; } >"$1"
	fi
	truncate -s "$JOB_SIZE" "$1"
}

# accelerator: kvm, tcg or icount. /dev/kvm may exist and still be unable to run a kernel, so it is
# tried once; the answer holds until the host is booted anew. FERROCE_ACCEL overrides.
accelerator() {
	local answer dir
	if [ -n "${VM_ICOUNT-}" ]; then
		echo icount
		return
	fi
	if [ -n "${VM_PLUGIN-}" ]; then
		echo tcg
		return
	fi
	if [ "$(<"$IMAGE/arch")" != "$(dpkg --print-architecture 2>/dev/null || echo amd64)" ]; then
		echo tcg
		return
	fi
	if [ -n "${FERROCE_ACCEL-}" ]; then echo "$FERROCE_ACCEL"; return; fi
	[ -w /dev/kvm ] || { echo tcg; return; }
	answer=$CACHE/accelerator-$(key "$(</proc/sys/kernel/random/boot_id)")
	if [ ! -s "$answer" ]; then
		dir=$(mktemp -d "$CACHE/try.XXXXXX")
		job_file "$dir/job"
		machine_start "$dir" kvm hubport,id=net,hubid=0
		if machine_await "$MACHINE_PID" "$dir/ctl" up 15; then echo kvm; else echo tcg; fi >"$dir/answer"
		machine_stop "$MACHINE_PID"
		mv "$dir/answer" "$answer"
		rm -rf "$dir"
		say QEMU "accelerator is $(<"$answer")"
	fi
	cat "$answer"
}

# stale_breakpoint CONSOLE: whether the machine died of a breakpoint that is not in its memory. A kernel that patches
# its text puts one there for a moment; the emulator may translate it on one processor while the other takes it
# away, and run the translation later (Documentation/testing.rst). A breakpoint that is there is a fault like any.
stale_breakpoint() {
	awk '
		/ Oops: int3: / && !oops { oops = 1 }
		oops && match($0, / [0-9a-f][0-9a-f] <[0-9a-f][0-9a-f]>/) {
			stale = substr($0, RSTART + 1, 2) != "cc"
			exit
		}
		END { exit !stale }' "$1"
}

# boot DIR ACCELERATOR NETDEV: starts a machine from its kernel and waits until it is up. One boot in some
# thirty under emulation dies while the kernel patches its own text; that is QEMU's, and is tried again.
boot() {
	local try
	for try in {1..5}; do
		machine_start "$@"
		# A busy machine needs longer.
		machine_await "$MACHINE_PID" "$1/ctl" up "$((BOOT_SECONDS * try))" && return
		machine_stop "$MACHINE_PID"
		say QEMU "the machine died or hung before user space (try $try); its last words:"
		tail -n 5 "$1/console" >&2
	done
	die "no machine comes up; see $1/console and $1/qemu.log"
}

# saved_state: the file of a machine that waits for its job; made when there is none.
saved_state() {
	local state dir
	machine_args /dir tcg
	state=$IMAGE/state-$(key "$("$MACHINE_QEMU" --version)" "${ARGS[*]}" "$(cat "$SRC/scripts/machine/qemu.sh")")
	if [ ! -e "$state" ]; then
		lock "state"
		if [ ! -e "$state" ]; then
			say BOOT "a machine to be saved and resumed, about 10 s"
			dir=$(mktemp -d "$CACHE/boot.XXXXXX")
			job_file "$dir/job"
			boot "$dir" tcg hubport,id=net,hubid=0
			sleep 1
			# Stopped: QEMU may lose what emulated processors write while it saves.
			monitor "$dir" stop 'migrate_set_parameter max-bandwidth 100G' \
				"migrate \"exec:cat >$state.new\"" 'info migrate' >"$dir/saved"
			machine_stop "$MACHINE_PID"
			grep -q '^Migration status: completed' "$dir/saved" ||
				fail "$dir/saved" "the machine could not be saved"
			mv "$state.new" "$state"
			rm -rf "$dir"
		fi
		flock -u "$lock_fd"
	fi
	echo "$state"
}

# machine_run DIR ACCELERATOR NETDEV: a machine that does the job in DIR/job: resumed where
# that is quicker, else booted. A plugin is no part of the machine, and writes where the job's disk is empty.
machine_run() {
	[ -z "${PLUGIN-}" ] ||
		set -- "$@" -plugin "file=$PLUGIN,result=$1/job,offset=$PLUGIN_OFFSET,size=$PLUGIN_SIZE"
	if [ "$2" != tcg ] || [ -n "${VM_COLD-}" ]; then
		boot "$@"
	else
		machine_start "$@" -incoming "exec:cat '$STATE'"
	fi
}
