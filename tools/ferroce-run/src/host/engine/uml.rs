// SPDX-License-Identifier: GPL-2.0

//! User-mode Linux.

use std::ffi::OsString;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use nix::fcntl::{open, OFlag};
use nix::sys::stat::Mode;

use super::{Hardware, Launch};
use crate::host::files::Files;

/// The kernel's arguments that are the same for all machines. `con0` is the log; there is no other console but the
/// channel.
const FIXED: &str =
    "root=/dev/root rootfstype=hostfs ro init=/init con=null con0=null,fd:1 seccomp=on panic=-1 oops=panic";

/// How to start a machine.
pub fn launch(files: &Files, hardware: Hardware) -> Result<Launch> {
    let guest = open(
        &files.guest,
        OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
    .with_context(|| format!("cannot read {}", files.guest.display()))?;
    let mut arguments: Vec<String> = FIXED.split(' ').map(String::from).collect();
    arguments.extend([
        format!("mem={}M", hardware.memory >> 20),
        format!("ncpus={}", hardware.cpus),
        // Paths may have spaces, numbers have none.
        format!("rootflags=/proc/self/fd/{}", guest.as_raw_fd()),
        format!("con1=fd:{}", hardware.channel.as_raw_fd()),
        format!("loglevel={}", if hardware.verbose { 8 } else { 4 }),
    ]);
    if let Some(wire) = &hardware.wire {
        arguments.push(format!(
            "vec0:transport=fd,fd={},mtu={}",
            wire.as_raw_fd(),
            hardware.mtu
        ));
    }
    Ok(Launch {
        program: files.kernel.clone(),
        arguments: arguments.into_iter().map(OsString::from).collect(),
        descriptors: [guest, hardware.channel]
            .into_iter()
            .chain(hardware.wire)
            .collect(),
    })
}
