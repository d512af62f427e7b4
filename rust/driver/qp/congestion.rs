// SPDX-License-Identifier: GPL-2.0

//! Congestion control in the engines: CNPs that answer marked packets, and the rate of engines whose protocol state
//! machine has no clock.
//!
//! The flow of an ECN mark:
//!
//! 1. `rx` finds the mark of a received packet, or the inbox of the QP is full. [`QpShared::note_congestion`].
//! 2. The engine that received it calls [`notify_peer`], which sends a CNP.
//! 3. The receive engine of the peer receives the CNP, and [`on_cnp`] counts it. Each engine of the QP that sends finds
//!    the count changed, and reduces its rate: the requester of an RC QP itself, the others by [`TxRate`].

use crate::{
    packet::path::Path,
    port::counters::Counter,
    qp::{
        run::QpRun,
        shared::QpShared, //
    }, //
};
use kernel::prelude::*;
use rdma::sync::timer::now;
use roce::{
    congestion::{
        dcqcn::Dcqcn,
        Algorithm, //
    },
    segmentation::tx_desc::BurstLimit,
    time::Instant, //
};

/// Sends a CNP to the peer if packets have met congestion since the last call, unless another was sent a moment ago.
/// Called by both engines after they have processed their inbox.
#[inline]
pub(crate) fn notify_peer(qp: &QpRun<'_>, path: Option<&mut Path>) {
    if qp.has_congestion() {
        send_cnp(qp, path);
    }
}

#[cold]
fn send_cnp(qp: &QpRun<'_>, path: Option<&mut Path>) {
    let settings = qp.port().congestion();
    let due = qp.take_congestion(settings.cnp_interval(), Instant::from_nanos(now()));
    if let (true, true, Some(path)) = (due, settings.dcqcn, path) {
        path.send_cnp(qp.tx(), settings.cnp_traffic_class());
        qp.port().counters().count(Counter::SentCnps);
    }
}

/// Counts a valid CNP of the peer. Both engines reduce their rates when they send next.
#[cold]
pub(crate) fn on_cnp(qp: &QpShared) {
    qp.count_cnp();
    qp.port().counters().count(Counter::HandledCnps);
}

/// The rate at which an engine sends. CNPs reduce it.
pub(crate) struct TxRate {
    /// `None`: there is no rate.
    rate: Option<KBox<Dcqcn>>,
    /// The CNPs of the QP that the rate has reacted to.
    handled_cnps: u32,
}

impl TxRate {
    /// There is no rate.
    pub(crate) const UNLIMITED: Self = Self {
        rate: None,
        handled_cnps: 0,
    };

    /// Creates the rate of an engine of `qp` that starts to send. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(qp: &QpShared) -> Result<Self> {
        let rate = match qp.port().congestion_algorithm() {
            Algorithm::Window => None,
            Algorithm::Dcqcn(config) => Some(KBox::new(Dcqcn::new(config), GFP_KERNEL_ACCOUNT)?),
        };
        Ok(Self {
            rate,
            handled_cnps: qp.cnps(),
        })
    }

    /// Returns how much of `limit` may be sent now.
    ///
    /// # Errors
    ///
    /// The time in nanoseconds before which nothing may be sent.
    #[inline]
    pub(crate) fn burst_limit(
        &mut self,
        qp: &QpShared,
        limit: BurstLimit,
    ) -> Result<BurstLimit, u64> {
        match &mut self.rate {
            Some(rate) if rate.is_limited() || self.handled_cnps != qp.cnps() => {
                limited_burst(rate, &mut self.handled_cnps, (qp, limit))
            }
            _ => Ok(limit),
        }
    }

    /// Packets with `bytes` bytes of payload in all were sent.
    #[inline]
    pub(crate) fn on_sent(&mut self, packets: u32, bytes: u32) {
        if let Some(rate) = self.rate.as_mut().filter(|rate| rate.is_limited()) {
            rate.on_sent(Instant::from_nanos(now()), packets, bytes);
        }
    }
}

#[cold]
fn limited_burst(
    rate: &mut Dcqcn,
    handled_cnps: &mut u32,
    (qp, limit): (&QpShared, BurstLimit),
) -> Result<BurstLimit, u64> {
    let now = Instant::from_nanos(now());
    if core::mem::replace(handled_cnps, qp.cnps()) != qp.cnps() {
        rate.on_cnp(now);
    }
    rate.on_time(now);
    let limit = rate.burst_limit(now, limit);
    match (limit.packets, rate.paused_until()) {
        (0, Some(until)) => Err(until.as_nanos()),
        _ => Ok(limit),
    }
}
