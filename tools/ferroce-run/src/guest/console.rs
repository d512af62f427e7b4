// SPDX-License-Identifier: GPL-2.0

//! The machine's end of the channel: a terminal that passes bytes on as they are.

use std::fs::{File, OpenOptions};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::termios::{tcgetattr, tcsetattr, OptionalActions};

use super::files;
use crate::channel::message::{send, ToHost};

/// The device that the launcher has the other end of: a console of user-mode Linux, or a port of QEMU's.
const TERMINAL: &str = "/dev/tty1";
const PORT: &str = "/dev/vport0p1";

/// Opens it for reading and writing.
pub fn open() -> io::Result<File> {
    let mut open = OpenOptions::new();
    open.read(true).write(true);
    if !files::on_user_mode() {
        return open.open(PORT);
    }
    let terminal = open.open(TERMINAL)?;
    let mut settings = tcgetattr(&terminal)?;
    settings.make_raw();
    tcsetattr(&terminal, OptionalActions::Now, &settings)?;
    Ok(terminal)
}

/// A stream that several threads write messages to.
pub struct Output<W>(Arc<Mutex<W>>);

impl<W> Clone for Output<W> {
    fn clone(&self) -> Self {
        Output(self.0.clone())
    }
}

impl<W: io::Write> Output<W> {
    /// Messages go to `stream`.
    pub fn new(stream: W) -> Self {
        Output(Arc::new(Mutex::new(stream)))
    }

    /// Writes one message, whole.
    pub fn send(&self, message: &ToHost) -> io::Result<()> {
        send(
            &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner),
            message,
        )
    }
}
