// SPDX-License-Identifier: GPL-2.0

//! The requester of an RC QP: state, attributes, commands and completions.
//!
//! Packets are planned in `transmit`, responses are handled in `completer`.

pub use super::{
    config::{
        FlowLimit,
        RequesterConfig,
        RequesterStats, //
    },
    transmit::RequestBurst, //
};

use super::{
    config::Config,
    memory_wait::MemoryWait,
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
use crate::{
    access::Obstacle,
    congestion::{
        self,
        rtt::RttEstimator, //
    },
    id::{
        Qpn,
        Rkey, //
    },
    message::retired::Retired,
    psn::Psn,
    segmentation::{
        mtu::Mtu,
        tx_desc::{
            RxPayload,
            SlotIndex, //
        }, //
    },
    status::WcStatus,
    time::Instant,
    wake::{
        NextWake,
        Wake, //
    },
    wr::{
        LocalOp,
        SendOp,
        SendWr,
        WcOpcode,
        MAX_MESSAGE_BYTES, //
    }, //
};

/// Callbacks of the requester: access to the memory of the posted requests.
pub trait ResponseContext {
    /// Copies `payload` of the current packet to the scatter/gather list of the request in `slot`,
    /// at byte `offset` of the message.
    ///
    /// # Errors
    ///
    /// [`Obstacle::Absent`] if the memory is not present. Otherwise the status with which the
    /// request completes, for example [`WcStatus::LocProtErr`]; the QP then goes to the error state.
    fn place(
        &mut self,
        slot: SlotIndex,
        offset: u32,
        payload: RxPayload,
    ) -> Result<(), Obstacle<WcStatus>>;

    /// Writes `original`, the result of an atomic operation, to the scatter/gather list of the request
    /// in `slot`: eight bytes in host byte order.
    ///
    /// # Errors
    ///
    /// As [`place`](Self::place).
    fn place_value(&mut self, slot: SlotIndex, original: u64) -> Result<(), Obstacle<WcStatus>>;

    /// Invalidates the local key `rkey`, at the end of a READ with invalidate.
    ///
    /// # Errors
    ///
    /// The status with which the request completes, for example [`WcStatus::LocQpOpErr`].
    fn invalidate(&mut self, rkey: Rkey) -> Result<(), WcStatus>;
}

/// State of a requester.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequesterState {
    /// No request can be posted.
    Reset,
    /// Requests are accepted but not sent (INIT, RTR).
    Idle,
    /// Requests are sent (RTS).
    Ready,
    /// Begun requests continue, no other request is begun (SQD).
    Draining,
    /// Requests are flushed (ERR).
    Error,
}

/// The requester of an RC QP.
///
/// It has four kinds of method:
///
/// - *commands* change the state with the QP ([`configure`](Self::configure),
///   [`start`](Self::start), [`drain`](Self::drain), [`resume`](Self::resume),
///   [`fail`](Self::fail), [`reset`](Self::reset)), post requests ([`post`](Self::post),
///   [`reject`](Self::reject)), abort one ([`abort`](Self::abort)), or report whether memory is present
///   ([`await_memory`](Self::await_memory), [`memory_present`](Self::memory_present));
/// - *`handle_*`* process an event: a response or a timeout;
/// - [`burst`](Self::burst) and *`poll_*`* return the resulting work: packets to send, completions
///   to report, the time of the next [`handle_timeout`](Self::handle_timeout);
/// - *getters*.
///
/// After commands and `handle_*`, call `burst` and `poll_completion`, each until it is empty or the
/// caller's budget is used up, and then `next_wake` once. `next_wake` must be last, because a
/// burst starts timers. `burst` and `poll_completion` may be called in either order. A burst may
/// abort a request, so polling after it reports that completion in the same round. Repeat while
/// [`has_work`](Self::has_work) returns true. Commands, `handle_*` and `burst` may set `error`.
///
/// Time must not go backwards. Early, late and spurious timer calls are harmless.
///
/// `S` is the storage: one [`Slot`] for each slot of the send ring, a power of two. Requests are
/// posted in ring order, so that slot `i` here is slot `i` of the ring. If the ring skips slots,
/// [`align`](Self::align) restores this.
#[derive(Debug)]
pub struct Requester<S> {
    pub(super) state: RequesterState,
    pub(super) window: SendWindow<S>,
    pub(super) retry: Retry,
    pub(super) congestion: congestion::Sender,
    pub(super) rtt: RttEstimator,
    pub(super) config: Config,
    pub(super) ack_requests: AckRequests,
    pub(super) memory_wait: MemoryWait,
    pub(super) stats: RequesterStats,
    error: Option<WcStatus>,
}

