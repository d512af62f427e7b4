// SPDX-License-Identifier: GPL-2.0

//! The responder of an RC QP: state, attributes, commands and events.
//!
//! Requests are executed in `execute`, responses are planned in `respond`.

pub use super::respond::ResponseBurst;

use super::{
    memory_wait::MemoryWait,
    replay::{
        Replay,
        ReplayEntry, //
    }, //
};
use crate::{
    access::{
        Access,
        AccessError,
        Obstacle, //
    },
    id::{
        Msn,
        Qpn,
        Rkey,
        Srqn, //
    },
    message::{
        assembly::Assembly,
        connection::Connection, //
    },
    psn::Psn,
    recv_context::RecvContext,
    segmentation::{
        gso_loss::GsoLoss,
        mtu::Mtu,
        tx_desc::RxPayload, //
    },
    status::NakCode,
    wire::opcode::Service,
    wr::{
        AtomicOp,
        Completion,
        FlushScope,
        Placement,
        Remote, //
    }, //
};

/// Callbacks of the responder: memory and receive queue, in addition to [`RecvContext`].
pub trait RequestContext: RecvContext {
    /// Executes `op` on the eight bytes at `remote`, an aligned address, if the key grants
    /// [`Access::REMOTE_ATOMIC`]. Returns the original value in host byte order.
    ///
    /// # Errors
    ///
    /// [`Obstacle::Absent`] if the memory is not present, otherwise the access error. Memory is
    /// unchanged.
    fn execute_atomic(
        &mut self,
        remote: Remote,
        op: AtomicOp,
    ) -> Result<u64, Obstacle<AccessError>>;

    /// Writes the eight bytes of `payload` to `remote`, an aligned address, as one store, ordered
    /// after all earlier ones.
    ///
    /// # Errors
    ///
    /// [`Obstacle::Absent`] if the memory is not present, otherwise the access error. Memory is
    /// unchanged.
    fn write_atomic(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>>;

    /// Flushes earlier writes to `placement`, if the key grants it. Not called for 0 bytes.
    ///
    /// # Errors
    ///
    /// [`Obstacle::Absent`] if the flush is in progress; the caller repeats the call later. Otherwise
    /// the access error.
    fn flush(
        &mut self,
        remote: Remote,
        scope: FlushScope,
        placement: Placement,
    ) -> Result<(), Obstacle<AccessError>>;

    /// Selects the SRQ with this number for the current request, which is one of XRC: its receives, protection domain
    /// and CQ. Returns false if it is not in the XRC domain of the QP.
    fn select_srq(&mut self, _srqn: Srqn) -> bool {
        false
    }

    /// Invalidates `rkey` as the peer requests.
    ///
    /// # Errors
    ///
    /// The reason why the key cannot be invalidated.
    fn invalidate(&mut self, rkey: Rkey) -> Result<(), AccessError>;
}

/// Attributes of a responder for the transition to RTR.
#[derive(Clone, Copy, Debug)]
pub struct ResponderConfig {
    /// Service and peer.
    pub connection: Connection,
    /// PSN of the first request.
    pub expected_psn: Psn,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Access that the QP grants the peer (`qp_access_flags`).
    pub access: Access,
    /// RNR NAK timer, a 5-bit code: the delay to request if no receive is posted.
    pub min_rnr_timer: u8,
}

/// State of a responder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResponderState {
    /// Not in use.
    Reset,
    /// Requests are dropped (INIT).
    Init,
    /// Requests are executed (RTR and later states).
    Ready,
    /// Requests are dropped (ERR).
    Error,
}

/// Why the responder entered the error state. The QP must follow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fatal {
    /// The peer requested an access that the key does not grant (C9-222.1). C:
    /// `IB_EVENT_QP_ACCESS_ERR`.
    AccessError,
    /// The peer sent an invalid request. C: `IB_EVENT_QP_REQ_ERR`.
    RequestError,
    /// A receive failed. Its completion reports the error; there is no event.
    LocalError,
}

