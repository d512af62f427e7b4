// SPDX-License-Identifier: GPL-2.0

//! Congestion control in the engines: CNPs that answer marked packets. The algorithms are in [`roce::congestion`].
//!
//! The flow of an ECN mark:
//!
//! 1. `rx` finds the mark of a received packet, or the inbox of the QP is full. [`QpShared::note_congestion`].
//! 2. The engine that received it calls [`notify_peer`], which sends a CNP.
//! 3. The receive engine of the peer receives the CNP, and [`on_cnp`] counts it. The next run of each engine finds the
//!    count changed, and reduces the rate of its [`Sender`](roce::congestion::Sender), if it has one.

use crate::{
    packet::path::Path,
    port::counters::Counter,
    qp::{
        run::QpRun,
        shared::QpShared, //
    }, //
};
use rdma::sync::timer::now;
use roce::time::Instant;

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
