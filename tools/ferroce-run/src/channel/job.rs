// SPDX-License-Identifier: GPL-2.0

//! What a machine is told to do.

use std::ffi::OsString;
use std::path::PathBuf;

use nix::unistd::{getegid, geteuid, getgroups};
use serde::{Deserialize, Serialize};

/// Exit code for our own faults, as `env` and `timeout` have it.
pub const FAILED: i32 = 125;
/// What is added to the number of the signal that has ended a command.
pub const SIGNALED: i32 = 128;

/// All that a machine needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What to run.
    pub command: Command,
    /// Directories of the caller's that are written to; all others are covered by a layer in memory.
    pub writable: Vec<PathBuf>,
    /// The network and its RDMA devices.
    pub network: Network,
    /// Which of the machines this is, from 0.
    pub node: u32,
    /// How many there are.
    pub nodes: u32,
    /// The clock rate of the host's processor, as /proc/cpuinfo has it: perftest divides by it.
    pub megahertz: String,
    /// Most processes and threads of programs at once. In user mode, each process is also one of the host's.
    pub threads: u64,
    /// Whether the launcher is told what the RDMA devices carry.
    pub traffic: bool,
}

/// One process to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The program and its arguments.
    pub arguments: Vec<OsString>,
    /// All of its environment, but for what the machine adds.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub directory: PathBuf,
    /// The user that it runs as.
    pub user: User,
    /// The size of its terminal, if it gets one in place of pipes.
    pub window: Option<Window>,
}

/// The user that a process runs as.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl User {
    /// The user that this process runs as.
    pub fn caller() -> nix::Result<User> {
        Ok(User {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            groups: getgroups()?
                .into_iter()
                .map(|group| group.as_raw())
                .collect(),
        })
    }

    /// The machine's own root.
    pub fn root() -> User {
        User {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        }
    }
}

/// Size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// The type of RDMA devices: driver and user ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum DeviceType {
    /// ferroce.
    Ferroce,
    /// ferroce, with its own provider for libibverbs.
    FerroceDirect,
    /// The kernel's rdma_rxe.
    Rxe,
}

impl DeviceType {
    /// The name of its link type, and the file of its module without the ending.
    pub fn link_type(self) -> &'static str {
        match self {
            DeviceType::Ferroce => "ferroce",
            DeviceType::FerroceDirect => "ferroce_direct",
            DeviceType::Rxe => "rxe",
        }
    }

    /// The module that has it.
    pub fn module(self) -> &'static str {
        match self {
            DeviceType::Ferroce | DeviceType::FerroceDirect => "ferroce.ko",
            DeviceType::Rxe => "rdma_rxe.ko",
        }
    }
}

/// Which network a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Topology {
    /// One device.
    Single,
    /// Two devices, joined by a veth, the second in the network namespace `peer`.
    Netns,
    /// Machines whose network cards are joined, a device in each.
    Nodes,
}

/// What the wire does to packets. All of it is netem's, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Impairment {
    /// Share of packets that get lost, 0 to 1.
    pub loss: f64,
    /// Delay of each packet, in microseconds.
    pub delay: u32,
    /// Share of packets that overtake others, 0 to 1. Needs a delay.
    pub reorder: f64,
}

impl Impairment {
    /// Whether the wire does anything to packets.
    pub fn is_some(&self) -> bool {
        *self != Impairment::default()
    }
}

/// The network of a machine and its devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Which it is.
    pub topology: Topology,
    /// Whose devices they are.
    pub driver: DeviceType,
    /// Names of the device and of the peer's.
    pub devices: [String; 2],
    /// MTU of the network devices in bytes.
    pub mtu: u32,
    /// What the wire does to packets.
    pub impairment: Impairment,
    /// Whether the launcher is sent a copy of each packet.
    pub capture: bool,
}

/// How a command has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// The machine could not do what it was told; the text says what and why.
    Failed(String),
}

impl Outcome {
    /// The exit code that tells of it.
    pub fn exit_code(&self) -> i32 {
        match self {
            Outcome::Exited(code) => *code,
            Outcome::Signaled(signal) => SIGNALED + signal,
            Outcome::Failed(_) => FAILED,
        }
    }
}