/// Event counts since they were last taken.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ResponderStats {
    /// Receives completed with a message.
    pub receives: u32,
    /// Duplicate requests.
    pub duplicates: u32,
    /// Requests ahead of the expected PSN: an earlier one is missing.
    pub out_of_sequence: u32,
    /// PSN sequence error NAKs sent.
    pub sequence_naks: u32,
    /// RNR NAKs: no receive was posted, or a page fault was in progress.
    pub rnr_naks: u32,
}

/// The responder of an RC QP.
///
/// It has four kinds of method:
///
/// - *commands* change the state with the QP ([`configure`](Self::configure), [`init`](Self::init),
///   [`start`](Self::start), [`fail`](Self::fail), [`reset`](Self::reset)), or report that the
///   memory of a READ cannot be read ([`abort_read`](Self::abort_read)), is not present
///   ([`await_memory`](Self::await_memory), [`fault_rnr_nak`](Self::fault_rnr_nak)) or is present again
///   ([`memory_present`](Self::memory_present));
/// - [`handle_request`](Self::handle_request) handles a packet;
/// - [`burst`](Self::burst), [`take_event`](Self::take_event) and
///   [`flush_receive`](Self::flush_receive) return the resulting work;
/// - *getters*.
///
/// Call `handle_request` for all packets received, then `burst` until it is empty or the budget is
/// used up: one ACK then covers all of them. When `take_event` returns an event, move the QP to the
/// error state, but still send the packets of `burst`: they contain the NAK.
///
/// `A` is the storage for requests that await a response or may be repeated: as many entries as the
/// peer may have outstanding (`max_dest_rd_atomic`).
#[derive(Debug)]
pub struct Responder<A> {
    pub(super) state: ResponderState,
    pub(super) config: ResponderConfig,
    /// PSN of the expected request.
    pub(super) expected: Psn,
    /// Number of completed messages.
    pub(super) msn: Msn,
    pub(super) assembly: Assembly,
    /// XRC: the SRQ of the request executed last.
    pub(super) srqn: Srqn,
    pub(super) replay: Replay<A>,
    pub(super) pending_ack: PendingAck,
    pub(super) memory_wait: MemoryWait,
    /// The READ that waits for memory follows requests whose ACK must not wait with it.
    pub(super) owes_early_ack: bool,
    /// The request that was executed last did not request an ACK, and got none.
    pub(super) unrequested: bool,
    pub(super) recovery: Recovery,
    /// PSN after the response packet planned last.
    pub(super) response_end: Psn,
    pub(super) stats: ResponderStats,
    pub(super) fatal: Option<Fatal>,
    pub(super) reads: Reads,
}

/// What the peer's READs say about the responses before: nothing acknowledges these.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reads {
    /// READs of several packets, since the last repeat. If they are more than the peer may have outstanding, it has the
    /// response to the first of them.
    new: u32,
    /// The peer has repeated a READ since its last new one.
    repeats: bool,
    /// It has begun to, and this was not reported yet.
    lost: bool,
}

impl Reads {
    /// A new READ of `packets` packets has arrived.
    #[inline]
    pub(super) fn on_new(&mut self, packets: u32) {
        self.repeats = false;
        self.new = self.new.saturating_add(u32::from(packets > 1));
    }

    /// The peer repeats a READ.
    pub(super) fn on_repeat(&mut self) {
        self.lost |= !self.repeats;
        (self.new, self.repeats) = (0, true);
    }
}

/// State of the recovery from a missing request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Recovery {
    /// A NAK that makes the peer go back to the expected request is sent or pending.
    pub(super) nak_issued: bool,
    /// The latest request dropped since then.
    pub(super) latest_dropped: Option<Psn>,
}

/// The ACK or NAK to send after all pending read responses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PendingAck {
    /// Nothing.
    None,
    /// An ACK that covers at least PSN `required`. A read response with this PSN or a later one
    /// serves as well.
    Ack { required: Psn },
    /// A PSN sequence error NAK, then the ACK that is still required, if any. A requester that never
    /// sent the expected PSN ignores the NAK (the early packet may have been forged) and needs the
    /// ACK. Any other requester finds the ACK implied by the NAK.
    SequenceNak { required: Option<Psn> },
    /// An RNR NAK for the expected request.
    RnrNak,
    /// A fatal NAK for this request.
    FatalNak { at: AckPoint, code: NakCode },
}

