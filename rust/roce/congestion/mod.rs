// SPDX-License-Identifier: GPL-2.0

//! Congestion control of a connection: how many packets may be in flight, and how fast they leave.
//!
//! The requester reports events to a [`CongestionControl`] (packets sent, ACKs, losses, timeouts, CNPs, congestion of
//! the local stack) and asks it for the window and for the bytes that may leave now. There are two:
//! [`window`] limits packets in flight; [`dcqcn`] adds a rate, which CNPs reduce and [`pacer`] enforces.
//! [`Controller`] is the one that a QP uses. [`notification`] is the other end: when a receiver sends CNPs. [`rtt`]
//! scales the window to the distance of the peer. None of them knows packets or requests. Another algorithm is another
//! file here.
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

/// A congestion control algorithm of one connection.
///
/// The methods about the rate have defaults for an algorithm that has none.
pub(crate) trait CongestionControl {
    /// Returns how many of `limit` packets may be in flight.
    fn limited_to(&self, limit: u32) -> u32;

    /// `packets` more packets are acknowledged.
    fn on_ack(&mut self, packets: u32);

    /// All packets in flight are retransmitted; the window was limited to `limit` packets.
    fn on_loss(&mut self, limit: u32);

    /// The retransmission followed an ACK timeout. Called after [`Self::on_loss`].
    fn on_timeout(&mut self);

    /// Returns whether an ACK timeout has expired since the start.
    fn has_timed_out(&self) -> bool;

    /// The peer has sent a CNP.
    fn on_cnp(&mut self, _now: Instant) {}

    /// Returns how much of `limit` may be sent at `now`.
    #[inline]
    fn burst_limit(&mut self, _now: Instant, limit: BurstLimit) -> BurstLimit {
        limit
    }

    /// Packets with `bytes` bytes of payload in all were sent at `now`.
    #[inline]
    fn on_sent(&mut self, _now: Instant, _packets: u32, _bytes: u32) {}

    /// The last `packets` packets were not sent after all.
    fn on_unsent(&mut self, _packets: u32, _bytes: u32) {}

    /// Returns the rate. `None`: it is unlimited.
    fn rate(&self) -> Option<Rate> {
        None
    }

    /// Returns when packets may be sent again, if the rate holds them back.
    #[inline]
    fn paused_until(&self) -> Option<Instant> {
        None
    }

    /// Ends the pause that is over at `now`. Returns whether there was one.
    #[inline]
    fn on_time(&mut self, _now: Instant) -> bool {
        false
    }
}

/// Which algorithm a QP uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Algorithm {
    /// The congestion window alone.
    Window,
    /// The congestion window, and the rate of DCQCN.
    Dcqcn(DcqcnConfig),
}

/// The congestion control of a QP.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Controller {
    /// The congestion window alone.
    Window(CongestionWindow),
    /// Window and rate.
    Dcqcn(WindowAndRate),
}

/// The congestion window and the rate of DCQCN. The rate reacts to CNPs, the window to losses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowAndRate {
    window: CongestionWindow,
    rate: Dcqcn,
}

impl CongestionControl for WindowAndRate {
    #[inline]
    fn limited_to(&self, limit: u32) -> u32 {
        self.window.limited_to(limit)
    }

    #[inline]
    fn on_ack(&mut self, packets: u32) {
        self.window.on_ack(packets);
    }

    fn on_loss(&mut self, limit: u32) {
        self.window.on_loss(limit);
    }

    fn on_timeout(&mut self) {
        self.window.on_timeout();
    }

    #[inline]
    fn has_timed_out(&self) -> bool {
        self.window.has_timed_out()
    }

    fn on_cnp(&mut self, now: Instant) {
        self.rate.on_cnp(now);
    }

    #[inline]
    fn burst_limit(&mut self, now: Instant, limit: BurstLimit) -> BurstLimit {
        self.rate.burst_limit(now, limit)
    }

    #[inline]
    fn on_sent(&mut self, now: Instant, packets: u32, bytes: u32) {
        self.rate.on_sent(now, packets, bytes);
    }

    fn on_unsent(&mut self, packets: u32, bytes: u32) {
        self.rate.on_unsent(packets, bytes);
    }

    fn rate(&self) -> Option<Rate> {
        self.rate.rate()
    }

    #[inline]
    fn paused_until(&self) -> Option<Instant> {
        self.rate.paused_until()
    }

    #[inline]
    fn on_time(&mut self, now: Instant) -> bool {
        self.rate.on_time(now)
    }
}

/// Evaluates `$body` with `$control` bound to the algorithm in a [`Controller`].
macro_rules! with_control {
    ($any:expr, $control:ident => $body:expr) => {
        match $any {
            Controller::Window($control) => $body,
            Controller::Dcqcn($control) => $body,
        }
    };
}

impl Controller {
    /// The congestion control of a requester that does not send.
    pub(crate) const NONE: Self = Self::Window(CongestionWindow::with_initial(0));

    /// Starts with a window of `initial` packets.
    pub(crate) const fn new(algorithm: Algorithm, initial: u32) -> Self {
        let window = CongestionWindow::with_initial(initial);
        match algorithm {
            Algorithm::Window => Self::Window(window),
            Algorithm::Dcqcn(config) => Self::Dcqcn(WindowAndRate {
                window,
                rate: Dcqcn::new(config),
            }),
        }
    }
}

impl CongestionControl for Controller {
    #[inline]
    fn limited_to(&self, limit: u32) -> u32 {
        with_control!(self, control => control.limited_to(limit))
    }

    #[inline]
    fn on_ack(&mut self, packets: u32) {
        with_control!(self, control => control.on_ack(packets));
    }

    fn on_loss(&mut self, limit: u32) {
        with_control!(self, control => control.on_loss(limit));
    }

    fn on_timeout(&mut self) {
        with_control!(self, control => control.on_timeout());
    }

    #[inline]
    fn has_timed_out(&self) -> bool {
        with_control!(self, control => control.has_timed_out())
    }

    fn on_cnp(&mut self, now: Instant) {
        with_control!(self, control => control.on_cnp(now));
    }

    #[inline]
    fn burst_limit(&mut self, now: Instant, limit: BurstLimit) -> BurstLimit {
        with_control!(self, control => control.burst_limit(now, limit))
    }

    #[inline]
    fn on_sent(&mut self, now: Instant, packets: u32, bytes: u32) {
        with_control!(self, control => control.on_sent(now, packets, bytes));
    }

    fn on_unsent(&mut self, packets: u32, bytes: u32) {
        with_control!(self, control => control.on_unsent(packets, bytes));
    }

    fn rate(&self) -> Option<Rate> {
        with_control!(self, control => control.rate())
    }

    #[inline]
    fn paused_until(&self) -> Option<Instant> {
        with_control!(self, control => control.paused_until())
    }

    #[inline]
    fn on_time(&mut self, now: Instant) -> bool {
        with_control!(self, control => control.on_time(now))
    }
}
