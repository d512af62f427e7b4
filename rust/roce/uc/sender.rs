// SPDX-License-Identifier: GPL-2.0

//! The sending half of a UC QP.
//!
//! Owns the one message that is being sent, and the PSN. Nothing is kept of what was sent: nobody
//! asks for it again. Does not know the receiver of its own QP, nor time.
//!
//! IBA: section 9.8.2.1, generating requests of an unreliable connection.

use crate::{
    id::{
        Pkey,
        Qpn, //
    },
    psn::Psn,
    segmentation::{
        mtu::Mtu,
        tx_desc::{
            BurstLimit,
            SlotIndex,
            TxDesc,
            TxPayload, //
        }, //
    },
    status::WcStatus,
    wire::{
        emit::Headers,
        ext::{
            ImmDt,
            Reth, //
        },
        opcode::{
            Opcode,
            Operation,
            Position,
            Service, //
        }, //
    },
    wr::{
        Completion,
        Imm,
        SendOp,
        SendWr,
        WcOpcode,
        MAX_MESSAGE_BYTES, //
    }, //
};

/// The attributes of a sender, as they stand on the way to RTS.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// The peer's QP.
    pub dest_qpn: Qpn,
    /// Partition key to send.
    pub pkey: Pkey,
    /// PSN of the first packet.
    pub first_psn: Psn,
    /// Path MTU.
    pub path_mtu: Mtu,
}

/// What a sender does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UcSendState {
    /// Nothing (RESET, INIT, RTR).
    Idle,
    /// Requests are sent (RTS).
    Ready,
    /// The message that was begun is finished, no further one is begun (SQD).
    Draining,
    /// Requests are flushed (SQE, ERR).
    Error,
}

/// The sending half of a UC QP.
///
/// It has three kinds of method:
///
/// - *commands* move it along with the QP ([`configure`](Self::configure), [`start`](Self::start),
///   [`drain`](Self::drain), [`resume`](Self::resume), [`fail`](Self::fail), [`reset`](Self::reset)),
///   give it a request ([`post`](Self::post), [`reject`](Self::reject)), or withdraw that
///   ([`abort`](Self::abort)) or a packet ([`unsend`](Self::unsend));
/// - [`burst`](Self::burst) and [`poll_completion`](Self::poll_completion) take what it wants done;
/// - *getters*.
///
/// It holds one request at a time. While [`takes`](Self::takes) says so, give it the next; then call
/// `burst` and `poll_completion`, until the latter returns something.
#[derive(Debug)]
pub struct UcSender {
    state: UcSendState,
    config: SenderConfig,
    psn: Psn,
    message: Option<UcSendMessage>,
    sends: u32,
}

/// The request at hand.
#[derive(Clone, Copy, Debug)]
struct UcSendMessage {
    slot: SlotIndex,
    wr: SendWr,
    opcode: WcOpcode,
    /// Number of its packets.
    packets: u32,
    /// How many of them were planned.
    sent: u32,
    /// How it ends, instead of being sent (any further).
    verdict: Option<WcStatus>,
}

