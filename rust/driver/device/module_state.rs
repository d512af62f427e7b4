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
    port::workqueues::Threads, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::sync::quiesce::Population;

/// What all devices of the module share.
pub(crate) struct Shared {
    demux: Arc<Demux>,
    namespaces: Arc<Namespaces>,
    qps: Population,
    threads: Arc<Threads>,
    hands_over: bool,
}

impl Shared {
    /// A module without devices. `hands_over`: see [`Port::hands_over`](crate::port::state::Port::hands_over).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(hands_over: bool) -> Result<Arc<Self>> {
        let demux = Arc::pin_init(Demux::new(), GFP_KERNEL)?;
        let namespaces = Namespaces::new(demux.clone())?;
        let qps = Population::new()?;
        let threads = Arc::new(Threads::new()?, GFP_KERNEL)?;
        Ok(Arc::new(
            Self {
                demux,
                namespaces,
                qps,
                threads,
                hands_over,
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
    pub(crate) fn threads(&self) -> &Arc<Threads> {
        &self.threads
    }

    /// Whether packets to peers on this machine are handed over.
    pub(crate) fn hands_over(&self) -> bool {
        self.hands_over
    }

    /// Queue pairs that still exist, whether or not anybody can reach them.
    pub(crate) fn qps(&self) -> &Population {
        &self.qps
    }
}
