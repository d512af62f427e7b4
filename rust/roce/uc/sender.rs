// SPDX-License-Identifier: GPL-2.0

//! The requester side of a UC QP: the counterpart of [`Requester`](crate::rc::requester::Requester)
//! without responses.
//!
//! It holds the message being sent and the PSN. Unlike in rc, a request completes when its last packet
//! is planned, so there is no send window, no retransmission and no timer.
//!
//! IBA: section 9.8.2.1, generating requests of an unreliable connection.

use crate::{
    id::Qpn,
    message::{
        connection::Connection,
        request::RequestPart,
        retired::Retired, //
    },
    psn::Psn,
    segmentation::{
        mtu::Mtu,
        tx_desc::{
            BurstLimit,
            SlotIndex,
            TxDesc, //
        }, //
    },
    status::WcStatus,
    wire::opcode::Service,
    wr::{
        SendOp,
        SendWr,
        WcOpcode,
        MAX_MESSAGE_BYTES, //
    }, //
};

/// Attributes of a sender for the transition to RTS.
#[derive(Clone, Copy, Debug)]
pub struct SenderConfig {
    /// Service and peer.
    pub connection: Connection,
    /// PSN of the first packet.
    pub first_psn: Psn,
    /// Path MTU.
    pub path_mtu: Mtu,
}

/// State of a sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UcSendState {
    /// Not sending (RESET, INIT, RTR).
    Idle,
    /// Requests are sent (RTS).
    Ready,
    /// The current message is completed, no new one is started (SQD).
    Draining,
    /// Requests are flushed (SQE, ERR).
    Error,
}

/// The sender of a UC QP.
///
/// It has three kinds of method:
///
/// - *commands* change the state with the QP ([`configure`](Self::configure),
///   [`start`](Self::start), [`drain`](Self::drain), [`resume`](Self::resume),
///   [`fail`](Self::fail), [`reset`](Self::reset)), post a request ([`post`](Self::post),
///   [`reject`](Self::reject)), or withdraw a request ([`abort`](Self::abort)) or a packet
///   ([`unsend`](Self::unsend));
/// - [`burst`](Self::burst) and [`poll_completion`](Self::poll_completion) return the resulting
///   work;
/// - *getters*.
///
/// It holds one request at a time. While [`accepts_requests`](Self::accepts_requests) returns true,
/// post the next one; then call `burst` and `poll_completion` until the latter returns something.
#[derive(Debug)]
pub struct UcSender {
    state: UcSendState,
    config: SenderConfig,
    psn: Psn,
    message: Option<UcSendMessage>,
    sends: u32,
}

/// The current request.
#[derive(Clone, Copy, Debug)]
struct UcSendMessage {
    slot: SlotIndex,
    wr: SendWr,
    opcode: WcOpcode,
    /// Number of packets.
    packets: u32,
    /// Number of packets planned.
    sent: u32,
    /// Final status of a request that is not sent (completely).
    status: Option<WcStatus>,
}

