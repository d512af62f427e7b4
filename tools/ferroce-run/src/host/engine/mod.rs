// SPDX-License-Identifier: GPL-2.0

//! What a machine runs on.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anyhow::Result;

use super::files::Files;

mod qemu;
mod uml;

/// What a machine runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MachineEngine {
    /// User-mode Linux: a kernel that is a program. Nothing is emulated.
    Uml,
    /// Debian's kernel in QEMU, with the processor's help.
    Kvm,
    /// Debian's kernel in QEMU, on an emulated processor.
    Tcg,
}

/// What a machine is made of.
pub struct Hardware {
    /// Processors.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// The machine's end of the channel.
    pub channel: OwnedFd,
    /// The wire, where there are other machines.
    pub wire: Option<OwnedFd>,
    /// MTU of the wire in bytes.
    pub mtu: u32,
    /// Whether the kernel says all, or only what is wrong.
    pub verbose: bool,
}

/// A program to start. It writes the kernel's log to its standard output.
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, which name the descriptors below by their numbers.
    pub arguments: Vec<OsString>,
    /// What it inherits beside the standard streams.
    pub descriptors: Vec<OwnedFd>,
}

impl MachineEngine {
    /// All, the best first.
    pub const ALL: [MachineEngine; 3] =
        [MachineEngine::Uml, MachineEngine::Kvm, MachineEngine::Tcg];

    /// How users know it.
    pub fn title(self) -> &'static str {
        match self {
            MachineEngine::Uml => "user-mode Linux",
            MachineEngine::Kvm => "QEMU with KVM",
            MachineEngine::Tcg => "QEMU without KVM, which is slow",
        }
    }

    /// Fails if something is missing that it takes.
    pub fn check(self) -> Result<()> {
        match self {
            MachineEngine::Uml => Ok(()),
            MachineEngine::Kvm => qemu::check_kvm(),
            MachineEngine::Tcg => qemu::check(),
        }
    }

    /// How to start such a machine.
    pub fn launch(self, files: &Files, hardware: Hardware) -> Result<Launch> {
        match self {
            MachineEngine::Uml => uml::launch(files, hardware),
            MachineEngine::Kvm => qemu::launch(files, hardware, "kvm", "host"),
            // With a thread for each processor, the emulator may run an instruction that the kernel has replaced.
            MachineEngine::Tcg => qemu::launch(files, hardware, "tcg,thread=single", "max"),
        }
    }
}