impl UcSender {
    /// Makes an idle sender.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: UcSendState::Idle,
            config: SenderConfig {
                dest_qpn: Qpn::default(),
                pkey: Pkey::DEFAULT,
                first_psn: Psn::new(0),
                path_mtu: Mtu::default(),
            },
            psn: Psn::new(0),
            message: None,
            sends: 0,
        }
    }

    // Commands: the QP.

    /// Sets every attribute, and the PSN. Only before [`start`](Self::start).
    pub fn configure(&mut self, config: &SenderConfig) {
        self.config = *config;
        self.psn = config.first_psn;
    }

    /// Starts sending (to RTS).
    pub fn start(&mut self) {
        if self.state == UcSendState::Idle {
            self.state = UcSendState::Ready;
        }
    }

    /// Stops beginning messages (to SQD). See [`is_drained`](Self::is_drained).
    pub fn drain(&mut self) {
        if self.state == UcSendState::Ready {
            self.state = UcSendState::Draining;
        }
    }

    /// Begins messages again (SQD or SQE to RTS).
    pub fn resume(&mut self) {
        if matches!(self.state, UcSendState::Draining | UcSendState::Error) {
            self.state = UcSendState::Ready;
        }
    }

    /// Flushes the request at hand unless it is done, and every one yet to be posted (to ERR).
    pub fn fail(&mut self) {
        self.state = UcSendState::Error;
        if let Some(message) = self.message.as_mut().filter(|message| !message.is_sent()) {
            message.verdict.get_or_insert(WcStatus::WrFlushErr);
        }
    }

    /// Forgets the request at hand without a completion (to RESET).
    pub fn reset(&mut self) {
        self.state = UcSendState::Idle;
        self.message = None;
    }

    // Commands: work.

    /// Takes a work request, if [`takes`](Self::takes) says so; otherwise forgets it.
    ///
    /// One that is longer than [`MAX_MESSAGE_BYTES`] completes with [`WcStatus::LocLenErr`], and one that
    /// UC has no packets for with [`WcStatus::LocQpOpErr`]. Then the send queue is in error, as
    /// [`state`](Self::state) tells.
    pub fn post(&mut self, slot: SlotIndex, wr: SendWr) {
        let verdict = match wr.op {
            SendOp::Send { .. } | SendOp::Write { .. } => {
                (wr.length > MAX_MESSAGE_BYTES).then_some(WcStatus::LocLenErr)
            }
            SendOp::Local(_) => None,
            _ => Some(WcStatus::LocQpOpErr),
        };
        self.put(slot, wr, wr.op.wc_opcode(), verdict);
    }

    /// Lets `perform` carry out the request at hand, if it takes no packet. All before it are complete,
    /// so none of them waits. What `perform` cannot do completes with its status, and the send queue is
    /// in error.
    pub fn perform_local(&mut self, perform: impl FnOnce(SlotIndex) -> Result<(), WcStatus>) {
        let Some(message) = self.message.as_mut().filter(|message| message.is_due()) else {
            return;
        };
        let SendOp::Local(_) = message.wr.op else {
            return;
        };
        match perform(message.slot) {
            Ok(()) => message.sent = message.packets,
            Err(status) => self.abort(status),
        }
    }

    /// Takes the place of a work request that makes no sense. It completes with `status`, and the
    /// send queue is in error.
    pub fn reject(&mut self, slot: SlotIndex, wr_id: u64, opcode: WcOpcode, status: WcStatus) {
        let wr = SendWr {
            wr_id,
            op: SendOp::Send { imm: None },
            length: 0,
            signaled: true,
            solicited: false,
            fence: false,
        };
        self.put(slot, wr, opcode, Some(status));
    }

    /// Withdraws the request at hand, whose memory cannot be read. No packet of it is sent any more;
    /// it completes with `status`, and the send queue is in error. The PSN of the packet that was
    /// planned last is used up, so that the peer sees a gap and forgets the message.
    pub fn abort(&mut self, status: WcStatus) {
        if let Some(message) = &mut self.message {
            message.verdict = Some(status);
            self.state = UcSendState::Error;
        }
    }

    /// Says that the memory of the packet that was planned last is absent: it was not sent, and is the
    /// next to be planned.
    pub fn unsend(&mut self) {
        if let Some(message) = self.message.as_mut().filter(|message| message.sent != 0) {
            message.sent = message.sent.saturating_sub(1);
            self.psn = self.psn.sub(1);
        }
    }

    // Results.

    /// Plans packets of the request at hand, as many as `limit` allows, and takes them off it.
    pub fn burst<'a>(&'a mut self, limit: &'a mut BurstLimit) -> UcBurst<'a> {
        UcBurst {
            sender: self,
            limit,
        }
    }

    /// Takes the request at hand if it is done with: its slot of the ring is free. The completion is
    /// `None` for the success of a request that was not signaled.
    pub fn poll_completion(&mut self) -> Option<Option<Completion>> {
        let message = self.message?;
        let completion = match message.verdict {
            Some(status) => {
                let failed = Completion::failed(message.wr.wr_id, message.opcode, status);
                Some(failed)
            }
            None if !message.is_sent() => return None,
            None => message.wr.signaled.then_some(Completion {
                wr_id: message.wr.wr_id,
                status: WcStatus::Success,
                opcode: message.opcode,
                byte_len: message.wr.length,
                imm: None,
                invalidated: None,
            }),
        };
        let sent = message.verdict.is_none() && message.opcode == WcOpcode::Send;
        self.sends = self.sends.wrapping_add(u32::from(sent));
        self.message = None;
        Some(completion)
    }

    /// Takes the number of SENDs that are complete since it was last taken.
    pub fn take_sends(&mut self) -> u32 {
        core::mem::take(&mut self.sends)
    }

    // Getters.

    /// Returns what the sender does.
    #[inline]
    #[must_use]
    pub const fn state(&self) -> UcSendState {
        self.state
    }

    /// Returns whether it takes a request now, be it to flush it.
    #[inline]
    #[must_use]
    pub const fn takes(&self) -> bool {
        self.message.is_none() && matches!(self.state, UcSendState::Ready | UcSendState::Error)
    }

    /// Returns whether a request is at hand.
    #[inline]
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.message.is_some()
    }

    /// Returns whether the send queue is drained: the QP is in SQD and what was begun is done.
    #[inline]
    #[must_use]
    pub const fn is_drained(&self) -> bool {
        matches!(self.state, UcSendState::Draining) && self.message.is_none()
    }

    /// Returns the path MTU.
    #[inline]
    #[must_use]
    pub const fn path_mtu(&self) -> Mtu {
        self.config.path_mtu
    }

    /// Returns the PSN of the next packet (`sq_psn`).
    #[inline]
    #[must_use]
    pub const fn psn(&self) -> Psn {
        self.psn
    }

    fn put(&mut self, slot: SlotIndex, wr: SendWr, opcode: WcOpcode, verdict: Option<WcStatus>) {
        if !self.takes() {
            return;
        }
        let verdict = match self.state {
            UcSendState::Error => Some(WcStatus::WrFlushErr),
            _ => verdict,
        };
        if verdict.is_some() {
            self.state = UcSendState::Error;
        }
        self.message = Some(UcSendMessage {
            slot,
            wr,
            opcode,
            packets: self.config.path_mtu.packets(wr.length),
            sent: 0,
            verdict,
        });
    }
}

