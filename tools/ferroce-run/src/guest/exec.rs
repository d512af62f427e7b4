// SPDX-License-Identifier: GPL-2.0

//! What runs between `fork` and the command: it takes the user and the directory of the command, and becomes it.
//!
//! As a program of its own it needs no code that is safe after a fork of a process with threads, and what it has to say
//! goes where the command's own messages go.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use nix::unistd::{setgroups, setresgid, setresuid, setsid, Gid, Uid};
use rustix::process::ioctl_tiocsctty;

use crate::channel::job::{self, FAILED};

/// The argument by which this program knows that it is wanted for this.
pub const NAME: &str = "exec";

/// Exit code of a command that cannot be executed, or that there is not: as `env` has them.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// A process that will be `command`, with `terminal` as its controlling terminal or none.
pub fn prepare(command: &job::Command, terminal: bool) -> Command {
    let user = &command.user;
    let groups: Vec<String> = user.groups.iter().map(u32::to_string).collect();
    let mut process = Command::new("/proc/self/exe");
    process
        .args([NAME, if terminal { "terminal" } else { "pipes" }])
        .args([user.uid.to_string(), user.gid.to_string(), groups.join(",")])
        .arg(&command.directory)
        .args(&command.arguments)
        .env_clear()
        .envs(
            command
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    process
}

/// Does what [`prepare`] has written down. Returns an exit code only if that was not possible.
pub fn main(arguments: &[OsString]) -> i32 {
    let [terminal, uid, gid, groups, directory, program, rest @ ..] = arguments else {
        eprintln!("ferroce-run: no command");
        return FAILED;
    };
    if let Err(error) = become_it(terminal, uid, gid, groups, Path::new(directory)) {
        eprintln!("ferroce-run: {error:#}");
        return FAILED;
    }
    let error = Command::new(program).args(rest).exec();
    eprintln!(
        "ferroce-run: {}: {}",
        Path::new(program).display(),
        reason(&error)
    );
    if error.kind() == ErrorKind::NotFound {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    }
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such command".into(),
        _ => error.to_string(),
    }
}

fn become_it(
    terminal: &OsStr,
    uid: &OsStr,
    gid: &OsStr,
    groups: &OsStr,
    directory: &Path,
) -> Result<()> {
    setsid().context("setsid")?;
    if terminal == "terminal" {
        ioctl_tiocsctty(rustix::stdio::stdin()).context("the terminal")?;
    }
    let groups: Vec<Gid> = groups
        .to_string_lossy()
        .split(',')
        .flat_map(str::parse)
        .map(Gid::from_raw)
        .collect();
    let uid = Uid::from_raw(number(uid)?);
    let gid = Gid::from_raw(number(gid)?);
    setgroups(&groups).context("setgroups")?;
    setresgid(gid, gid, gid).context("setresgid")?;
    setresuid(uid, uid, uid).context("setresuid")?;
    std::env::set_current_dir(directory)
        .with_context(|| format!("cannot enter {}", directory.display()))
}

fn number(text: &OsStr) -> Result<u32> {
    text.to_string_lossy().parse().context("not a number")
}
