// SPDX-License-Identifier: GPL-2.0

//! `ferroce-on PLACE COMMAND...` runs a command on another machine, or in the namespace of the peer. It takes its
//! arguments as ssh does, and so may stand for ssh where a program wants that, as mpirun does.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process;
use std::sync::mpsc;

use anyhow::{bail, Context, Result};

use super::{agent, network};
use crate::channel::job::{Command, Outcome, User, FAILED};
use crate::channel::message::{receive, send, ToHost};
use crate::channel::stdin;
use crate::threads;

/// The name under which the program is this.
pub const NAME: &str = "ferroce-on";

/// Returns the exit code.
pub fn main(arguments: &[OsString]) -> i32 {
    run(arguments).unwrap_or_else(|error| {
        eprintln!("{NAME}: {error:#}");
        FAILED
    })
}

fn run(arguments: &[OsString]) -> Result<i32> {
    // Options of ssh mean nothing here.
    let options = arguments
        .iter()
        .take_while(|argument| argument.as_bytes().starts_with(b"-"))
        .count();
    let [place, words @ ..] = &arguments[options..] else {
        bail!("usage: {NAME} PLACE COMMAND...")
    };
    if words.is_empty() {
        bail!("usage: {NAME} PLACE COMMAND...");
    }
    let shell = [
        OsStr::new("/bin/sh"),
        OsStr::new("-c"),
        &words.join(OsStr::new(" ")),
    ]
    .map(OsStr::to_owned);
    let place = place.to_string_lossy();
    if network::namespace(&place).exists() {
        network::enter(&place)?;
        return Err(process::Command::new(&shell[0])
            .args(&shell[1..])
            .exec()
            .into());
    }
    let stream = TcpStream::connect((&*place, agent::PORT))
        .with_context(|| format!("no machine {place}"))?;
    call(stream, &command(shell.to_vec())?)
}

fn command(arguments: Vec<OsString>) -> Result<Command> {
    Ok(Command {
        arguments,
        environment: std::env::vars_os().collect(),
        directory: std::env::current_dir()?,
        user: User::caller()?,
        window: None,
    })
}

/// Has the command run at the other end, and stands between it and our own streams.
fn call(mut stream: TcpStream, command: &Command) -> Result<i32> {
    send(&mut stream, command)?;
    let (sender, taken) = mpsc::channel();
    let mut input = stream.try_clone()?;
    threads::spawn(move || stdin::forward(&taken, |message| send(&mut input, &message)))?;
    while let Some(message) = receive(&mut stream)? {
        match message {
            ToHost::Stdout(bytes) => std::io::stdout()
                .write_all(&bytes)
                .and_then(|()| std::io::stdout().flush())?,
            ToHost::Stderr(bytes) => std::io::stderr().write_all(&bytes)?,
            ToHost::StdinTaken(length) => drop(sender.send(length)),
            ToHost::Ended(Outcome::Failed(reason)) => bail!("{reason}"),
            ToHost::Ended(outcome) => return Ok(outcome.exit_code()),
            _ => {}
        }
    }
    bail!("the other machine has gone")
}
