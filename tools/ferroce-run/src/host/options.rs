// SPDX-License-Identifier: GPL-2.0

//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail, Result};
use clap::{Parser, ValueEnum};

use super::engine::MachineEngine;
use crate::channel::job::{DeviceType, Impairment, Topology};

/// Runs COMMAND in a machine of its own that has RDMA devices. The machine is a user-mode kernel on the caller's own
/// files: neither root nor KVM nor a kernel module is needed.
///
/// COMMAND starts in the caller's working directory, with its environment, standard streams and signals, and
/// ferroce-run returns its exit code. Changes below the working directory are kept, all others are discarded.
///
/// Exit codes of ferroce-run: 123 RDMA was not used (--require-rdma), 124 timeout, 125 ferroce-run or the machine
/// failed, 126 COMMAND cannot be executed, 127 COMMAND was not found, 128+N signal N ended COMMAND.
#[derive(Clone, Debug, Parser)]
#[command(name = "ferroce-run", version = env!("FERROCE_VERSION"), max_term_width = 100, args_override_self = true)]
pub struct Options {
    /// One device, two devices in two network namespaces, or several machines.
    #[arg(long, value_enum, default_value = "single")]
    pub topology: Topology,

    /// Number of machines of --topology nodes.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub nodes: u32,

    /// Command line for sh that the second machine runs; given again, the third, and so on. The last one also holds for
    /// the machines after it. They are stopped when COMMAND ends. Without this option, every machine runs COMMAND.
    #[arg(long, value_name = "LINE")]
    pub node_command: Vec<String>,

    /// How the machine is run; kvm and tcg need QEMU [default: the first that starts].
    #[arg(long, value_enum)]
    pub engine: Option<MachineEngine>,

    /// Names of the RDMA device and of the peer's device [default: fr0,fr1 or rxe0,rxe1].
    #[arg(long, value_name = "NAME[,PEER]", value_parser = devices)]
    pub device: Option<Devices>,

    /// Type of the RDMA devices.
    #[arg(long, value_enum, default_value = "ferroce")]
    pub driver: DeviceType,

    /// MTU of the network devices; 4200 suffices for a path MTU of 4096.
    #[arg(long, value_name = "BYTES", default_value_t = 4200, value_parser = mtu())]
    pub mtu: u32,

    /// Fraction of packets that are lost, such as `1%` or `0.01`.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0", hide_default_value = true)]
    pub loss: f64,

    /// Delay of each packet, such as `1ms`.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s", hide_default_value = true)]
    pub delay: Duration,

    /// Fraction of packets that are not delayed, and so overtake others; needs --delay.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0", hide_default_value = true)]
    pub reorder: f64,

    /// Processors of each machine [default: as many as this one has, at most 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub cpus: Option<u32>,

    /// Memory of each machine, allocated when it is used.
    #[arg(long, value_name = "SIZE", value_parser = memory, default_value = "2G")]
    pub memory: u64,

    /// Stops all machines after this time, and exits with 124.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub timeout: Option<Duration>,

    /// Another directory in which changes are kept; may be given several times.
    #[arg(long, value_name = "DIR")]
    pub write: Vec<PathBuf>,

    /// User that COMMAND runs as: root of the machine, or a user with the caller's ids.
    #[arg(long, value_enum, default_value = "root")]
    pub user: Who,

    /// Writes the kernel log of the machine to this file.
    #[arg(long, value_name = "FILE")]
    pub dmesg: Option<PathBuf>,

    /// Writes the result to this file as TAP: COMMAND's own output if that is TAP, else COMMAND as one test.
    #[arg(long, value_name = "FILE")]
    pub tap: Option<PathBuf>,

    /// Writes the result to this file as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,

    /// Captures the packets of the first machine's network device in this file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,

    /// Prints how many packets and bytes each RDMA device has sent and received.
    #[arg(long)]
    pub stats: bool,

    /// Exits with 123 if no RDMA device has received packets other than those of the connection manager.
    #[arg(long)]
    pub require_rdma: bool,

    /// Starts a shell in the machine after COMMAND has ended.
    #[arg(long)]
    pub keep: bool,

    /// Checks the requirements on this machine, and says how to meet them.
    #[arg(long, exclusive = true)]
    pub doctor: bool,

    /// The command and its arguments.
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        required_unless_present = "doctor"
    )]
    pub command: Vec<OsString>,
}

/// Names of the two RDMA devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Devices(pub [String; 2]);

/// The user that a command runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Who {
    /// The machine's root.
    Root,
    /// A user with the caller's ids.
    Caller,
}

impl Options {
    /// Checks combinations of options.
    pub fn check(&self) -> Result<()> {
        let impairment = self.impairment();
        if impairment.is_some() && self.topology == Topology::Single {
            bail!("--loss, --delay and --reorder need a network: add --topology netns or nodes");
        }
        if impairment.reorder > 0.0 && impairment.delay == 0 {
            bail!("--reorder lets packets overtake delayed ones: add --delay");
        }
        if !self.node_command.is_empty() && self.topology != Topology::Nodes {
            bail!("--node-command needs --topology nodes");
        }
        Ok(())
    }

