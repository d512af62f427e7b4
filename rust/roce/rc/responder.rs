// SPDX-License-Identifier: GPL-2.0

//! The receiving half of an RC QP: its states, its commands and its results.
//!
//! Owns everything that the responder remembers. How requests are carried out is in `execute`,
//! how they are answered in `answer`. Does not know the requester of its own QP.

pub use super::respond::ResponseBurst;

use super::{
    pending_ack::PendingReply,
    replay::{
        Replay, //
        ReplayEntry,
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
        Pkey,
        Qpn,
        Rkey, //
    },
    psn::Psn,
    recv_context::RecvContext,
    segmentation::tx_desc::{
        Mtu,
        RxPayload, //
    },
    status::{
        NakCode,
        WcStatus, //
    },
    wr::{
        AtomicOp,
        Completion,
        FlushScope,
        Placement,
        RecvWr,
        Remote,
        WcOpcode, //
    }, //
};

/// What the responder must ask of whoever holds the memory and the receive queue, beside what any
/// receiver of messages asks.
pub trait RequestContext: RecvContext {
    /// Does `op` to the eight bytes at `remote`, an aligned address, if the peer may do
    /// [`Access::REMOTE_ATOMIC`] to them. Returns what they were, in the order of this machine.
    ///
    /// # Errors
    ///
    /// Why it cannot, or that memory is absent. Nothing has changed then.
    fn execute_atomic(
        &mut self,
        remote: Remote,
        op: AtomicOp,
    ) -> Result<u64, Obstacle<AccessError>>;

    /// Copies `payload`, eight bytes, to `remote`, an aligned address, as one store after all others.
    ///
    /// # Errors
    ///
    /// Why it cannot, or that memory is absent. Nothing has changed then.
    fn write_atomic(
        &mut self,
        remote: Remote,
        payload: RxPayload,
    ) -> Result<(), Obstacle<AccessError>>;

    /// Brings what was written to where it shall be, if the peer may ask for that. Not for 0 bytes.
    ///
    /// # Errors
    ///
    /// Why it cannot, or that it is under way: then it is to be asked for again.
    fn flush(
        &mut self,
        remote: Remote,
        scope: FlushScope,
        placement: Placement,
    ) -> Result<(), Obstacle<AccessError>>;

    /// Takes the key `rkey` back, as the peer asks.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    fn invalidate(&mut self, rkey: Rkey) -> Result<(), AccessError>;
}

/// The attributes of a responder, as they stand on the way to RTR.
#[derive(Clone, Copy, Debug)]
pub struct ResponderConfig {
    /// The peer's QP.
    pub dest_qpn: Qpn,
    /// Partition key to send.
    pub pkey: Pkey,
    /// PSN of the first request.
    pub expected_psn: Psn,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// What the peer may do to memory at all (`qp_access_flags`).
    pub access: Access,
    /// Pause to ask for where no receive is posted, as a code of five bits.
    pub min_rnr_timer: u8,
}

/// What a responder does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResponderState {
    /// Nothing.
    Reset,
    /// Requests are dropped (INIT).
    Init,
    /// Requests are carried out (RTR and all that follow).
    Ready,
    /// Requests are dropped (ERR).
    Error,
}

/// Why a responder took itself to the error state. The QP must follow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fatal {
    /// The peer asked for memory that it has no right to (C9-222.1). C:
    /// `IB_EVENT_QP_ACCESS_ERR`.
    AccessError,
    /// The peer asked for something that makes no sense. C: `IB_EVENT_QP_REQ_ERR`.
    RequestError,
    /// A receive failed, and its completion says so. No event.
    LocalError,
}

/// How often things happened since the counts were last taken.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ResponderStats {
    /// Receives that got a message.
    pub receives: u32,
    /// Requests that came again.
    pub duplicates: u32,
    /// Requests that came too early: one before them is missing.
    pub out_of_sequence: u32,
    /// Reports of a missing request that were sent.
    pub sequence_naks: u32,
    /// Requests that found no receive posted.
    pub rnr_naks: u32,
    /// Requests that were refused for good.
    pub fatal_naks: u32,
    /// Acknowledgements that were sent.
    pub acks: u32,
}

