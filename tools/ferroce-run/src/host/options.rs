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
/// ferroce-run returns its exit code. What COMMAND writes below the working directory stays; all else is thrown away.
///
/// Exit codes of ferroce-run's own: 123 no RDMA was used (--require-rdma), 124 time is up, 125 a fault of ferroce-run
/// or of the machine, 126 COMMAND cannot be executed, 127 there is no COMMAND, 128+N COMMAND was ended by signal N.
#[derive(Clone, Debug, Parser)]
#[command(name = "ferroce-run", version = env!("FERROCE_VERSION"), max_term_width = 100, args_override_self = true)]
pub struct Options {
    /// What is joined to what: one device, two in two network namespaces, or several machines.
    #[arg(long, value_enum, default_value = "single")]
    pub topology: Topology,

    /// Machines of --topology nodes.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub nodes: u32,

    /// What the machines but the first run, as a line for sh; the last one given holds for all that follow. They are
    /// stopped when COMMAND has ended. Without this, every machine runs COMMAND.
    #[arg(long, value_name = "LINE")]
    pub node_command: Vec<String>,

    /// What the machine runs on; kvm and tcg need QEMU [default: the first that starts].
    #[arg(long, value_enum)]
    pub engine: Option<MachineEngine>,

    /// Name of the RDMA device, and of the peer's [default: fr0,fr1 or rxe0,rxe1].
    #[arg(long, value_name = "NAME[,PEER]", value_parser = devices)]
    pub device: Option<Devices>,

    /// The type of the devices.
    #[arg(long, value_enum, default_value = "ferroce")]
    pub driver: DeviceType,

    /// MTU of the network devices; 4200 suffices for a path MTU of 4096.
    #[arg(long, value_name = "BYTES", default_value_t = 4200, value_parser = mtu())]
    pub mtu: u32,

    /// Share of packets that the wire loses, as `1%` or `0.01`.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0", hide_default_value = true)]
    pub loss: f64,

    /// How long the wire holds packets up, as `1ms`.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s", hide_default_value = true)]
    pub delay: Duration,

    /// Share of packets that overtake others; needs --delay.
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "0", hide_default_value = true)]
    pub reorder: f64,

    /// Processors of a machine [default: those of this one, 8 at most].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub cpus: Option<u32>,

    /// Memory of a machine. Only what is used is taken.
    #[arg(long, value_name = "SIZE", value_parser = memory, default_value = "2G")]
    pub memory: u64,

    /// Stops everything after this time, and returns 124.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub timeout: Option<Duration>,

    /// One more directory in which files stay.
    #[arg(long, value_name = "DIR")]
    pub write: Vec<PathBuf>,

    /// The user that COMMAND runs as: the machine's root, or one with the caller's ids.
    #[arg(long, value_enum, default_value = "root")]
    pub user: Who,

    /// Writes the log of the machine's kernel here.
    #[arg(long, value_name = "FILE")]
    pub dmesg: Option<PathBuf>,

    /// Writes the result here as TAP: what COMMAND prints, if that is TAP, or COMMAND as one test.
    #[arg(long, value_name = "FILE")]
    pub tap: Option<PathBuf>,

    /// The same as JUnit has it.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,

    /// Writes the packets of the first machine's network device here.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,

    /// At the end, prints the packets and bytes that each RDMA device has sent and received.
    #[arg(long)]
    pub stats: bool,

    /// Fails, with exit code 123, if no RDMA device has received any packet but those of the connection manager.
    #[arg(long)]
    pub require_rdma: bool,

    /// After COMMAND, starts a shell in the same machine.
    #[arg(long)]
    pub keep: bool,

    /// Says what this machine lacks for all this, and what to do.
    #[arg(long, exclusive = true)]
    pub doctor: bool,

    /// What to run, and its arguments.
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
    /// What no single option can be wrong about.
    pub fn check(&self) -> Result<()> {
        let impairment = self.impairment();
        if impairment.is_some() && self.topology == Topology::Single {
            bail!("one device has no wire to impair: add --topology netns or nodes");
        }
        if impairment.reorder > 0.0 && impairment.delay == 0 {
            bail!("packets can only overtake those that are held up: add --delay");
        }
        if !self.node_command.is_empty() && self.topology != Topology::Nodes {
            bail!("--node-command needs --topology nodes");
        }
        Ok(())
    }

    /// What the wire does to packets.
    pub fn impairment(&self) -> Impairment {
        Impairment {
            loss: self.loss,
            delay: u32::try_from(self.delay.as_micros()).unwrap_or(u32::MAX),
            reorder: self.reorder,
        }
    }

    /// How many machines there are.
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