/// A point in the sequence of requests that a packet reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct AckPoint {
    /// The PSN of the packet.
    pub(super) psn: Psn,
    /// Number of messages completed at that point.
    pub(super) msn: Msn,
}

impl PendingAck {
    /// Returns the PSN that an ACK must cover.
    pub(super) const fn required(self) -> Option<Psn> {
        match self {
            Self::Ack { required } => Some(required),
            Self::SequenceNak { required } => required,
            Self::None | Self::RnrNak | Self::FatalNak { .. } => None,
        }
    }

    /// Returns the rest after its first packet was sent.
    pub(super) const fn after_send(self) -> Self {
        match self {
            Self::SequenceNak {
                required: Some(required),
            } => Self::Ack { required },
            _ => Self::None,
        }
    }

    /// Returns the rest after a read response covered the required PSN.
    pub(super) const fn after_response(self) -> Self {
        match self {
            Self::SequenceNak { .. } => Self::SequenceNak { required: None },
            _ => Self::None,
        }
    }
}

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Returns a responder in the reset state.
    pub fn new(storage: A) -> Self {
        Self {
            state: ResponderState::Reset,
            config: ResponderConfig {
                connection: Connection::new(Service::Rc, Qpn::GSI),
                expected_psn: Psn::new(0),
                path_mtu: Mtu::default(),
                access: Access::NONE,
                min_rnr_timer: 0,
            },
            expected: Psn::new(0),
            msn: Msn::new(0),
            assembly: Assembly::EMPTY,
            srqn: Srqn::new(0),
            replay: Replay::new(storage),
            pending_ack: PendingAck::None,
            memory_wait: MemoryWait::default(),
            owes_early_ack: false,
            unrequested: false,
            recovery: Recovery::default(),
            response_end: Psn::new(0),
            stats: ResponderStats::default(),
            fatal: None,
            reads: Reads::default(),
        }
    }

    // Commands.

    /// Sets all attributes and the PSN. Call it before [`start`](Self::start).
    pub fn configure(&mut self, config: &ResponderConfig) {
        self.config = *config;
        self.expected = config.expected_psn;
        self.msn = Msn::new(0);
        self.clear_responses();
    }

    /// Sets the access that the QP grants the peer. It applies to requests in progress too: without
    /// the right, the rest of a WRITE is not placed, the rest of a READ is not sent, and both are
    /// NAKed like new requests.
    pub fn set_access(&mut self, access: Access) {
        self.config.access = access;
        if !access.contains(Access::REMOTE_READ) {
            self.replay.cancel_repeats();
        }
    }

    /// Sets the RNR NAK timer, a 5-bit code.
    pub fn set_min_rnr_timer(&mut self, code: u8) {
        self.config.min_rnr_timer = code;
    }

    /// Replaces the storage, copies the newest entries that fit, and returns the old storage.
    pub fn replace_storage(&mut self, storage: A) -> A {
        self.replay.replace(storage)
    }

    /// Permits receives to be posted; requests are still dropped (to INIT).
    pub fn init(&mut self) {
        if self.state == ResponderState::Reset {
            self.state = ResponderState::Init;
        }
    }

    /// Starts to execute requests (to RTR).
    pub fn start(&mut self) {
        if matches!(self.state, ResponderState::Reset | ResponderState::Init) {
            self.state = ResponderState::Ready;
        }
    }

    /// Drops requests from now on (to ERR). Pending responses are discarded, unless the responder
    /// itself has already failed: then they and its NAK are still sent.
    pub fn fail(&mut self) {
        if self.state != ResponderState::Error {
            self.abort_replies();
        }
    }

    /// As [`fail`](Self::fail), but always discards pending responses: the consumer requested the
    /// error state.
    pub fn abort_replies(&mut self) {
        self.state = ResponderState::Error;
        self.replay.clear();
        self.pending_ack = PendingAck::None;
    }

    /// Clears everything but the attributes (to RESET).
    pub fn reset(&mut self) {
        self.state = ResponderState::Reset;
        self.assembly = Assembly::EMPTY;
        self.fatal = None;
        self.clear_responses();
    }

    /// Reports that the memory of the response planned last cannot be read. Its last `packets`
    /// packets were not sent. The responder discards all pending responses, sends a NAK and enters
    /// the error state.
    ///
    /// A repeated response is only cancelled. The peer may have received the first response and
    /// invalidated the key since. If it did not, its retries run out. No ACK is sent instead, because
    /// a peer might take it for the data.
    pub fn abort_read(&mut self, packets: u32, _error: AccessError) {
        let psn = self.response_end.sub(packets);
        if self.replay.cancel_repeat(psn) {
            return;
        }
        let at = self.nak_point(psn);
        self.replay.clear();
        self.nak_fatal(at, NakCode::RemoteAccess, Fatal::AccessError);
    }

    /// Sends an ACK with the next [`burst`](Self::burst), even if the peer did not request one.
    pub fn force_ack(&mut self) {
        if self.pending_ack == PendingAck::None && self.state == ResponderState::Ready {
            self.schedule_ack();
        }
    }

    // Events.

    /// Returns the reason why the responder entered the error state, once.
    pub fn take_event(&mut self) -> Option<Fatal> {
        self.fatal.take()
    }

    /// Flushes the receive in progress. The caller calls this in the error state, before it flushes
    /// the posted receives.
    pub fn flush_receive(&mut self) -> Option<Completion> {
        self.assembly.flush()
    }

    // Getters.

    /// Returns the state.
    #[inline]
    #[must_use]
    pub const fn state(&self) -> ResponderState {
        self.state
    }

    /// Returns the event that [`take_event`](Self::take_event) would return.
    #[inline]
    #[must_use]
    pub const fn error(&self) -> Option<Fatal> {
        self.fatal
    }

    /// Returns whether there is something to send.
    #[inline]
    #[must_use]
    pub fn has_work(&self) -> bool {
        match self.replay.pending() {
            Some(entry) if self.memory_wait.holds(entry.next_psn()) => self.owes_early_ack,
            Some(_) => true,
            None => self.pending_ack != PendingAck::None,
        }
    }

    /// Returns whether there is a read response to send, or another response besides an ACK or NAK.
    #[inline]
    #[must_use]
    pub fn owes_response(&self) -> bool {
        self.replay.pending().is_some()
    }

    /// Returns whether the next request can be executed: no NAK is pending.
    #[inline]
    #[must_use]
    pub const fn is_in_sync(&self) -> bool {
        matches!(self.pending_ack, PendingAck::None | PendingAck::Ack { .. })
    }

    /// Returns the path MTU.
    #[inline]
    #[must_use]
    pub const fn path_mtu(&self) -> Mtu {
        self.config.path_mtu
    }

    /// Returns the number of the peer's QP.
    #[inline]
    #[must_use]
    pub const fn dest_qpn(&self) -> Qpn {
        self.config.connection.dest_qpn
    }

    /// Returns the PSN of the expected request (`rq_psn`).
    #[inline]
    #[must_use]
    pub const fn expected_psn(&self) -> Psn {
        self.expected
    }

    /// Returns the counters.
    #[inline]
    #[must_use]
    pub const fn stats(&self) -> &ResponderStats {
        &self.stats
    }

    /// Reports to `loss`, which is about the route of the responses, what READs have shown. Returns whether each packet
    /// must be sent by itself now.
    #[inline]
    pub fn must_send_singly(&mut self, loss: &mut GsoLoss) -> bool {
        if core::mem::take(&mut self.reads.lost) {
            loss.on_lost();
        }
        if self.reads.new > self.replay.capacity() {
            loss.on_passed(loss.longest());
        }
        self.reads.repeats || loss.is_certain()
    }

    /// Returns the counters and resets them.
    pub fn take_stats(&mut self) -> ResponderStats {
        core::mem::take(&mut self.stats)
    }

    fn clear_responses(&mut self) {
        self.replay.clear();
        self.pending_ack = PendingAck::None;
        self.unrequested = false;
        self.memory_present();
        self.recovery = Recovery::default();
        self.reads = Reads::default();
    }
}

#[cfg(test)]
mod tests;
