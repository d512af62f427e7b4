// SPDX-License-Identifier: GPL-2.0

//! The sending half of an RC QP: its states, its commands and its results.
//!
//! Owns everything that the requester remembers. Its attributes are in `attributes`; how packets
//! are planned is in `transmit`, how responses are judged in `completer`. Does not know the responder of its own QP.

pub use super::{
    attributes::{
        FlowLimit,
        RequesterConfig,
        RequesterStats, //
    },
    transmit::RequestBurst,
};

use super::{
    ack_policy::AckRequests,
    attributes::Config,
    retry::{
        Expired,
        Retry, //
    },
    send_window::{
        InFlight,
        SendWindow, //
    },
    slot::Slot, //
};
use crate::congestion::{
    rtt::RttEstimator,
    window::CongestionWindow, //
};
use crate::{
    access::Obstacle,
    id::{
        Qpn,
        Rkey, //
    },
    psn::Psn,
    segmentation::{
        gso::MAX_GSO_PACKETS,
        tx_desc::{
            Mtu,
            RxPayload,
            SlotIndex, //
        }, //
    },
    status::WcStatus,
    time::Instant,
    wr::{
        Completion,
        SendOp,
        SendWr,
        WcOpcode,
        MAX_MESSAGE, //
    }, //
};

/// What the requester must ask of whoever holds the memory.
pub trait ResponseContext {
    /// Copies `payload` of the packet at hand into the memory of the request in `slot`, from
    /// byte `offset` of the message on.
    ///
    /// # Errors
    ///
    /// The status with which the request shall complete, for example
    /// [`WcStatus::LocProtErr`], after which the QP goes to the error state; or that memory is
    /// absent.
    fn place(
        &mut self,
        slot: SlotIndex,
        offset: u32,
        payload: RxPayload,
    ) -> Result<(), Obstacle<WcStatus>>;

    /// Writes `found`, what an atomic operation found, into the memory of the request in `slot`: the
    /// eight bytes of a number in the order of this machine.
    ///
    /// # Errors
    ///
    /// As [`place`](Self::place).
    fn place_value(&mut self, slot: SlotIndex, found: u64) -> Result<(), Obstacle<WcStatus>>;

    /// Takes the local key `rkey` back, as the request asked that is complete now.
    ///
    /// # Errors
    ///
    /// The status with which the request shall complete, for example [`WcStatus::LocQpOpErr`].
    fn invalidate(&mut self, rkey: Rkey) -> Result<(), WcStatus>;
}

/// What a requester does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequesterState {
    /// Nothing; nothing can be posted.
    Reset,
    /// Requests are kept, not sent (INIT, RTR).
    Idle,
    /// Requests are sent (RTS).
    Ready,
    /// Requests that were begun are finished, no further one is begun (SQD).
    Draining,
    /// Requests are flushed (ERR).
    Error,
}

/// A request that is done with: its slot of the ring is free.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retired {
    /// The slot.
    pub slot: SlotIndex,
    /// What to tell the consumer; `None` for the success of a request that was not signaled.
    pub completion: Option<Completion>,
}