/// Which packets in flight requested an ACK.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckRequests {
    /// Sent since the last ACK request.
    pub(super) since: SinceAckRequest,
    /// The next packet must request an ACK.
    pub(super) overdue: bool,
    /// PSN after the last packet that requested an ACK.
    pub(super) end: Psn,
    /// The value of `end` before the last ACK request.
    pub(super) prev_end: Psn,
    /// When the last request packet was sent.
    pub(super) last_sent: Instant,
    /// The peer has sent at least one ACK.
    pub(super) peer_has_acked: bool,
}

impl AckRequests {
    /// Returns the state of a connection whose first PSN is `first`.
    fn new(first: Psn) -> Self {
        Self {
            since: SinceAckRequest::default(),
            overdue: false,
            end: first,
            prev_end: first,
            last_sent: Instant::from_nanos(0),
            peer_has_acked: false,
        }
    }
}

/// Packets, bytes and messages sent since the last ACK request, or the limits for them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SinceAckRequest {
    pub(super) packets: u32,
    pub(super) bytes: u32,
    pub(super) messages: u32,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Requester<S> {
    /// Returns a requester in the reset state.
    pub fn new(storage: S) -> Self {
        Self {
            state: RequesterState::Reset,
            window: SendWindow::new(storage),
            retry: Retry::new(),
            congestion: congestion::Sender::NONE,
            rtt: RttEstimator::UNKNOWN,
            config: Config::NONE,
            ack_requests: AckRequests::new(Psn::new(0)),
            memory_wait: MemoryWait::default(),
            stats: RequesterStats::default(),
            error: None,
        }
    }

    // Commands: QP state.

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
            self.fail_if_oldest_aborted();
        }
    }

    /// Begins no further requests (to SQD). See [`is_drained`](Self::is_drained).
    pub fn drain(&mut self) {
        if self.state == RequesterState::Ready {
            self.state = RequesterState::Draining;
            self.require_ack_for_waiter();
        }
    }

    /// Resumes sending (SQD to RTS).
    pub fn resume(&mut self) {
        if self.state == RequesterState::Draining {
            self.state = RequesterState::Ready;
            self.fail_if_oldest_aborted();
        }
    }

    /// Flushes all incomplete requests and all that are posted later (to ERR).
    pub fn fail(&mut self) {
        self.state = RequesterState::Error;
        self.retry.clear();
        self.clear_ack_requests();
    }

    /// Returns the congestion control, for CNPs.
    pub fn congestion(&mut self) -> &mut congestion::Sender {
        &mut self.congestion
    }

    /// Drops all requests without completions (to RESET). The ring position is kept.
    pub fn reset(&mut self) {
        self.state = RequesterState::Reset;
        self.window.clear();
        self.retry.clear();
        self.congestion = congestion::Sender::NONE;
        self.clear_ack_requests();
        self.memory_wait.end();
        self.error = None;
    }

    /// Sets the storage of requests, and returns the old one. Drops all requests.
    pub fn set_slots(&mut self, slots: S) -> S {
        self.window.set_slots(slots)
    }

    /// Sets the slot of the next request. Drops all requests.
    pub fn align(&mut self, next: SlotIndex) {
        self.window.seek(next.0);
    }

    // Commands: attributes. The caller checks which may be set in which state
    // (`ib_modify_qp_is_ok`).

    /// Sets all attributes and the PSN. Call it before [`start`](Self::start).
    pub fn configure(&mut self, config: &RequesterConfig) {
        self.config = Config {
            connection: config.connection,
            max_rd_atomic: config.max_rd_atomic,
            flow: config.flow,
        };
        self.window.configure(config.first_psn, config.path_mtu);
        self.ack_requests = AckRequests::new(config.first_psn);
        self.congestion = congestion::Sender::new(config.congestion, config.initial_window);
        self.on_path_change();
        self.retry.clear();
        self.retry.set_timeout(config.ack_timeout);
        self.set_retry_cnt(config.retry_cnt);
        self.set_rnr_retry(config.rnr_retry);
    }

    /// Discards the RTT estimate: the path to the peer has changed.
    pub fn on_path_change(&mut self) {
        self.rtt = RttEstimator::UNKNOWN;
    }

    /// Sets the local ACK timeout, a 5-bit code. It applies from the next packet on. If there was no
    /// timeout before, it also applies to the packets in flight, from `now` on.
    pub fn set_ack_timeout(&mut self, now: Instant, code: u8) {
        self.retry.set_timeout(code);
        if self.is_ack_due() {
            self.retry.start_ack_timer_if_idle(now);
        }
    }

    /// Sets the retry count.
    pub fn set_retry_cnt(&mut self, count: u8) {
        self.retry.set_limit(count);
    }

    /// Sets the RNR retry count.
    pub fn set_rnr_retry(&mut self, count: u8) {
        self.retry.set_rnr_limit(count);
    }

    /// Sets the number of READs that the peer serves at a time.
    pub fn set_max_rd_atomic(&mut self, count: u8) {
        self.config.max_rd_atomic = count;
    }

    // Commands: requests.

    /// Posts a work request. Returns its slot. `None` if the ring is full or the QP is in the reset
    /// state.
    ///
    /// A request longer than [`MAX_MESSAGE_BYTES`] completes with [`WcStatus::LocLenErr`].
    pub fn post(&mut self, wr: SendWr) -> Option<SlotIndex> {
        let status = (wr.length > MAX_MESSAGE_BYTES).then_some(WcStatus::LocLenErr);
        self.push(Slot::new(wr, wr.op.wc_opcode(), status))
    }

    /// Posts an invalid work request. It completes with `status` after all earlier requests; then
    /// the QP is in the error state. `None` as for [`post`](Self::post).
    pub fn reject(&mut self, wr_id: u64, opcode: WcOpcode, status: WcStatus) -> Option<SlotIndex> {
        self.push(Slot::new(SendWr::invalid(wr_id), opcode, Some(status)))
    }

    /// Aborts the request in `slot`, because its memory cannot be read. Neither it nor any later
    /// request is sent. It completes with `status` after all earlier requests; then the QP is in the
    /// error state. Has no effect on a complete request.
    pub fn abort(&mut self, slot: SlotIndex, status: WcStatus) {
        if let Some(first) = self.window.abort_slot(slot, status) {
            self.on_unsent(first);
            self.fail_if_oldest_aborted();
        }
    }

    /// Executes the next request with `execute` if it is a local operation and may be executed now.
    /// Returns whether it was.
    ///
    /// A local operation is executed once and completes in order. [`LocalOp::Invalidate`] waits for
    /// all earlier requests. If `execute` fails, no later request is sent and the QP goes to the
    /// error state after all earlier requests are complete.
    ///
    /// IBA: section 10.8.3.3, ordering rules of the send queue.
    pub fn perform_local(
        &mut self,
        execute: impl FnOnce(SlotIndex, LocalOp) -> Result<(), WcStatus>,
    ) -> bool {
        let Some((slot_index, op)) = self.ready_local_op() else {
            return false;
        };
        let result = execute(slot_index, op);
        if result.is_err() {
            // A later message may have been expected to request the ACK.
            self.require_ack_for_waiter();
        }
        self.window.on_local_executed(slot_index, result);
        self.fail_if_oldest_aborted();
        true
    }

    /// Returns the next request if it is a local operation and may be executed now.
    fn ready_local_op(&self) -> Option<(SlotIndex, LocalOp)> {
        let (slot, slot_index, is_oldest) = self.window.current_local()?;
        let SendOp::Local(op) = slot.wr.op else {
            return None;
        };
        let fenced = slot.wr.fence && self.window.flight().reads != 0;
        let must_wait = match op {
            LocalOp::Invalidate => !is_oldest,
            LocalOp::Bind | LocalOp::Register => fenced,
        };
        (self.state == RequesterState::Ready && !must_wait).then_some((slot_index, op))
    }

    // Time and completions.

    /// Handles a deadline that has passed at `now`. Returns whether there is work, see
    /// [`has_work`](Self::has_work). Has no effect before the time of
    /// [`next_wake`](Self::next_wake).
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let resumed = self.congestion.on_time(now);
        match self.retry.expire(now) {
            None => return resumed && self.has_work(),
            Some(Expired::RnrDelay) => {}
            Some(Expired::AckRequest) => self.require_ack_request(),
            Some(Expired::AckTimeout) => {
                if !self.window.in_flight() {
                    return false;
                }
                // The engine did not run in time to send the probe. Grant the peer a full timeout.
                if self.needs_ack_probe() {
                    self.retry.start_ack_timer(now);
                    return self.has_work();
                }
                self.stats.timeouts = self.stats.timeouts.wrapping_add(1);
                let retry = self.retry.on_timeout();
                self.retransmit(retry);
                self.congestion.on_timeout();
            }
        }
        self.has_work()
    }

    /// Returns when the next [`handle_timeout`](Self::handle_timeout) call is due, and what for.
    #[must_use]
    pub fn next_wake(&self) -> NextWake {
        let paced = self.congestion.paused_until();
        match paced.filter(|_| self.may_have_packets()) {
            Some(until) => self
                .retry
                .next_wake()
                .or_earlier(NextWake::new(Wake::Pace, until)),
            None => self.retry.next_wake(),
        }
    }

    /// Retires the next complete request, in posting order. In the error state, flushes one.
    pub fn poll_completion(&mut self) -> Option<Retired<&SendWr>> {
        if self.state == RequesterState::Error
            && !self.window.has_complete()
            && self.window.has_pending()
        {
            self.window.complete_oldest(WcStatus::WrFlushErr);
        }
        let (slot_index, slot) = self.window.retire()?;
        self.stats.sends = self
            .stats
            .sends
            .wrapping_add(u32::from(slot.is_successful_send()));
        Some(slot.retired(slot_index))
    }

    // Getters.

    /// Returns the state.
    #[inline]
    #[must_use]
    pub const fn state(&self) -> RequesterState {
        self.state
    }

    /// Returns the status of the request that took the requester to the error state. The QP must
    /// follow. `None` if [`fail`](Self::fail) did.
    #[inline]
    #[must_use]
    pub const fn error(&self) -> Option<WcStatus> {
        self.error
    }

    /// Returns whether there is something to send, execute or report now.
    #[must_use]
    pub fn has_work(&self) -> bool {
        let flush = self.state == RequesterState::Error && self.window.has_pending();
        flush || self.window.has_complete() || self.ready_local_op().is_some() || self.can_send()
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
        self.config.connection.dest_qpn
    }

    /// Returns whether the send queue is drained: the QP is in SQD and all begun requests are
    /// complete.
    #[inline]
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.state == RequesterState::Draining && self.window.is_drained()
    }

    /// Returns the number of requests that can be posted.
    #[inline]
    #[must_use]
    pub fn free_slots(&self) -> u32 {
        self.window.free_slots()
    }

    /// Returns the first PSN that was never sent (`sq_psn`).
    #[inline]
    #[must_use]
    pub const fn psn(&self) -> Psn {
        self.window.high()
    }

    /// Returns the PSN of the next packet. After a loss it is before [`psn`](Self::psn).
    #[inline]
    #[must_use]
    pub const fn next_psn(&self) -> Psn {
        self.window.psn()
    }

    /// Returns the data in flight.
    #[inline]
    #[must_use]
    pub const fn flight(&self) -> InFlight {
        self.window.flight()
    }

    /// Returns the PSN of the oldest unacknowledged packet.
    #[inline]
    #[must_use]
    pub const fn oldest_psn(&self) -> Psn {
        self.window.una()
    }

    /// Returns the counters and resets them.
    pub fn take_stats(&mut self) -> RequesterStats {
        core::mem::take(&mut self.stats)
    }

    // For the other files of the requester (`ack_request`, `transmit`, `completer`).

    /// Goes back to the oldest unacknowledged packet (go-back-N), and counts a retry and a loss.
    pub(super) fn go_back(&mut self) {
        self.stats.retries = self.stats.retries.wrapping_add(1);
        self.congestion.on_loss(self.max_flow().packets);
        self.rewind();
    }

    /// Completes the oldest request with `status` and enters the error state.
    pub(super) fn fail_oldest(&mut self, status: WcStatus) {
        self.window.complete_oldest(status);
        self.error = Some(status);
        self.fail();
    }

    /// Enters the error state if the oldest incomplete request is aborted and this state permits
    /// completing it.
    pub(super) fn fail_if_oldest_aborted(&mut self) {
        let Some((slot, begun)) = self.window.oldest() else {
            return;
        };
        let may_complete = match self.state {
            RequesterState::Ready => true,
            RequesterState::Draining => begun,
            RequesterState::Reset | RequesterState::Idle | RequesterState::Error => false,
        };
        if let (true, Some(status)) = (may_complete, slot.status) {
            self.fail_oldest(status);
        }
    }

    fn push(&mut self, slot: Slot) -> Option<SlotIndex> {
        if self.state == RequesterState::Reset {
            return None;
        }
        let slot_index = self.window.push(slot)?;
        if slot.awaits_earlier() {
            self.require_ack_for_waiter();
        }
        if slot.status.is_some() {
            self.fail_if_oldest_aborted();
        }
        Some(slot_index)
    }
}

#[cfg(test)]
mod tests;
