// SPDX-License-Identifier: GPL-2.0

//! What a machine is told, as the options and the caller's surroundings have it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{bail, Context, Result};
use nix::unistd::geteuid;

use super::engine::MachineEngine;
use super::options::{Options, Who};
use super::{limits, stdin};
use crate::channel::job::{Command, Job, Network, User};

/// Machines have at most so many processors.
const MOST_CPUS: u32 = 8;

/// The programs of a machine have at least and at most so many processes and threads.
const THREADS: (u64, u64) = (64, 4096);

/// What a shell does that stays after the command.
const AND_SHELL: &str = r#""$@"; code=$?; echo "ferroce-run: the command returned $code; this is a shell" >&2
"${SHELL:-/bin/sh}"; exit "$code""#;

/// The job of the machine with this number.
pub fn job(options: &Options, engine: MachineEngine, node: u32, terminal: bool) -> Result<Job> {
    let directory =
        std::env::current_dir().context("the working directory is not there any more")?;
    let user = match options.user {
        Who::Root => User::root(),
        Who::Caller => User::caller()?,
    };
    let command = Command {
        arguments: arguments(options, node),
        environment: environment(options.user),
        directory: directory.clone(),
        user,
        window: if terminal { stdin::window() } else { None },
    };
    Ok(Job {
        command,
        writable: writable(options, directory)?,
        network: Network {
            topology: options.topology,
            driver: options.driver,
            devices: options.devices(),
            mtu: options.mtu,
            impairment: options.impairment(),
            capture: node == 0 && options.pcap.is_some(),
        },
        node,
        nodes: options.machines(),
        megahertz: clock_rate(),
        threads: threads(engine, options.machines()),
        traffic: options.stats || options.require_rdma,
    })
}

fn arguments(options: &Options, node: u32) -> Vec<OsString> {
    if let Some(line) = options.command_of_node(node) {
        return ["/bin/sh", "-c", line].map(OsString::from).to_vec();
    }
    let shell = ["/bin/sh", "-c", AND_SHELL, "sh"]
        .map(OsStr::new)
        .map(OsStr::to_owned);
    let before = if options.keep {
        shell.to_vec()
    } else {
        Vec::new()
    };
    before
        .into_iter()
        .chain(options.command.iter().cloned())
        .collect()
}

/// The caller's. Root has another home.
fn environment(user: Who) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<_> = std::env::vars_os().collect();
    if user == Who::Root && !geteuid().is_root() {
        environment.retain(|(name, _)| {
            !["HOME", "USER", "LOGNAME"]
                .iter()
                .any(|other| name == other)
        });
        environment.extend(
            [("HOME", "/root"), ("USER", "root"), ("LOGNAME", "root")]
                .map(|(a, b)| (a.into(), b.into())),
        );
    }
    environment
}

/// Directories whose files are the caller's own. If the working directory is the root, nothing is.
fn writable(options: &Options, directory: PathBuf) -> Result<Vec<PathBuf>> {
    let mut all = vec![directory];
    for given in &options.write {
        let path = given
            .canonicalize()
            .with_context(|| format!("--write {}", given.display()))?;
        if !path.is_dir() {
            bail!("--write {}: not a directory", given.display());
        }
        all.push(path);
    }
    // A mount over another would hide it, and adds nothing.
    all.sort();
    all.dedup_by(|inner, outer| inner.starts_with(&*outer) && *outer != Path::new("/"));
    all.retain(|path| path != Path::new("/"));
    Ok(all)
}

/// Processors of a machine for which no number is asked.
pub fn processors() -> u32 {
    thread::available_parallelism()
        .map_or(1, |count| count.get() as u32)
        .min(MOST_CPUS)
}

/// How many processes and threads the programs of one of `machines` may have. In user mode, each process is one of the
/// host's as well; half of those that the caller may have remain for others.
fn threads(engine: MachineEngine, machines: u32) -> u64 {
    let limit = match engine {
        MachineEngine::Uml => limits::processes() / 2 / u64::from(machines.max(1)),
        MachineEngine::Kvm | MachineEngine::Tcg => u64::MAX,
    };
    limit.clamp(THREADS.0, THREADS.1)
}

/// The clock rate of this processor in MHz, as /proc/cpuinfo has it.
fn clock_rate() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("cpu MHz"));
    line.and_then(|line| line.split_once(": "))
        .map_or("1000.000", |(_, rate)| rate)
        .into()
}