    /// Returns what happens to packets on the wire.
    pub fn impairment(&self) -> Impairment {
        Impairment {
            loss: self.loss,
            delay: u32::try_from(self.delay.as_micros()).unwrap_or(u32::MAX),
            reorder: self.reorder,
        }
    }

    /// Returns the number of machines.
    pub fn machines(&self) -> u32 {
        match self.topology {
            Topology::Nodes => self.nodes,
            _ => 1,
        }
    }

    /// Names of the devices.
    pub fn devices(&self) -> [String; 2] {
        let prefix = match self.driver {
            DeviceType::Ferroce | DeviceType::FerroceDirect => "fr",
            DeviceType::Rxe => "rxe",
        };
        let given = self.device.clone().map(|devices| devices.0);
        given.unwrap_or_else(|| [format!("{prefix}0"), format!("{prefix}1")])
    }

    /// What a machine but the first runs, if that is not COMMAND.
    pub fn command_of_node(&self, node: u32) -> Option<&str> {
        let last = self.node_command.len().checked_sub(1)?;
        let index = (node as usize).checked_sub(1)?;
        self.node_command.get(index.min(last)).map(String::as_str)
    }
}

/// The least is that of IPv6.
fn mtu() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1280..=9000)
}

fn devices(text: &str) -> Result<Devices> {
    let names: Vec<&str> = text.split(',').collect();
    let valid =
        |name: &&str| !name.is_empty() && name.len() < 64 && !name.contains(['/', '%', ':', ' ']);
    match names.as_slice() {
        [name] if valid(name) => Ok(Devices([(*name).into(), format!("{name}-peer")])),
        [name, peer] if valid(name) && valid(peer) && name != peer => {
            Ok(Devices([(*name).into(), (*peer).into()]))
        }
        _ => bail!("not one or two names of devices"),
    }
}

fn share(text: &str) -> Result<f64> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>()? * scale;
    if !(0.0..=1.0).contains(&share) {
        bail!("not between 0% and 100%");
    }
    Ok(share)
}

/// A time with its unit; without one, it is in seconds.
fn time(text: &str) -> Result<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Ok(Duration::try_from_secs_f64(seconds)?);
    }
    humantime::parse_duration(text).map_err(|error| anyhow!("{error}"))
}

/// The smallest machine that starts.
const LEAST_MEMORY: u64 = 128 << 20;
/// As much as the layout of a user-mode kernel has room for.
const MOST_MEMORY: u64 = 256 << 30;

/// Bytes, with K, M or G for powers of 1024.
fn memory(text: &str) -> Result<u64> {
    let (number, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let bytes = number.parse::<u64>()?.checked_mul(1 << shift);
    match bytes {
        Some(bytes @ LEAST_MEMORY..=MOST_MEMORY) => Ok(bytes),
        _ => bail!("not between 128M and 256G"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_its_own_options() {
        let options =
            Options::parse_from(["ferroce-run", "--loss", "1%", "--", "ls", "-l", "--loss"]);
        assert_eq!(options.loss, 0.01);
        assert_eq!(options.command, ["ls", "-l", "--loss"]);
        let options = Options::parse_from(["ferroce-run", "ls", "-l", "--help"]);
        assert_eq!(options.command, ["ls", "-l", "--help"]);
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!(memory("1G").unwrap(), 1 << 30);
        assert_eq!(memory("512m").unwrap(), 512 << 20);
        for wrong in ["", "G", "1T", "-1M", "99999999999999999999G", "1K"] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
        assert_eq!(time("1.5").unwrap(), Duration::from_millis(1500));
        assert_eq!(time("20us").unwrap(), Duration::from_micros(20));
        for wrong in ["", "-1", "soon", "nan"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        for wrong in ["101%", "-1", "x", "nan"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn devices_have_names_that_the_kernel_takes() {
        assert_eq!(devices("a").unwrap().0, ["a", "a-peer"]);
        assert_eq!(devices("a,b").unwrap().0, ["a", "b"]);
        for wrong in ["", ",", "a,", "a,a", "a/b", "a,b,c", "mlx%d"] {
            assert!(devices(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_node_command_holds_for_the_rest() {
        let given = [
            "ferroce-run",
            "--topology",
            "nodes",
            "--node-command",
            "a",
            "--node-command",
            "b",
            "--",
            "c",
        ];
        let options = Options::parse_from(given);
        let commands: Vec<_> = (0..4).map(|node| options.command_of_node(node)).collect();
        assert_eq!(commands, [None, Some("a"), Some("b"), Some("b")]);
        assert!(
            Options::parse_from(["ferroce-run", "--node-command", "a", "--", "c"])
                .check()
                .is_err()
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for wrong in [
            vec!["--loss", "1%"],
            vec!["--topology", "netns", "--reorder", "1%"],
        ] {
            let line = ["ferroce-run"]
                .into_iter()
                .chain(wrong)
                .chain(["--", "true"]);
            assert!(Options::parse_from(line).check().is_err());
        }
    }
}
