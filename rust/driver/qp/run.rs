// SPDX-License-Identifier: GPL-2.0

//! What one run of an engine works with: the shared state of its QP, and the memory that the QP can access.

use crate::{
    mem::{
        key_table::KeyReader,
        pd::Pd,
        sg_access::QpMemory, //
    },
    packet::path::TxContext,
    port::counters::EngineTraffic,
    qp::{
        shared::QpShared,
        wakes::EngineWake, //
    },
    queue::{
        srq::Srq,
        xrcd::Xrcd, //
    }, //
};
use core::ops::Deref;
use kernel::sync::Arc;
use rdma::sync::read_section::ReadSection;
use roce::{
    id::Srqn,
    segmentation::tx_desc::TxPayload,
    wake::NextWake, //
};

/// The QP of a running engine. The run is one section, and a key that many packets name is looked up once.
pub(crate) struct QpRun<'a> {
    shared: &'a QpShared,
    traffic: &'a EngineTraffic,
    next_wake: &'a EngineWake,
    had_failed: bool,
    keys: KeyReader<'a>,
}

impl<'a> QpRun<'a> {
    /// Begins a run of the send engine.
    #[inline]
    pub(crate) fn of_sender(shared: &'a QpShared, guard: &'a ReadSection) -> Self {
        let (traffic, wakes) = (shared.traffic(), shared.wakes());
        Self::new(shared, (&traffic.sender, &wakes.sender), guard)
    }

    /// Begins a run of the receive engine.
    #[inline]
    pub(crate) fn of_receiver(shared: &'a QpShared, guard: &'a ReadSection) -> Self {
        let (traffic, wakes) = (shared.traffic(), shared.wakes());
        Self::new(shared, (&traffic.receiver, &wakes.receiver), guard)
    }

    #[inline]
    fn new(
        shared: &'a QpShared,
        (traffic, next_wake): (&'a EngineTraffic, &'a EngineWake),
        guard: &'a ReadSection,
    ) -> Self {
        Self {
            shared,
            traffic,
            next_wake,
            had_failed: shared.is_failed(),
            keys: shared.port().keys().reader(guard),
        }
    }

    /// Returns whether the QP had failed when the run began. It may fail meanwhile: what a run does in the error state
    /// must not begin in the middle of it, when requests were processed already.
    #[inline]
    pub(crate) fn had_failed(&self) -> bool {
        self.had_failed
    }

    /// Stores when the engine runs next, at the end of the run.
    #[inline]
    pub(crate) fn set_next_wake(&self, wake: NextWake) {
        self.next_wake.set(wake);
    }

    /// Returns the section, which lasts for the run.
    #[inline]
    pub(crate) fn guard(&self) -> &'a ReadSection {
        self.keys.guard()
    }

    /// Returns what packets are sent through and counted in.
    #[inline]
    pub(crate) fn tx(&self) -> TxContext<'_> {
        TxContext {
            port: self.shared.port(),
            traffic: self.traffic,
        }
    }

    /// Counts received packets and bytes of UDP payload, for the QP and its port.
    #[inline]
    pub(crate) fn count_received(&self, packets: u16, bytes: usize) {
        self.shared.port().counters().received(packets, bytes);
        self.traffic.received(packets, bytes);
    }

    /// Returns the memory that the QP can access.
    #[inline]
    pub(crate) fn memory(&self) -> QpMemory<'_, 'a> {
        self.recv_memory(None)
    }

    /// Returns the SRQ with this number in the XRC domain. `None`: there is no such.
    pub(crate) fn srq(&self, xrcd: &Arc<Xrcd>, srqn: Srqn) -> Option<&Srq> {
        let found = self.port().xrc_srqs().get(srqn.get(), self.guard());
        found.filter(|srq| srq.is_in(xrcd))
    }

    /// Returns the memory that the payload of a response is in. `xrcd`: the domain of a target QP. If the SRQ is no
    /// more, it is the memory of the PD of target QPs: none.
    pub(crate) fn response_memory(
        &self,
        xrcd: Option<&Arc<Xrcd>>,
        source: TxPayload,
    ) -> QpMemory<'_, 'a> {
        let srq = match (xrcd, source) {
            (Some(xrcd), TxPayload::Remote(_, srqn)) => self.srq(xrcd, srqn),
            _ => None,
        };
        self.recv_memory(srq.map(Srq::pd))
    }

    /// Returns the memory that receives of `pd` can access; `None` means the PD of the QP. An SRQ may have
    /// another PD.
    #[inline]
    pub(crate) fn recv_memory<'s>(&'s self, pd: Option<&'s Arc<Pd>>) -> QpMemory<'s, 'a> {
        QpMemory {
            keys: &self.keys,
            pd: pd.unwrap_or(self.shared.pd()),
            identity: self.shared.identity(),
        }
    }
}

impl Deref for QpRun<'_> {
    type Target = QpShared;

    #[inline]
    fn deref(&self) -> &QpShared {
        self.shared
    }
}
