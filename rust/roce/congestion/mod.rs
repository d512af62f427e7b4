// SPDX-License-Identifier: GPL-2.0

//! Congestion control of a connection: how many packets may be in flight, and how fast they leave.
//!
//! A [`Sender`] is told of events (packets sent, ACKs, losses, timeouts, CNPs) and says how many packets may be in
//! flight, and how many bytes may leave now. The requester of an RC QP has one, and each engine whose protocol has no
//! window. It has two parts: `window` limits packets in flight; [`dcqcn`] adds a rate, which CNPs reduce and
//! [`pacer`] enforces. [`notification`] is the other end: when a receiver sends CNPs. `rtt` scales the window to the
//! distance of the peer. None of them knows packets or requests. Another algorithm is another file here, and a part of
//! [`Sender`].
//!
//! May use [`psn`](crate::psn), [`time`](crate::time) and [`segmentation`](crate::segmentation).

pub mod dcqcn;
pub mod notification;
pub mod pacer;
pub(crate) mod rtt;
pub(crate) mod window;

use crate::{
    segmentation::tx_desc::BurstLimit,
    time::Instant, //
};
use dcqcn::{
    Dcqcn,
    DcqcnConfig, //
};
use pacer::Rate;
use window::CongestionWindow;

/// Which algorithm a QP uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Algorithm {
    /// The congestion window alone.
    Window,
    /// The congestion window, and the rate of DCQCN.
    Dcqcn(DcqcnConfig),
}

/// The congestion control of one sender. The rate reacts to CNPs, the window to losses.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    window: CongestionWindow,
    /// `None`: it is unlimited.
    rate: Option<Dcqcn>,
}

impl Sender {
    /// That of a sender that does not send.
    pub const NONE: Self = Self {
        window: CongestionWindow::with_initial(0),
        rate: None,
    };

    /// Starts with a window of `initial` packets, which does not matter to a sender without one.
    #[must_use]
    pub const fn new(algorithm: Algorithm, initial: u32) -> Self {
        Self {
            window: CongestionWindow::with_initial(initial),
            rate: match algorithm {
                Algorithm::Window => None,
                Algorithm::Dcqcn(config) => Some(Dcqcn::new(config)),
            },
        }
    }

    // The window.

    /// Returns how many of `limit` packets may be in flight.
    #[inline]
    pub(crate) fn limited_to(&self, limit: u32) -> u32 {
        self.window.limited_to(limit)
    }

    /// `packets` more packets are acknowledged.
    #[inline]
    pub(crate) fn on_ack(&mut self, packets: u32) {
        self.window.on_ack(packets);
    }

    /// All packets in flight are retransmitted; the window was limited to `limit` packets.
    pub(crate) fn on_loss(&mut self, limit: u32) {
        self.window.on_loss(limit);
    }

    /// The retransmission followed an ACK timeout. Called after [`Self::on_loss`].
    pub(crate) fn on_timeout(&mut self) {
        self.window.on_timeout();
    }

    /// Returns whether an ACK timeout has expired since the start.
    #[inline]
    pub(crate) fn has_timed_out(&self) -> bool {
        self.window.has_timed_out()
    }

    // The rate.

    /// The peer has sent a CNP.
    pub fn on_cnp(&mut self, now: Instant) {
        if let Some(rate) = &mut self.rate {
            rate.on_cnp(now);
        }
    }

    /// Returns whether the rate is below that of the link, so that time matters.
    #[inline]
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.rate.as_ref().is_some_and(Dcqcn::is_limited)
    }

    /// Returns how much of `limit` may be sent at `now`.
    #[inline]
    pub fn burst_limit(&mut self, now: Instant, limit: BurstLimit) -> BurstLimit {
        match &mut self.rate {
            Some(rate) => rate.burst_limit(now, limit),
            None => limit,
        }
    }

    /// Packets with `bytes` bytes of payload in all were sent at `now`.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, packets: u32, bytes: u32) {
        if let Some(rate) = &mut self.rate {
            rate.on_sent(now, packets, bytes);
        }
    }

    /// The last `packets` packets were not sent after all.
    pub(crate) fn on_unsent(&mut self, packets: u32, bytes: u32) {
        if let Some(rate) = &mut self.rate {
            rate.on_unsent(packets, bytes);
        }
    }

    /// Returns the rate. `None`: it is unlimited.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.rate.as_ref()?.rate()
    }

    /// Returns when packets may be sent again, if the rate holds them back.
    #[inline]
    #[must_use]
    pub fn paused_until(&self) -> Option<Instant> {
        self.rate.as_ref()?.paused_until()
    }

    /// Ends the pause that is over at `now`. Returns whether there was one.
    #[inline]
    pub fn on_time(&mut self, now: Instant) -> bool {
        self.rate.as_mut().is_some_and(|rate| rate.on_time(now))
    }
}
