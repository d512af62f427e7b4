// SPDX-License-Identifier: GPL-2.0

//! Where work is done that is not for a softirq.
//!
//! Owns the work queues of the module. They are its own, so that nothing of it runs any more when they are gone.

use kernel::prelude::*;
use rdma::sync::workqueue::Workqueue;

/// The work queues of the module, which holds them for longer than any port.
pub(crate) struct Workqueues {
    /// Memory on demand is brought here.
    pub(crate) pages: Workqueue,
    /// Turns that would keep others from running for long go on when this one has run.
    pub(crate) turns: Workqueue,
}

impl Workqueues {
    /// Both.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            pages: Workqueue::new(c"ferroce_pages")?,
            turns: Workqueue::highpri(c"ferroce_turns")?,
        })
    }
}
