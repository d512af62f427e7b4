// SPDX-License-Identifier: GPL-2.0

//! A machine, seen from outside: a process, its channel, and what its kernel says.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use nix::fcntl::{fcntl, FcntlArg, FdFlag};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{getppid, pipe};

use super::engine::Launch;
use crate::threads;

/// The argument by which this program knows that it is to become a machine.
pub const BECOME_MACHINE: &str = "become-machine";

/// Lines of the kernel's log that are remembered.
const LINES: usize = 200;

/// Lines of it that are shown when the kernel has died.
const SHOWN: usize = 25;

/// A running machine. It ends when this is dropped, or when this process does.
pub struct Machine {
    process: Child,
    log: Arc<Mutex<VecDeque<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Machine {
    /// Starts one. The log of its kernel also goes to `dmesg`.
    pub fn start(launch: Launch, dmesg: Option<File>) -> Result<Machine> {
        let (console, console_end) = pipe()?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(BECOME_MACHINE)
            .arg(std::process::id().to_string())
            .arg(&launch.program)
            .args(&launch.arguments)
            // A user-mode kernel that has no variable at all loses its first process.
            .env_clear()
            .env("HOME", "/")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(console_end.try_clone()?)
            .stderr(console_end);
        // Only this process is given these; it is started before anything else can be.
        for descriptor in &launch.descriptors {
            fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        let log = Arc::new(Mutex::new(VecDeque::new()));
        // Before the process, which would run on if there were no thread. It ends with the console.
        let reader = threads::spawn({
            let log = log.clone();
            move || read_log(console, &log, dmesg)
        })?;
        let process = command.spawn().context("cannot start a process")?;
        drop((command, launch));
        Ok(Machine {
            process,
            log,
            reader: Some(reader),
        })
    }

    /// Ends the machine, and says how it had ended if it had already.
    pub fn stop(&mut self) -> Option<String> {
        let ended = self.process.try_wait().ok().flatten();
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        ended.map(|status| match (status.code(), status.signal()) {
            (Some(code), _) => format!("it ended with code {code}"),
            (_, Some(signal)) => format!("it was ended by signal {signal}"),
            _ => "it ended".into(),
        })
    }

    /// The last lines of the kernel's log, from the first that tells of a fault if there is one.
    pub fn last_words(&self) -> Vec<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = |line: &String| {
            ["Oops", "BUG", "WARNING", "Kernel panic"]
                .iter()
                .any(|word| line.contains(word))
        };
        let start = log
            .iter()
            .position(fault)
            .unwrap_or(log.len().saturating_sub(SHOWN));
        log.iter().skip(start).take(SHOWN).cloned().collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop();
    }
}

fn read_log(console: OwnedFd, log: &Mutex<VecDeque<String>>, mut dmesg: Option<File>) {
    let mut reader = BufReader::new(File::from(console));
    let mut line = Vec::new();
    while let Ok(1..) = reader.read_until(b'\n', &mut line) {
        if let Some(dmesg) = &mut dmesg {
            // The log is not worth ending a run for.
            let _ = dmesg.write_all(&line);
        }
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() == LINES {
            log.pop_front();
        }
        log.push_back(String::from_utf8_lossy(&line).trim_end().into());
        line.clear();
    }
}

/// Becomes the program that the arguments name, which ends with the process that wants it. Returns why it could not.
pub fn become_machine(arguments: &[OsString]) -> String {
    let [parent, program, rest @ ..] = arguments else {
        return "no program".into();
    };
    if let Err(error) = set_pdeathsig(Signal::SIGKILL) {
        return format!("prctl: {error}");
    }
    if parent.to_str() != Some(&getppid().to_string()) {
        return "the caller has gone".into();
    }
    let error = Command::new(program).args(rest).exec();
    format!("cannot execute {}: {error}", Path::new(program).display())
}
