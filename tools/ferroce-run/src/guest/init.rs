// SPDX-License-Identifier: GPL-2.0

//! The first process of a machine, from its start to its end.

use std::fs::{self, File};
use std::sync::Arc;

use anyhow::{bail, Context, Result};
use nix::sys::reboot::{reboot, RebootMode};
use nix::sys::resource::{setrlimit, Resource, RLIM_INFINITY};
use nix::sys::signal::{kill, Signal};
use nix::unistd::{sethostname, Pid};

use super::console::{self, Output};
use super::files::{self, CallerFiles};
use super::reaper::Reaper;
use super::traffic::Watch;
use super::{agent, capture, command, network};
use crate::channel::job::{Command, DeviceType, Job, Outcome, Topology};
use crate::channel::message::{receive, receive_job, ToGuest, ToHost};
use crate::threads;

/// Variables that make programs start others on other machines by our means.
const AGENTS: [(&str, &str); 3] = [
    ("OMPI_MCA_plm_rsh_agent", "ferroce-on"),
    ("PRTE_MCA_plm_ssh_agent", "ferroce-on"),
    ("HYDRA_LAUNCHER_EXEC", "ferroce-on"),
];

/// Does all that a machine does, and switches it off.
pub fn main() {
    let Ok((input, output)) = open_channel() else {
        // The kernel's log is all that is left.
        eprintln!("ferroce-run: no channel to the host");
        return off();
    };
    let mut caller = None;
    let mut outcome = work(input, &output, &mut caller)
        .unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
    if let Some(Err(error)) = caller.map(|caller| caller.sync()) {
        let _ = output.send(&ToHost::Notice(format!(
            "files that were written are lost: {}",
            error.desc()
        )));
        if outcome == Outcome::Exited(0) {
            outcome = Outcome::Failed("not all files could be written".into());
        }
    }
    let _ = output.send(&ToHost::Ended(outcome));
    off();
}

fn open_channel() -> Result<(File, Output<File>)> {
    files::mount_devices()?;
    files::load_modules()?;
    let input = console::open()?;
    let output = Output::new(input.try_clone()?);
    output.send(&ToHost::Hello)?;
    Ok((input, output))
}

fn off() {
    let _ = reboot(RebootMode::RB_POWER_OFF);
}

/// Sets the machine up, runs the command, and ends all processes.
fn work(
    mut input: File,
    output: &Output<File>,
    caller: &mut Option<CallerFiles>,
) -> Result<Outcome> {
    let Some(job) = receive_job(&mut input, || output.send(&ToHost::JobTaken))? else {
        bail!("no job")
    };
    *caller = Some(files::set_up(&job.writable)?);
    let _ = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
    sethostname(network::host_name(&job, job.node))?;
    let reaper = Arc::new(Reaper::default());
    let variables = network::set_up(&job)?;
    files::add_clock_rate(&job.megahertz)?;
    if job.network.topology == Topology::Nodes {
        name_hosts(&job)?;
        agent::start(&reaper).context("the agent")?;
    }
    if job.network.capture {
        capture::start(network::NETDEV, output.clone())?;
    }
    {
        let reaper = reaper.clone();
        threads::spawn(move || reaper.run())?;
    }
    output.send(&ToHost::Ready)?;
    let Some(ToGuest::Start) = receive(&mut input)? else {
        bail!("told to stop before the start")
    };
    let command = with_variables(&job, variables);
    let watch = job
        .traffic
        .then(|| Watch::start(output.clone()))
        .transpose()?;
    limit_threads(job.threads);
    let outcome = command::run(&command, input, output, &reaper, end_processes);
    if let Some(watch) = watch {
        watch.finish();
    }
    Ok(outcome)
}

/// Lets so many threads be started beside those that there are, which are the kernel's and ours.
fn limit_threads(programs: u64) {
    // The fourth word is RUNNING/ALL.
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let all = load.split([' ', '/']).nth(4);
    let present: u64 = all.and_then(|all| all.parse().ok()).unwrap_or_default();
    let most = present.saturating_add(programs);
    let _ = fs::write("/proc/sys/kernel/threads-max", most.to_string());
}

/// Lets programs find the machines by their names.
fn name_hosts(job: &Job) -> Result<()> {
    let mut hosts =
        fs::read_to_string("/etc/hosts").unwrap_or_else(|_| "127.0.0.1 localhost\n".into());
    for node in 0..job.nodes {
        let (ipv4, ipv6) = network::addresses(node);
        let name = network::host_name(job, node);
        hosts += &format!("{ipv4} {name}\n{ipv6} {name}\n");
    }
    fs::create_dir_all("/etc")?;
    fs::write("/etc/hosts", hosts).context("/etc/hosts")
}

/// The command with what it is told of its devices.
fn with_variables(job: &Job, variables: Vec<(String, String)>) -> Command {
    let mut command = job.command.clone();
    let mut add = |name: &str, value: &str| command.environment.push((name.into(), value.into()));
    for (name, value) in &variables {
        add(name, value);
    }
    if job.network.driver == DeviceType::FerroceDirect {
        // libibverbs takes RDMAV_DRIVERS first: the command's own list goes on behind ours.
        let given = job
            .command
            .environment
            .iter()
            .rfind(|(name, _)| name == "RDMAV_DRIVERS")
            .and_then(|(_, value)| value.to_str())
            .map_or_else(String::new, |value| format!(":{value}"));
        add("RDMAV_DRIVERS", &format!("{}{given}", files::PROVIDER));
    }
    if job.network.topology == Topology::Nodes {
        AGENTS.iter().for_each(|(name, value)| add(name, value));
    }
    let path = command
        .environment
        .iter()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value.clone());
    let mut path = path
        .unwrap_or_else(|| "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into());
    path.push(":");
    path.push(files::PROGRAMS);
    command.environment.push(("PATH".into(), path));
    command
}

/// Ends what the command has left behind, which might hold its output open.
fn end_processes() {
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
}