/// The sending half of an RC QP.
///
/// It has four kinds of method:
///
/// - *commands* move it along with the QP ([`configure`](Self::configure),
///   [`start`](Self::start), [`drain`](Self::drain), [`resume`](Self::resume),
///   [`fail`](Self::fail), [`reset`](Self::reset)), give it work ([`post`](Self::post),
///   [`reject`](Self::reject)), withdraw it ([`abort`](Self::abort)), or say that it must wait
///   ([`unsend`](Self::unsend));
/// - *`handle_*`* tell it what happened: a response, or that time has passed;
/// - [`burst`](Self::burst) and *`poll_*`* take what it wants done: packets to send, completions
///   to report, the time at which to call [`handle_timeout`](Self::handle_timeout);
/// - *getters*.
///
/// After any command or `handle_*`, call `poll_completion` until it returns `None`, then `burst`
/// until it yields nothing or the caller has had enough, then `poll_timeout` once: each may
/// depend on the ones before. `error` may turn to `Some` in any of them.
///
/// Time must not go backwards. A timer that fires early, late or for nothing does no harm.
///
/// `S` is storage for the requests, one [`Slot`] for each slot of the send ring, whose number is
/// a power of two. Requests are posted in the order of the ring, so that the request in slot `i`
/// of the ring is `i` here; [`align`](Self::align) keeps it so if the ring skips slots.
#[derive(Debug)]
pub struct Requester<S> {
    pub(super) state: RequesterState,
    pub(super) window: SendWindow<S>,
    pub(super) retry: Retry,
    pub(super) cwnd: CongestionWindow,
    pub(super) rtt: RttEstimator,
    pub(super) config: Config,
    pub(super) questions: AckRequests,
    pub(super) stats: RequesterStats,
    error: Option<WcStatus>,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Requester<S> {
    /// Makes a requester in the reset state.
    pub fn new(storage: S) -> Self {
        Self {
            state: RequesterState::Reset,
            window: SendWindow::new(storage),
            retry: Retry::new(),
            cwnd: CongestionWindow::NONE,
            rtt: RttEstimator::UNKNOWN,
            config: Config::NONE,
            questions: AckRequests::new(Psn::new(0)),
            stats: RequesterStats::default(),
            error: None,
        }
    }

    // Commands: the QP.

    /// Accepts requests without sending them (to INIT).
    pub fn init(&mut self) {
        if self.state == RequesterState::Reset {
            self.state = RequesterState::Idle;
        }
    }

    /// Starts sending (to RTS).
    pub fn start(&mut self) {
        if matches!(self.state, RequesterState::Reset | RequesterState::Idle) {
            self.state = RequesterState::Ready;
            self.settle();
        }
    }

    /// Stops beginning requests (to SQD). See [`is_drained`](Self::is_drained).
    pub fn drain(&mut self) {
        if self.state == RequesterState::Ready {
            self.state = RequesterState::Draining;
            self.is_waited_for();
        }
    }

    /// Begins requests again (SQD to RTS).
    pub fn resume(&mut self) {
        if self.state == RequesterState::Draining {
            self.state = RequesterState::Ready;
            self.settle();
        }
    }

    /// Flushes every request that is not complete, and every one yet to be posted (to ERR).
    pub fn fail(&mut self) {
        self.state = RequesterState::Error;
        self.retry.clear();
        self.nothing_to_ask();
    }

    /// Forgets every request without a completion (to RESET). The ring goes on where it is.
    pub fn reset(&mut self) {
        self.state = RequesterState::Reset;
        self.window.clear();
        self.retry.clear();
        self.cwnd = CongestionWindow::NONE;
        self.nothing_to_ask();
        self.error = None;
    }

    /// Says to which slot of the ring the next request goes. Forgets every request.
    pub fn align(&mut self, next: SlotIndex) {
        self.window.seek(next.0);
    }

    // Commands: work.

    /// Takes a work request. Returns its slot; `None` if there is no free one or the QP is in
    /// the reset state.
    ///
    /// One that is longer than [`MAX_MESSAGE`] is rejected with [`WcStatus::LocLenErr`].
    pub fn post(&mut self, wr: SendWr) -> Option<SlotIndex> {
        let status = (wr.length > MAX_MESSAGE).then_some(WcStatus::LocLenErr);
        self.push(Slot::new(wr, wr.op.wc_opcode(), status))
    }

    /// Takes the place of a work request that makes no sense. It completes with `status` when
    /// all before it are complete; then the QP is in the error state. `None` as for
    /// [`post`](Self::post).
    pub fn reject(&mut self, wr_id: u64, opcode: WcOpcode, status: WcStatus) -> Option<SlotIndex> {
        let wr = SendWr {
            wr_id,
            op: SendOp::Send { imm: None },
            length: 0,
            signaled: true,
            solicited: false,
            fence: false,
        };
        self.push(Slot::new(wr, opcode, Some(status)))
    }

    /// Withdraws the request in `slot`, whose memory cannot be read. No packet of it or after it
    /// is sent any more; it completes with `status` when all before it are complete; then the
    /// QP is in the error state. Does nothing to a request that is complete.
    pub fn abort(&mut self, slot: SlotIndex, status: WcStatus) {
        if let Some(first) = self.window.abort_slot(slot, status) {
            self.did_not_leave(first);
            self.settle();
        }
    }

    /// Says that memory of what was planned last is absent: its last `packets` packets were not sent, and are
    /// the next to be planned.
    pub fn unsend(&mut self, packets: u32) {
        for _ in 0..packets.min(MAX_GSO_PACKETS) {
            self.window.unsend();
        }
        self.did_not_leave(self.window.psn());
    }

    // Time and results.

    /// Says that it is `now`. Returns whether there is something to send or to report. Nothing
    /// happens before the time that [`poll_timeout`](Self::poll_timeout) gave.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        match self.retry.expire(now) {
            None => return false,
            Some(Expired::Pause) => {}
            Some(Expired::Patience) => self.ask_next(),
            Some(Expired::ReplayEntry) => {
                if !self.window.in_flight() {
                    return false;
                }
                // We had no turn in time to ask.
                if self.probes() {
                    self.retry.expect_answer(now);
                    return self.has_work();
                }
                self.stats.timeouts = self.stats.timeouts.wrapping_add(1);
                let may = self.retry.on_timeout();
                self.resend(may);
                self.cwnd.on_timeout();
            }
        }
        self.has_work()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.retry.deadline()
    }

    /// Takes the next request that is done with, in the order of posting.
    pub fn poll_completion(&mut self) -> Option<Retired> {
        if self.state == RequesterState::Error
            && !self.window.has_complete()
            && self.window.has_pending()
        {
            self.window.complete_oldest(WcStatus::WrFlushErr);
        }
        let (place, slot) = self.window.retire()?;
        self.stats.sends = self.stats.sends.wrapping_add(u32::from(slot.was_sent()));
        Some(Retired {
            slot: place,
            completion: slot.completion(),
        })
    }

    // Getters.

    /// Returns what the requester does.
    #[inline]
    #[must_use]
    pub const fn state(&self) -> RequesterState {
        self.state
    }

    /// Returns the status of the request that took the requester to the error state by itself;
    /// then the QP must follow.
    #[inline]
    #[must_use]
    pub const fn error(&self) -> Option<WcStatus> {
        self.error
    }

    /// Returns whether there is something to send or to report at once.
    #[must_use]
    pub fn has_work(&self) -> bool {
        let flush = self.state == RequesterState::Error && self.window.has_pending();
        flush || self.window.has_complete() || self.local_turn().is_some() || self.can_send()
    }

    /// Returns the path MTU.
    #[inline]
    #[must_use]
    pub const fn path_mtu(&self) -> Mtu {
        self.window.mtu()
    }

    /// Returns the number of the peer's QP.
    #[inline]
    #[must_use]
    pub const fn dest_qpn(&self) -> Qpn {
        self.config.dest_qpn
    }

    /// Returns whether the send queue is drained: the QP is in SQD and all that was begun is
    /// complete.
    #[inline]
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.state == RequesterState::Draining && self.window.is_drained()
    }

    /// Returns how many requests can be posted.
    #[inline]
    #[must_use]
    pub fn free_slots(&self) -> u32 {
        self.window.free_slots()
    }

    /// Returns the PSN of the first packet that was never sent (`sq_psn`).
    #[inline]
    #[must_use]
    pub const fn psn(&self) -> Psn {
        self.window.high()
    }

    /// Returns the PSN of the packet that is sent next, if any is: after a loss, one before
    /// [`psn`](Self::psn).
    #[inline]
    #[must_use]
    pub const fn next_psn(&self) -> Psn {
        self.window.psn()
    }

    /// Returns what is in flight.
    #[inline]
    #[must_use]
    pub const fn flight(&self) -> InFlight {
        self.window.flight()
    }

    /// Returns the PSN of the oldest packet that is not acknowledged.
    #[inline]
    #[must_use]
    pub const fn oldest_psn(&self) -> Psn {
        self.window.una()
    }

    /// Takes the counts of what happened since they were last taken.
    pub fn take_stats(&mut self) -> RequesterStats {
        core::mem::take(&mut self.stats)
    }

    // For the other files of the requester.

    /// Starts again at the oldest packet that is not acknowledged.
    pub(super) fn go_back(&mut self) {
        self.stats.retries = self.stats.retries.wrapping_add(1);
        self.cwnd.on_loss(self.widest().packets);
        self.withdraw();
    }

    /// Ends the oldest request with `status`, and with it the requester.
    pub(super) fn end(&mut self, status: WcStatus) {
        self.window.complete_oldest(status);
        self.error = Some(status);
        self.fail();
    }

    /// Ends the requester if the oldest request is condemned and its turn has come.
    pub(super) fn settle(&mut self) {
        let Some((slot, begun)) = self.window.oldest() else {
            return;
        };
        let turn = match self.state {
            RequesterState::Ready => true,
            RequesterState::Draining => begun,
            RequesterState::Reset | RequesterState::Idle | RequesterState::Error => false,
        };
        if let (true, Some(status)) = (turn, slot.status) {
            self.end(status);
        }
    }

    fn push(&mut self, slot: Slot) -> Option<SlotIndex> {
        if self.state == RequesterState::Reset {
            return None;
        }
        let place = self.window.push(slot)?;
        if slot.waits_for_others() {
            self.is_waited_for();
        }
        if slot.status.is_some() {
            self.settle();
        }
        Some(place)
    }
}

#[cfg(test)]
mod tests;