impl UcSender {
    /// Creates a sender in the idle state.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: UcSendState::Idle,
            config: SenderConfig {
                connection: Connection::new(Service::Uc, Qpn::GSI),
                first_psn: Psn::new(0),
                path_mtu: Mtu::default(),
            },
            psn: Psn::new(0),
            message: None,
            sends: 0,
        }
    }

    // Commands: the QP.

    /// Sets all attributes and the PSN. Call only before [`start`](Self::start).
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

    /// Stops starting messages (to SQD). See [`is_drained`](Self::is_drained).
    pub fn drain(&mut self) {
        if self.state == UcSendState::Ready {
            self.state = UcSendState::Draining;
        }
    }

    /// Starts messages again (SQD or SQE to RTS).
    pub fn resume(&mut self) {
        if matches!(self.state, UcSendState::Draining | UcSendState::Error) {
            self.state = UcSendState::Ready;
        }
    }

    /// Flushes the current request, unless it is sent completely, and all later requests (to ERR).
    pub fn fail(&mut self) {
        self.state = UcSendState::Error;
        if let Some(message) = self.message.as_mut().filter(|message| !message.is_sent()) {
            message.status.get_or_insert(WcStatus::WrFlushErr);
        }
    }

    /// Discards the current request without a completion (to RESET).
    pub fn reset(&mut self) {
        self.state = UcSendState::Idle;
        self.message = None;
    }

    // Commands: work.

    /// Posts a WR. Call it only if [`accepts_requests`](Self::accepts_requests) returns true;
    /// otherwise the WR is ignored.
    ///
    /// A request longer than [`MAX_MESSAGE_BYTES`] completes with [`WcStatus::LocLenErr`], one that
    /// UC does not support with [`WcStatus::LocQpOpErr`]. Either moves the send queue to the error
    /// state, see [`state`](Self::state).
    pub fn post(&mut self, slot: SlotIndex, wr: SendWr) {
        let status = match wr.op {
            SendOp::Send { .. } | SendOp::Write { .. } => {
                (wr.length > MAX_MESSAGE_BYTES).then_some(WcStatus::LocLenErr)
            }
            SendOp::Local(_) => None,
            _ => Some(WcStatus::LocQpOpErr),
        };
        self.accept(slot, wr, wr.op.wc_opcode(), status);
    }

    /// Executes the current request with `perform`, if it is a local operation. All earlier
    /// requests are complete. If `perform` fails, the request completes with its status, and the
    /// send queue enters the error state.
    pub fn perform_local(&mut self, perform: impl FnOnce(SlotIndex) -> Result<(), WcStatus>) {
        let Some(message) = self
            .message
            .as_mut()
            .filter(|message| message.has_packets_left())
        else {
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

    /// Posts an invalid WR. It completes with `status`, and the send queue enters the error state.
    pub fn reject(&mut self, slot: SlotIndex, wr_id: u64, opcode: WcOpcode, status: WcStatus) {
        self.accept(slot, SendWr::invalid(wr_id), opcode, Some(status));
    }

    /// Aborts the current request because its memory cannot be read. No further packet of it is
    /// sent. It completes with `status`, and the send queue enters the error state. The PSN of the
    /// packet planned last stays used: the peer detects a gap and discards the message.
    pub fn abort(&mut self, status: WcStatus) {
        if let Some(message) = &mut self.message {
            message.status = Some(status);
            self.state = UcSendState::Error;
        }
    }

    /// Withdraws the packet planned last, whose memory is not present. It is planned again next.
    pub fn unsend(&mut self) {
        if let Some(message) = self.message.as_mut().filter(|message| message.sent != 0) {
            message.sent = message.sent.saturating_sub(1);
            self.psn = self.psn.sub(1);
        }
    }

    // Results.

    /// Plans packets of the current request within `limit`, and deducts them from it.
    pub fn burst<'a>(&'a mut self, limit: &'a mut BurstLimit) -> UcBurst<'a> {
        UcBurst {
            sender: self,
            limit,
        }
    }

    /// Retires the current request if it is complete.
    pub fn poll_completion(&mut self) -> Option<Retired<SendWr>> {
        let message = self.message?;
        let status = match message.status {
            Some(status) => status,
            None if message.is_sent() => WcStatus::Success,
            None => return None,
        };
        let sent = status == WcStatus::Success && message.opcode == WcOpcode::Send;
        self.sends = self.sends.wrapping_add(u32::from(sent));
        self.message = None;
        let UcSendMessage { slot, opcode, .. } = message;
        Some(Retired::new(slot, message.wr, opcode, status))
    }

    /// Returns the number of SENDs completed since the last call.
    pub fn take_sends(&mut self) -> u32 {
        core::mem::take(&mut self.sends)
    }

    // Getters.

    /// Returns the state.
    #[inline]
    #[must_use]
    pub const fn state(&self) -> UcSendState {
        self.state
    }

    /// Returns whether a request can be posted now, including one that will be flushed.
    #[inline]
    #[must_use]
    pub const fn accepts_requests(&self) -> bool {
        self.message.is_none() && matches!(self.state, UcSendState::Ready | UcSendState::Error)
    }

    /// Returns whether there is a current request.
    #[inline]
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.message.is_some()
    }

    /// Returns whether the send queue is drained: the QP is in SQD and the last started request is
    /// complete.
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

    fn accept(&mut self, slot: SlotIndex, wr: SendWr, opcode: WcOpcode, status: Option<WcStatus>) {
        if !self.accepts_requests() {
            return;
        }
        let status = match self.state {
            UcSendState::Error => Some(WcStatus::WrFlushErr),
            _ => status,
        };
        if status.is_some() {
            self.state = UcSendState::Error;
        }
        self.message = Some(UcSendMessage {
            slot,
            wr,
            opcode,
            packets: self.config.path_mtu.packets(wr.length),
            sent: 0,
            status,
        });
    }
}

impl Default for UcSender {
    fn default() -> Self {
        Self::new()
    }
}

impl UcSendMessage {
    /// Returns whether packets remain to be planned.
    #[inline]
    const fn has_packets_left(&self) -> bool {
        self.status.is_none() && !self.is_sent()
    }

    #[inline]
    const fn is_sent(&self) -> bool {
        self.sent >= self.packets
    }

    /// Returns the next packet; `None` for a local operation.
    fn next_packet(&self, config: &SenderConfig, psn: Psn) -> Option<TxDesc> {
        let (wr, mtu) = (&self.wr, config.path_mtu);
        let part = RequestPart::new(self.sent, self.sent.saturating_add(1), self.packets);
        let length = mtu.payload(self.sent, wr.length);
        let headers = part.headers(&config.connection, wr, mtu, psn)?;
        Some(part.describe(headers, (self.slot, wr), mtu, (1, length)))
    }
}

/// Packets of one message, planned by iteration. A packet counts as sent when it is returned.
///
/// Returned by [`UcSender::burst`].
#[derive(Debug)]
pub struct UcBurst<'a> {
    sender: &'a mut UcSender,
    limit: &'a mut BurstLimit,
}

impl Iterator for UcBurst<'_> {
    type Item = TxDesc;

    fn next(&mut self) -> Option<TxDesc> {
        let sender = &mut *self.sender;
        let message = sender
            .message
            .as_mut()
            .filter(|message| message.has_packets_left())?;
        let tx_desc = message.next_packet(&sender.config, sender.psn)?;
        if !self.limit.take(1, tx_desc.length, false) {
            return None;
        }
        message.sent = message.sent.saturating_add(1);
        sender.psn = sender.psn.next();
        Some(tx_desc)
    }
}

#[cfg(test)]
mod tests;