/// The receiving half of an RC QP.
///
/// It has four kinds of method:
///
/// - *commands* move it along with the QP ([`configure`](Self::configure), [`init`](Self::init),
///   [`start`](Self::start), [`fail`](Self::fail), [`reset`](Self::reset)) or tell that memory
///   cannot be read ([`abort_read`](Self::abort_read)), or not yet ([`unsend`](Self::unsend),
///   [`stall`](Self::stall));
/// - [`handle_request`](Self::handle_request) takes a packet;
/// - [`burst`](Self::burst), [`take_event`](Self::take_event) and [`abandon`](Self::abandon) take
///   what it wants done;
/// - *getters*.
///
/// Call `handle_request` for each packet of a run, then `burst` until it yields nothing or the
/// caller has had enough: so a run of requests is answered once. When `take_event` gives
/// something, take the QP to the error state, but send what `burst` still yields: the peer must
/// learn why.
///
/// `A` is storage for the requests that are to be answered or might be asked for again, as many
/// as the peer may have outstanding (`max_dest_rd_atomic`).
#[derive(Debug)]
pub struct Responder<A> {
    pub(super) state: ResponderState,
    pub(super) config: ResponderConfig,
    /// PSN of the next request.
    pub(super) expected: Psn,
    /// Number of messages completed.
    pub(super) msn: Msn,
    pub(super) message: RcMessage,
    /// A receive that was taken for a message of which nothing could be placed yet: memory was
    /// absent.
    pub(super) held: Option<RecvWr>,
    pub(super) replay: Replay<A>,
    pub(super) reply: PendingReply,
    pub(super) recovery: Recovery,
    /// PSN after the read response that was planned last.
    pub(super) read_end: Psn,
    pub(super) stats: ResponderStats,
    pub(super) fatal: Option<Fatal>,
}

/// The message of which a part has arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RcMessage {
    /// None.
    None,
    /// A SEND, into this receive.
    Send { wr: RecvWr, received: u32 },
    /// An RDMA WRITE of `length` bytes, of which `left` are to come, to `next` first.
    Write {
        next: Remote,
        left: u32,
        length: u32,
    },
}

