// SPDX-License-Identifier: GPL-2.0

//! Processes and their ends.
//!
//! The first process of a machine inherits all that lose their parent, and must wait for each. So one thread waits for
//! all of them, and tells the thread that has started a process how that has ended.

use std::collections::HashMap;
use std::io;
use std::process::{Child, Command};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::wait::{waitpid, WaitStatus};

use crate::channel::job::Outcome;

#[derive(Default)]
struct State {
    /// Processes that a thread waits for, and how they have ended.
    awaited: HashMap<i32, Option<Outcome>>,
    /// Grows with each process that is started.
    started: u64,
}

/// Starts processes and waits for them.
#[derive(Default)]
pub struct Reaper {
    state: Mutex<State>,
    changed: Condvar,
}

impl Reaper {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process. The caller must then call [`Reaper::wait`].
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        // While the lock is held, the end of the process cannot be reported.
        let mut state = self.lock();
        let child = command.spawn()?;
        state.awaited.insert(child.id() as i32, None);
        state.started += 1;
        self.changed.notify_all();
        Ok(child)
    }

    /// Waits for the end of a process.
    pub fn wait(&self, child: &Child) -> Outcome {
        let mut state = self.lock();
        loop {
            match state.awaited.remove(&(child.id() as i32)) {
                Some(Some(outcome)) => return outcome,
                None => return Outcome::Failed("nobody waits for this process".into()),
                Some(None) => {
                    state.awaited.insert(child.id() as i32, None);
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Waits for all processes of the machine, for ever. One thread does this.
    pub fn run(&self) {
        loop {
            let started = self.lock().started;
            match waitpid(None, None) {
                Ok(WaitStatus::Exited(pid, code)) => {
                    self.report(pid.as_raw(), Outcome::Exited(code))
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    self.report(pid.as_raw(), Outcome::Signaled(signal as i32));
                }
                Err(Errno::ECHILD) => {
                    let state = self.lock();
                    let idle = |state: &mut State| state.started == started;
                    drop(
                        self.changed
                            .wait_while(state, idle)
                            .unwrap_or_else(PoisonError::into_inner),
                    );
                }
                _ => {}
            }
        }
    }

    fn report(&self, pid: i32, outcome: Outcome) {
        if let Some(entry) = self.lock().awaited.get_mut(&pid) {
            *entry = Some(outcome);
            self.changed.notify_all();
        }
    }
}
