// SPDX-License-Identifier: GPL-2.0

//! Threads, for which the system may have no room.

use std::fmt;
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result};

/// The caller has as many threads and processes as it may, or no memory for another stack. No other engine helps.
#[derive(Debug)]
pub struct NoThread;

impl fmt::Display for NoThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot start a thread (see ulimit -u, and limits of the container)")
    }
}

/// Starts a thread that calls `run`.
///
/// # Errors
///
/// [`NoThread`].
pub fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    Builder::new().spawn(run).context(NoThread)
}