/// What is known about requests that came too early.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Recovery {
    /// The peer was told, or is about to be, to go back to the expected request.
    pub(super) told: bool,
    /// The latest of the requests that were dropped meanwhile.
    pub(super) latest: Option<Psn>,
}

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Makes a responder in the reset state.
    pub fn new(storage: A) -> Self {
        Self {
            state: ResponderState::Reset,
            config: ResponderConfig {
                dest_qpn: Qpn::default(),
                pkey: Pkey::DEFAULT,
                expected_psn: Psn::new(0),
                path_mtu: Mtu::default(),
                access: Access::NONE,
                min_rnr_timer: 0,
            },
            expected: Psn::new(0),
            msn: Msn::new(0),
            message: RcMessage::None,
            held: None,
            replay: Replay::new(storage),
            reply: PendingReply::None,
            recovery: Recovery::default(),
            read_end: Psn::new(0),
            stats: ResponderStats::default(),
            fatal: None,
        }
    }

    // Commands.

    /// Sets every attribute, and the PSN. Only before [`start`](Self::start).
    pub fn configure(&mut self, config: &ResponderConfig) {
        self.config = *config;
        self.expected = config.expected_psn;
        self.msn = Msn::new(0);
        self.forget();
    }

    /// Sets what the peer may do to memory, from now on: of a WRITE that has begun, no more is placed without the
    /// right, and of a READ, no more is sent. Both are refused as if they were new.
    pub fn set_access(&mut self, access: Access) {
        self.config.access = access;
        if !access.contains(Access::REMOTE_READ) {
            self.replay.leave_repeats();
        }
    }

    /// Sets the pause to ask for where no receive is posted, a code of five bits.
    pub fn set_min_rnr_timer(&mut self, code: u8) {
        self.config.min_rnr_timer = code;
    }

    /// Sets the partition key to send.
    pub fn set_pkey(&mut self, pkey: Pkey) {
        self.config.pkey = pkey;
    }

    /// Puts another storage in place, with what fits of the old one's answers. Returns that.
    pub fn replace_storage(&mut self, storage: A) -> A {
        self.replay.replace(storage)
    }

    /// Receives may be posted, requests are still dropped (to INIT).
    pub fn init(&mut self) {
        if self.state == ResponderState::Reset {
            self.state = ResponderState::Init;
        }
    }

    /// Starts to carry out requests (to RTR).
    pub fn start(&mut self) {
        if matches!(self.state, ResponderState::Reset | ResponderState::Init) {
            self.state = ResponderState::Ready;
        }
    }

    /// Drops requests from now on (to ERR). What is not answered yet stays so, unless the
    /// responder itself was the first to fail: its last answers still leave.
    pub fn fail(&mut self) {
        if self.state != ResponderState::Error {
            self.abort_replies();
        }
    }

    /// As [`fail`](Self::fail), and nothing leaves any more: the consumer wants it so.
    pub fn abort_replies(&mut self) {
        self.state = ResponderState::Error;
        self.replay.clear();
        self.reply = PendingReply::None;
    }

    /// Forgets everything but the attributes (to RESET).
    pub fn reset(&mut self) {
        self.state = ResponderState::Reset;
        self.message = RcMessage::None;
        self.held = None;
        self.fatal = None;
        self.forget();
    }

    /// Says that memory of the read response that was planned last cannot be read, for whatever
    /// reason: its last `packets` packets were not sent. They and those planned before it that were not
    /// sent count as lost; the peer is told, and the responder is in the error state.
    ///
    /// One that is repeated is only given up. Its peer may have had it long ago, and have taken the key away
    /// since; if not, it asks until it has asked often enough. Nor is anything acknowledged instead: a peer might
    /// take that for the data.
    pub fn abort_read(&mut self, packets: u32, _error: AccessError) {
        let psn = self.read_end.sub(packets);
        if self.replay.give_up(psn) {
            return;
        }
        self.replay.clear();
        self.refuse(psn, NakCode::RemoteAccess, Fatal::AccessError);
    }

    /// Says that memory of the read response that was planned last is absent: its last `packets` packets
    /// were not sent, and are the next to be planned.
    pub fn unsend(&mut self, packets: u32) {
        self.replay.unsend(self.read_end.sub(packets));
    }

    /// Acknowledges what has arrived with the next [`burst`](Self::burst), even if the peer did not ask for
    /// it.
    pub fn confirm(&mut self) {
        if self.reply == PendingReply::None && self.state == ResponderState::Ready {
            self.owe_ack();
        }
    }

    // Results.

    /// Takes the reason for which the responder went to the error state, once.
    pub fn take_event(&mut self) -> Option<Fatal> {
        self.fatal.take()
    }

    /// Takes the receive in progress, as flushed. To be called in the error state, before the
    /// receives that are only posted are flushed.
    pub fn abandon(&mut self) -> Option<Completion> {
        let wr = match core::mem::replace(&mut self.message, RcMessage::None) {
            RcMessage::Send { wr, .. } => Some(wr),
            RcMessage::None | RcMessage::Write { .. } => self.held.take(),
        }?;
        Some(Completion::failed(
            wr.wr_id,
            WcOpcode::Recv,
            WcStatus::WrFlushErr,
        ))
    }

    // Getters.

    /// Returns what the responder does.
    #[inline]
    #[must_use]
    pub const fn state(&self) -> ResponderState {
        self.state
    }

    /// Returns why the responder went to the error state, until it is taken.
    #[inline]
    #[must_use]
    pub const fn error(&self) -> Option<Fatal> {
        self.fatal
    }

    /// Returns whether there is something to send.
    #[inline]
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.reply != PendingReply::None || self.replay.pending().is_some()
    }

    /// Returns whether further requests make sense: none is missing, must wait or is refused.
    #[inline]
    #[must_use]
    pub const fn is_in_sync(&self) -> bool {
        matches!(self.reply, PendingReply::None | PendingReply::Ack { .. })
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
        self.config.dest_qpn
    }

    /// Returns the PSN of the next request (`rq_psn`).
    #[inline]
    #[must_use]
    pub const fn expected_psn(&self) -> Psn {
        self.expected
    }

    /// Takes the counts of what happened since they were last taken.
    pub fn take_stats(&mut self) -> ResponderStats {
        core::mem::take(&mut self.stats)
    }

    fn forget(&mut self) {
        self.replay.clear();
        self.reply = PendingReply::None;
        self.recovery = Recovery::default();
    }
}

#[cfg(test)]
mod tests;
