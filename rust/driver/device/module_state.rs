// SPDX-License-Identifier: GPL-2.0

//! State that all devices of the module share.
//!
//! Created at module load, and freed when module unload has waited for the last QP. Its members do their own locking.

use crate::{
    device::moves::Moves,
    net::{
        demux::Demux,
        sockets::Namespaces, //
    },
    port::{
        state::PortSettings,
        workqueues::Workqueues, //
    }, //
};
use kernel::{
    debugfs,
    prelude::*,
    sync::Arc, //
};
use rdma::{
    net::tx::page_pool::PagePool,
    sync::quiesce::LiveCount, //
};

/// State that all devices of the module share.
pub(crate) struct ModuleState {
    demux: Arc<Demux>,
    namespaces: Arc<Namespaces>,
    qps: LiveCount,
    workqueues: Arc<Workqueues>,
    page_pool: Arc<PagePool>,
    port_settings: PortSettings,
    debugfs: debugfs::Dir,
    moves: Arc<Moves>,
}

impl ModuleState {
    /// Creates the state, without devices. `port_settings`: of all ports.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(port_settings: PortSettings) -> Result<Arc<Self>> {
        let demux = Arc::pin_init(Demux::new(), GFP_KERNEL)?;
        let namespaces = Namespaces::new(demux.clone())?;
        let qps = LiveCount::new()?;
        let workqueues = Arc::new(Workqueues::new()?, GFP_KERNEL)?;
        let page_pool = Arc::new(PagePool::new()?, GFP_KERNEL)?;
        Ok(Arc::new(
            Self {
                demux,
                namespaces,
                qps,
                workqueues,
                page_pool,
                port_settings,
                debugfs: debugfs::Dir::new(c"ferroce"),
                moves: Moves::new()?,
            },
            GFP_KERNEL,
        )?)
    }

    /// Returns the demux, which has all QPs by number.
    pub(crate) fn demux(&self) -> &Arc<Demux> {
        &self.demux
    }

    /// Returns the UDP sockets of all namespaces.
    pub(crate) fn namespaces(&self) -> &Arc<Namespaces> {
        &self.namespaces
    }

    /// Returns the work queues.
    pub(crate) fn workqueues(&self) -> &Arc<Workqueues> {
        &self.workqueues
    }

    /// Returns the pages for super-packets.
    pub(crate) fn page_pool(&self) -> &Arc<PagePool> {
        &self.page_pool
    }

    /// Returns the directory of the module in debugfs.
    pub(crate) fn debugfs(&self) -> &debugfs::Dir {
        &self.debugfs
    }

    /// Returns the devices that follow their interfaces.
    pub(crate) fn moves(&self) -> &Moves {
        &self.moves
    }

    /// Returns the settings of all ports.
    pub(crate) fn port_settings(&self) -> PortSettings {
        self.port_settings
    }

    /// Returns the live count of QPs and of objects that module unload must wait for, including those that are no
    /// longer reachable.
    pub(crate) fn qps(&self) -> &LiveCount {
        &self.qps
    }
}
