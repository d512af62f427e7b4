// SPDX-License-Identifier: GPL-2.0

//! What all devices of the module share.
//!
//! Owns the queue pair numbers, the UDP sockets, and the count of what must be gone before the
//! module is.

use crate::{
    net::{
        demux::Demux,
        sockets::Namespaces, //
    },
    port::workqueues::Workqueues, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::sync::quiesce::LiveCount;

/// What all devices of the module share.
pub(crate) struct ModuleState {
    demux: Arc<Demux>,
    namespaces: Arc<Namespaces>,
    qps: LiveCount,
    workqueues: Arc<Workqueues>,
    uses_loopback: bool,
}

impl ModuleState {
    /// A module without devices. `uses_loopback`: see [`Port::uses_loopback`](crate::port::state::Port::hands_over).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(uses_loopback: bool) -> Result<Arc<Self>> {
        let demux = Arc::pin_init(Demux::new(), GFP_KERNEL)?;
        let namespaces = Namespaces::new(demux.clone())?;
        let qps = LiveCount::new()?;
        let workqueues = Arc::new(Workqueues::new()?, GFP_KERNEL)?;
        Ok(Arc::new(
            Self {
                demux,
                namespaces,
                qps,
                workqueues,
                uses_loopback,
            },
            GFP_KERNEL,
        )?)
    }

    /// Queue pairs by number.
    pub(crate) fn demux(&self) -> &Arc<Demux> {
        &self.demux
    }

    /// The UDP sockets.
    pub(crate) fn namespaces(&self) -> &Arc<Namespaces> {
        &self.namespaces
    }

    /// The work queues.
    pub(crate) fn workqueues(&self) -> &Arc<Workqueues> {
        &self.workqueues
    }

    /// Whether packets to peers on this machine are handed over.
    pub(crate) fn uses_loopback(&self) -> bool {
        self.uses_loopback
    }

    /// Queue pairs that still exist, whether or not anybody can reach them.
    pub(crate) fn qps(&self) -> &LiveCount {
        &self.qps
    }
}
