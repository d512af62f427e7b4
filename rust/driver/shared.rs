// SPDX-License-Identifier: GPL-2.0

//! What all devices of the module share.
//!
//! Owns the queue pair numbers, the UDP sockets, and the count of what must be gone before the
//! module is.

use crate::{
    demux::Demux,
    sockets::Namespaces, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    net::netns::{
        NamespaceExit,
        NetId, //
    },
    sleep::SleepQueue,
    wait::Population, //
};

/// What all devices of the module share.
pub(crate) struct Shared {
    demux: Arc<Demux>,
    namespaces: Arc<Namespaces>,
    qps: Population,
    pages: Arc<SleepQueue>,
}

impl Shared {
    /// A module without devices.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let demux = Arc::pin_init(Demux::new(), GFP_KERNEL)?;
        let namespaces = Namespaces::new(demux.clone())?;
        let qps = Population::new()?;
        let pages = Arc::new(SleepQueue::new(c"ferroce_pages")?, GFP_KERNEL)?;
        Ok(Arc::new(
            Self {
                demux,
                namespaces,
                qps,
                pages,
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

    /// Where memory on demand is brought.
    pub(crate) fn pages(&self) -> &Arc<SleepQueue> {
        &self.pages
    }

    /// Queue pairs that still exist, whether or not anybody can reach them.
    pub(crate) fn qps(&self) -> &Population {
        &self.qps
    }
}

impl NamespaceExit for Shared {
    fn namespace_exit(&self, net: NetId) {
        self.namespaces.gone(net);
    }
}
