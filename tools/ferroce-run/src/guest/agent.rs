// SPDX-License-Identifier: GPL-2.0

//! Lets the other machines run commands here, as sshd would: `ferroce-on` is their side.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;

use anyhow::Result;

use super::command;
use super::console::Output;
use super::reaper::Reaper;
use crate::channel::job::{Command, Outcome};
use crate::channel::message::{receive, ToHost};
use crate::threads;

/// The TCP port of the agent of each machine.
pub const PORT: u16 = 7477;

/// Listens from now on.
pub fn start(reaper: &Arc<Reaper>) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    let reaper = reaper.clone();
    threads::spawn(move || {
        for stream in listener.incoming().flatten() {
            let reaper = reaper.clone();
            let Ok(to_caller) = stream.try_clone() else {
                continue;
            };
            if let Err(error) = threads::spawn(move || serve(stream, &reaper)) {
                let outcome = Outcome::Failed(format!("{error:#}"));
                let _ = Output::new(to_caller).send(&ToHost::Ended(outcome));
            }
        }
    })?;
    Ok(())
}

/// Runs one command. Closes the connection on a malformed request.
fn serve(mut stream: TcpStream, reaper: &Reaper) -> Option<()> {
    let command: Command = receive(&mut stream).ok()??;
    let output = Output::new(stream.try_clone().ok()?);
    let outcome = command::run(&command, stream.try_clone().ok()?, &output, reaper, || ());
    output.send(&ToHost::Ended(outcome)).ok()?;
    stream.shutdown(std::net::Shutdown::Both).ok()
}
