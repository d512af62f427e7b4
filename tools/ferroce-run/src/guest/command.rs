// SPDX-License-Identifier: GPL-2.0

//! A command and its standard streams, at the end of a stream of messages.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use nix::sys::signal::{kill, killpg, Signal};
use nix::unistd::Pid;
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use rustix::termios::{tcsetwinsize, Winsize};

use super::console::Output;
use super::exec;
use super::reaper::Reaper;
use crate::channel::job::{Command, Outcome, Window};
use crate::channel::message::{receive, ToGuest, ToHost};
use crate::threads;

/// Most of the output of a command that is sent in one message.
const PIECE_BYTES: usize = 32 << 10;

/// What a terminal takes for the end of input.
const END_OF_INPUT: &[u8] = &[4];

/// A stream that the command writes to, and the message that takes its bytes to the launcher.
type Outlet = (File, fn(Vec<u8>) -> ToHost);

/// The command's streams, as seen from here.
struct Streams {
    stdin: File,
    outputs: Vec<Outlet>,
    terminal: Option<OwnedFd>,
}

/// Runs `command` to its end. Its input and signals come from `input`, until that ends; its output goes to `output`,
/// and then [`ToHost::Ended`] remains to be sent. Calls `before_end` when the process has ended, but its output may
/// not have.
pub fn run<R, W>(
    command: &Command,
    input: R,
    output: &Output<W>,
    reaper: &Reaper,
    before_end: impl FnOnce(),
) -> Outcome
where
    R: Read + Send + 'static,
    W: Write + Send + 'static,
{
    let (child, streams) = match start(command, reaper) {
        Ok(started) => started,
        Err(error) => return Outcome::Failed(format!("{error:#}")),
    };
    let pid = Pid::from_raw(child.id() as i32);
    let pumps = attend(streams, pid, input, output);
    if pumps.is_err() {
        // It may not have made its process group yet.
        let _ = kill(pid, Signal::SIGKILL);
        let _ = killpg(pid, Signal::SIGKILL);
    }
    let outcome = reaper.wait(&child);
    before_end();
    match pumps {
        Ok(pumps) => {
            for pump in pumps {
                let _ = pump.join();
            }
            outcome
        }
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// Starts the threads for a command's streams. Returns those that end with its output.
fn attend<R, W>(
    streams: Streams,
    pid: Pid,
    input: R,
    output: &Output<W>,
) -> Result<Vec<JoinHandle<()>>>
where
    R: Read + Send + 'static,
    W: Write + Send + 'static,
{
    let pumps = streams
        .outputs
        .into_iter()
        .map(|(stream, message)| pump(stream, message, output.clone()))
        .collect::<Result<_>>()?;
    let (sender, receiver) = mpsc::channel();
    feed(
        streams.stdin,
        streams.terminal.is_some(),
        receiver,
        output.clone(),
    )?;
    threads::spawn(move || obey(input, pid, streams.terminal, sender))?;
    Ok(pumps)
}

fn start(command: &Command, reaper: &Reaper) -> Result<(Child, Streams)> {
    match command.window {
        None => start_with_pipes(command, reaper),
        Some(window) => start_with_terminal(command, window, reaper),
    }
}

fn start_with_pipes(command: &Command, reaper: &Reaper) -> Result<(Child, Streams)> {
    let mut child = reaper
        .spawn(&mut exec::prepare(command, false))
        .context("cannot start a process")?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        anyhow::bail!("a process without pipes");
    };
    let outputs: Vec<Outlet> = vec![
        (OwnedFd::from(stdout).into(), ToHost::Stdout),
        (OwnedFd::from(stderr).into(), ToHost::Stderr),
    ];
    Ok((
        child,
        Streams {
            stdin: OwnedFd::from(stdin).into(),
            outputs,
            terminal: None,
        },
    ))
}

fn start_with_terminal(
    command: &Command,
    window: Window,
    reaper: &Reaper,
) -> Result<(Child, Streams)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .context("no terminal")?;
    grantpt(&master)?;
    unlockpt(&master)?;
    set_window(&master, window);
    let path = ptsname(&master, Vec::new())?;
    let slave = File::options()
        .read(true)
        .write(true)
        .open(path.to_str()?)
        .context("no terminal")?;
    let mut process = exec::prepare(command, true);
    process
        .stdin(slave.try_clone()?)
        .stdout(slave.try_clone()?)
        .stderr(Stdio::from(slave));
    let child = reaper
        .spawn(&mut process)
        .context("cannot start a process")?;
    drop(process);
    let outputs: Vec<Outlet> = vec![(master.try_clone()?.into(), ToHost::Stdout)];
    Ok((
        child,
        Streams {
            stdin: master.try_clone()?.into(),
            outputs,
            terminal: Some(master),
        },
    ))
}

fn set_window(terminal: &OwnedFd, window: Window) {
    let size = Winsize {
        ws_row: window.rows,
        ws_col: window.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // A terminal of unknown size is a nuisance, but not an error.
    let _ = tcsetwinsize(terminal, size);
}

/// Sends what comes out of `stream`, until its other end is closed.
fn pump<W: Write + Send + 'static>(
    mut stream: File,
    message: fn(Vec<u8>) -> ToHost,
    output: Output<W>,
) -> Result<JoinHandle<()>> {
    threads::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        // The terminal of a process that has ended reads as an error.
        while let Ok(length @ 1..) = stream.read(&mut piece) {
            if output.send(&message(piece[..length].to_vec())).is_err() {
                return;
            }
        }
    })
}

/// Passes input on, and says when it has been taken. The command may never read, so this is a thread of its own.
fn feed<W: Write + Send + 'static>(
    mut stdin: File,
    terminal: bool,
    receiver: mpsc::Receiver<Vec<u8>>,
    output: Output<W>,
) -> Result<()> {
    threads::spawn(move || {
        for bytes in receiver {
            // A command that has closed its input is not interested; the rest is thrown away.
            let _ = stdin.write_all(&bytes);
            let _ = output.send(&ToHost::StdinTaken(bytes.len() as u64));
        }
        if terminal {
            let _ = stdin.write_all(END_OF_INPUT);
        }
    })?;
    Ok(())
}

/// Does what the messages say, until there are no more.
fn obey(mut input: impl Read, pid: Pid, terminal: Option<OwnedFd>, stdin: mpsc::Sender<Vec<u8>>) {
    let mut stdin = Some(stdin);
    while let Ok(Some(message)) = receive(&mut input) {
        match message {
            ToGuest::Stdin(bytes) => {
                if let Some(stdin) = &stdin {
                    let _ = stdin.send(bytes);
                }
            }
            ToGuest::StdinEnd => stdin = None,
            ToGuest::Signal(number) => {
                if let Ok(signal) = Signal::try_from(number) {
                    let _ = killpg(pid, signal);
                }
            }
            ToGuest::Window(window) => {
                if let Some(terminal) = &terminal {
                    set_window(terminal, window);
                }
            }
            ToGuest::Job { .. } | ToGuest::Start => {}
        }
    }
    // The caller has gone, and the command with it.
    let _ = killpg(pid, Signal::SIGHUP);
}
