// SPDX-License-Identifier: GPL-2.0

//! Threads, for which the system may have no room.

use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result};

/// Starts a thread that calls `run`.
///
/// # Errors
///
/// The caller has as many threads and processes as it may, or no memory for another stack.
pub fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    Builder::new()
        .spawn(run)
        .context("cannot start a thread; is a limit on processes reached (ulimit -u)?")
}
