// SPDX-License-Identifier: GPL-2.0

//! The caller's standard input and terminal.

use std::io::{self, IsTerminal};
use std::os::unix::net::UnixStream;
use std::sync::{mpsc, Arc, Mutex, PoisonError};

use anyhow::Result;
use rustix::termios::{tcgetattr, tcgetwinsize, tcsetattr, OptionalActions, Termios};

use crate::channel::job::Window;
use crate::channel::message::send;
use crate::channel::stdin;
use crate::threads;

/// Reads standard input for a machine. `taken` tells how many bytes the command has been given.
pub fn forward(channel: Arc<Mutex<UnixStream>>, taken: mpsc::Receiver<u64>) -> Result<()> {
    threads::spawn(move || {
        stdin::forward(&taken, |message| {
            send(
                &mut *channel.lock().unwrap_or_else(PoisonError::into_inner),
                &message,
            )
        })
    })?;
    Ok(())
}

/// The caller's terminal, in the state in which each key goes to the command. It is as before when this is dropped.
pub struct RawTerminal(Termios);

impl RawTerminal {
    /// Takes it over, if the caller sits at one.
    pub fn take() -> Option<RawTerminal> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return None;
        }
        let before = tcgetattr(rustix::stdio::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &raw).ok()?;
        Some(RawTerminal(before))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// The size of the caller's terminal.
pub fn window() -> Option<Window> {
    let size = tcgetwinsize(rustix::stdio::stdin()).ok()?;
    Some(Window {
        rows: size.ws_row,
        columns: size.ws_col,
    })
}
