// SPDX-License-Identifier: GPL-2.0

//! Debian's kernel in QEMU.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Hardware, Launch};
use crate::host::files::Files;

/// The emulator.
const PROGRAM: &str = "qemu-system-x86_64";

/// The processor's help.
const KVM: &str = "/dev/kvm";

/// A machine with nothing that is not asked for. The caller's files are shared over 9p; that not every owner of a file
/// can be set is no error.
const FIXED: &str = "-nodefaults -no-user-config -display none -no-reboot -machine pc -chardev stdio,id=log,signal=off \
    -serial chardev:log -device virtio-serial-pci -device virtserialport,chardev=channel,name=ferroce \
    -virtfs local,path=/,mount_tag=caller,security_model=none,multidevs=remap";

/// How to start a machine.
pub fn launch(
    files: &Files,
    hardware: Hardware,
    accelerator: &str,
    processor: &str,
) -> Result<Launch> {
    let program = find()?;
    let loglevel = if hardware.verbose { 8 } else { 4 };
    let mut arguments: Vec<OsString> = FIXED.split_whitespace().map(OsString::from).collect();
    let mut add = |name: &str, value: OsString| arguments.extend([name.into(), value]);
    add("-accel", accelerator.into());
    add("-cpu", processor.into());
    add("-m", format!("{}M", hardware.memory >> 20).into());
    add("-smp", hardware.cpus.to_string().into());
    add("-kernel", files.stock.join("vmlinuz").into());
    add("-initrd", files.stock.join("initrd").into());
    add(
        "-append",
        format!("console=ttyS0 loglevel={loglevel} panic=-1 oops=panic FERROCE_ENGINE=qemu").into(),
    );
    add(
        "-chardev",
        format!("socket,id=channel,fd={}", hardware.channel.as_raw_fd()).into(),
    );
    if let Some(wire) = &hardware.wire {
        add(
            "-netdev",
            format!("dgram,id=wire,local.type=fd,local.str={}", wire.as_raw_fd()).into(),
        );
        add("-device", "virtio-net-pci,netdev=wire".into());
    }
    Ok(Launch {
        program,
        arguments,
        descriptors: [hardware.channel]
            .into_iter()
            .chain(hardware.wire)
            .collect(),
    })
}

/// Fails without the emulator.
pub fn check() -> Result<()> {
    find().map(drop)
}

/// Fails without the emulator, or if the caller may not use the processor's help.
pub fn check_kvm() -> Result<()> {
    File::options()
        .read(true)
        .write(true)
        .open(KVM)
        .with_context(|| format!("no KVM here: {KVM}"))?;
    check()
}

/// The emulator in the caller's path.
fn find() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(PROGRAM))
        .find(|file| file.is_file())
        .with_context(|| format!("{PROGRAM} is missing: install qemu-system-x86"))
}
