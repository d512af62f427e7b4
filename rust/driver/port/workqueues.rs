// SPDX-License-Identifier: GPL-2.0

//! Work queues of the module, for work in process context.
//!
//! The module has its own queues, because items may run for long and because dropping a queue waits for its items.

use kernel::prelude::*;
use rdma::sync::workqueue::Workqueue;

/// The work queues of the module. They outlive every port.
pub(crate) struct Workqueues {
    /// Page faults, flushes and prefetches. An item runs for as long as the fault takes.
    pub(crate) page_faults: Workqueue,
    /// High-priority queue whose items re-queue a receive engine after threads and other softirqs ran.
    pub(crate) yields: Workqueue,
}

impl Workqueues {
    /// Creates both queues.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            page_faults: Workqueue::new(c"ferroce_faults")?,
            yields: Workqueue::highpri(c"ferroce_yield")?,
        })
    }
}