impl Default for UcSender {
    fn default() -> Self {
        Self::new()
    }
}

impl UcSendMessage {
    /// Returns whether something is left to be done of it.
    #[inline]
    const fn is_due(&self) -> bool {
        self.verdict.is_none() && !self.is_sent()
    }

    #[inline]
    const fn is_sent(&self) -> bool {
        self.sent >= self.packets
    }

    #[inline]
    const fn position(&self) -> Position {
        match (self.sent, self.sent.saturating_add(1) >= self.packets) {
            (0, true) => Position::Only,
            (0, false) => Position::First,
            (_, false) => Position::Middle,
            (_, true) => Position::Last,
        }
    }

    /// Returns the next packet; `None` for a request that takes none.
    fn segment(&self, config: &SenderConfig, psn: Psn) -> Option<TxDesc> {
        let (wr, mtu) = (&self.wr, config.path_mtu);
        let position = self.position();
        let (operation, remote, imm) = match wr.op {
            SendOp::Send { imm } => (Operation::Send, None, imm),
            SendOp::Write { remote, imm } => (Operation::RdmaWrite, Some(remote), imm),
            _ => return None,
        };
        let starts = matches!(position, Position::First | Position::Only);
        let ends = matches!(position, Position::Last | Position::Only);
        let imm = imm.filter(|_| ends);
        let opcode = Opcode::of(Service::Uc, operation, position, imm.is_some())?;
        let mut headers = Headers::new(opcode, config.pkey, config.dest_qpn, psn)
            .solicited(wr.solicited && ends && wr.op.uses_receive());
        if let Some(remote) = remote.filter(|_| starts) {
            headers = headers.reth(Reth {
                va: remote.va,
                rkey: remote.rkey,
                len: wr.length,
            });
        }
        if let Some(Imm(bytes)) = imm {
            headers = headers.imm(ImmDt(bytes));
        }
        let length = mtu.payload(self.sent, wr.length);
        let (source, offset) = match length {
            0 => (TxPayload::None, 0),
            _ => (TxPayload::Slot(self.slot), mtu.offset(self.sent, wr.length)),
        };
        Some(TxDesc {
            headers,
            source,
            offset,
            length,
            packets: 1,
        })
    }
}

/// Packets of one message, planned as they are taken. Each counts as sent once it is yielded.
///
/// Made by [`UcSender::burst`].
#[derive(Debug)]
pub struct UcBurst<'a> {
    sender: &'a mut UcSender,
    limit: &'a mut BurstLimit,
}

impl Iterator for UcBurst<'_> {
    type Item = TxDesc;

    fn next(&mut self) -> Option<TxDesc> {
        let sender = &mut *self.sender;
        let message = sender.message.as_mut().filter(|message| message.is_due())?;
        let segment = message.segment(&sender.config, sender.psn)?;
        if !self.limit.take(1, segment.length, false) {
            return None;
        }
        message.sent = message.sent.saturating_add(1);
        sender.psn = sender.psn.next();
        Some(segment)
    }
}

#[cfg(test)]
mod tests;
