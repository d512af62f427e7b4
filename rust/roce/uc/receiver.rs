// SPDX-License-Identifier: GPL-2.0

//! The responder side of a UC QP: the counterpart of [`Responder`](crate::rc::responder::Responder)
//! without responses.
//!
//! A packet that is missing or cannot be executed loses its message and no other; the next message
//! starts with its first packet. The receive of the lost message is kept for the next one. In rc, such
//! a packet is requested again or moves the QP to the error state.
//!
//! IBA: section 9.8.2.2, inbound requests of an unreliable connection; C9-88 (length 0). Deviation:
//! late and duplicate packets are dropped, see [`MAX_LATE_PACKETS`].

use crate::{
    access::{
        Access,
        Obstacle,
        Taken, //
    },
    psn::Psn,
    recv_context::RecvContext,
    segmentation::{
        mtu::Mtu,
        tx_desc::RxPayload, //
    },
    status::{
        DropReason,
        WcStatus, //
    },
    wire::{
        ext::{
            ImmDt,
            Reth, //
        },
        opcode::{
            Operation,
            Service, //
        },
        packet::Packet, //
    },
    wr::{
        BadRecv,
        Completion,
        Imm,
        RecvWr,
        Remote,
        WcOpcode,
        MAX_MESSAGE_BYTES, //
    }, //
};

/// A packet at most this far behind the expected PSN is late or a duplicate and is dropped. A
/// packet that is further behind counts as ahead: the packets in between were lost.
///
/// IBA accepts any first packet as the start of a message. IP networks duplicate and reorder
/// packets, so that messages would be delivered twice.
pub const MAX_LATE_PACKETS: u32 = 4096;

/// Attributes of a receiver for the transition to RTR.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverConfig {
    /// PSN of the first packet.
    pub expected_psn: Psn,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Access that the QP grants the peer (`qp_access_flags`).
    pub access: Access,
}

/// State of a receiver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UcRecvState {
    /// Packets are dropped (RESET, INIT).
    Idle,
    /// Packets are handled (RTR and later states).
    Ready,
    /// Packets are dropped (ERR).
    Error,
}

/// The receiver of a UC QP.
///
/// Pass packets to [`handle_request`](Self::handle_request). If
/// [`take_failure`](Self::take_failure) returns true afterwards, move the QP to the error state;
/// then [`flush_receive`](Self::flush_receive) returns the receive in progress.
#[derive(Debug)]
pub struct UcReceiver {
    state: UcRecvState,
    config: ReceiverConfig,
    /// PSN of the next packet.
    expected: Psn,
    message: UcRecvMessage,
    /// The receive in progress.
    held_receive: Option<RecvWr>,
    failed: bool,
    receives: u32,
}

/// The message in progress.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum UcRecvMessage {
    /// None, or a message that will not be delivered.
    None,
    /// A SEND, into the held receive.
    Send { received: u32 },
    /// An RDMA WRITE of `length` bytes. `left` of them are missing; the next one goes to `next`.
    Write {
        next: Remote,
        left: u32,
        length: u32,
    },
}

impl UcReceiver {
    /// Creates a receiver in the idle state.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: UcRecvState::Idle,
            config: ReceiverConfig {
                expected_psn: Psn::new(0),
                path_mtu: Mtu::default(),
                access: Access::NONE,
            },
            expected: Psn::new(0),
            message: UcRecvMessage::None,
            held_receive: None,
            failed: false,
            receives: 0,
        }
    }

    // Commands.

    /// Sets all attributes and the expected PSN. Call only before [`start`](Self::start).
    pub fn configure(&mut self, config: &ReceiverConfig) {
        self.config = *config;
        self.expected = config.expected_psn;
    }

    /// Sets the access that the QP grants the peer.
    pub fn set_access(&mut self, access: Access) {
        self.config.access = access;
    }

    /// Starts handling packets (to RTR).
    pub fn start(&mut self) {
        if self.state == UcRecvState::Idle {
            self.state = UcRecvState::Ready;
        }
    }

    /// Drops packets from now on (to ERR).
    pub fn fail(&mut self) {
        self.state = UcRecvState::Error;
        self.message = UcRecvMessage::None;
    }

    /// Discards all state except the attributes (to RESET).
    pub fn reset(&mut self) {
        self.state = UcRecvState::Idle;
        self.message = UcRecvMessage::None;
        self.held_receive = None;
        self.failed = false;
    }

    /// Handles a packet from the peer. If the result is [`Taken::Paused`], the state is unchanged.
    ///
    /// Unlike in rc, an error loses the message that the packet belongs to, but does not affect the
    /// QP, unless [`take_failure`](Self::take_failure) returns true afterwards.
    ///
    /// # Errors
    ///
    /// - [`DropReason::WrongQpState`], [`DropReason::WrongService`].
    /// - [`DropReason::BadSequence`]: the packet is late or a duplicate, or does not continue the
    ///   current message.
    /// - [`DropReason::BadLength`]: the length of the payload or message is invalid, or exceeds the
    ///   receive.
    /// - [`DropReason::NoReceiveBuffer`], [`DropReason::AccessDenied`].
    pub fn handle_request(
        &mut self,
        packet: &Packet<'_>,
        context: &mut impl RecvContext,
    ) -> Result<Taken, DropReason> {
        if self.state != UcRecvState::Ready {
            return Err(DropReason::WrongQpState);
        }
        let opcode = packet.opcode();
        if opcode.service() != Service::Uc {
            return Err(DropReason::WrongService);
        }
        let psn = packet.psn();
        // 0 for the expected packet.
        let behind = self.expected.since(psn);
        if (1..=MAX_LATE_PACKETS).contains(&behind) {
            return Err(DropReason::BadSequence);
        }
        let before = (self.expected, self.message);
        let interrupted = behind != 0 || opcode.starts_message();
        let message = match interrupted {
            true => UcRecvMessage::None,
            false => self.message,
        };
        self.expected = psn.next();
        // Restored only if the packet is executed.
        self.message = UcRecvMessage::None;
        let outcome = match opcode.operation() {
            Operation::Send => self.on_send(message, packet, context),
            Operation::RdmaWrite => self.on_write(message, packet, context),
            _ => Err(DropReason::WrongService.into()),
        };
        match outcome {
            Ok(()) => Ok(Taken::Whole),
            Err(Obstacle::Refused(reason)) => Err(reason),
            Err(Obstacle::Absent) => {
                (self.expected, self.message) = before;
                Ok(Taken::Paused)
            }
        }
    }

    /// Returns, once, whether the receiver entered the error state because a receive failed. The
    /// completion reports the error. The QP must follow.
    pub fn take_failure(&mut self) -> bool {
        core::mem::replace(&mut self.failed, false)
    }

    /// Returns the number of receives completed with a message since the last call.
    pub fn take_receives(&mut self) -> u32 {
        core::mem::take(&mut self.receives)
    }

    /// Returns the flushed completion of the receive in progress. Call it in the error state,
    /// before the posted receives are flushed.
    pub fn flush_receive(&mut self) -> Option<Completion> {
        let RecvWr { wr_id, .. } = self.held_receive.take()?;
        Some(Completion::failed(
            wr_id,
            WcOpcode::Recv,
            WcStatus::WrFlushErr,
        ))
    }

    // Getters.

    /// Returns the state.
    #[inline]
    #[must_use]
    pub const fn state(&self) -> UcRecvState {
        self.state
    }

    /// Returns the PSN of the next packet (`rq_psn`).
    #[inline]
    #[must_use]
    pub const fn expected_psn(&self) -> Psn {
        self.expected
    }

    // Operations. Each restores the message in progress unless this packet completes it.

    fn on_send(
        &mut self,
        message: UcRecvMessage,
        packet: &Packet<'_>,
        context: &mut impl RecvContext,
    ) -> Result<(), Obstacle<DropReason>> {
        let received = match (message, packet.opcode().starts_message()) {
            (UcRecvMessage::None, true) => 0,
            (UcRecvMessage::Send { received }, false) => received,
            _ => return Err(DropReason::BadSequence.into()),
        };
        let len = self.checked_len(packet)?;
        let wr = self.hold_receive(context, WcOpcode::Recv)?;
        let end = received
            .checked_add(len)
            .filter(|&end| end <= wr.length)
            .ok_or(DropReason::BadLength)?;
        if let Some(payload) = RxPayload::of(packet) {
            match context.place_receive(received, payload) {
                Ok(()) => {}
                Err(Obstacle::Absent) => return Err(Obstacle::Absent),
                Err(Obstacle::Refused(status)) => {
                    self.held_receive = None;
                    self.enter_error();
                    let failed = Completion::failed(wr.wr_id, WcOpcode::Recv, status);
                    context.complete_receive(failed, packet.solicited());
                    return Ok(());
                }
            }
        }
        if packet.opcode().ends_message() {
            self.complete(wr, WcOpcode::Recv, end, packet, context);
        } else {
            self.message = UcRecvMessage::Send { received: end };
        }
        Ok(())
    }

    fn on_write(
        &mut self,
        message: UcRecvMessage,
        packet: &Packet<'_>,
        context: &mut impl RecvContext,
    ) -> Result<(), Obstacle<DropReason>> {
        let (next, left, length) = match (message, packet.reth()) {
            (UcRecvMessage::None, Some(reth)) => {
                (self.check_write(&reth, context)?, reth.len, reth.len)
            }
            // The access right may have been removed since the message started.
            (UcRecvMessage::Write { .. }, None)
                if !self.config.access.contains(Access::REMOTE_WRITE) =>
            {
                return Err(DropReason::AccessDenied.into());
            }
            (UcRecvMessage::Write { next, left, length }, None) => (next, left, length),
            _ => return Err(DropReason::BadSequence.into()),
        };
        let len = self.checked_len(packet)?;
        let ends = packet.opcode().ends_message();
        let after = left
            .checked_sub(len)
            .filter(|&after| ends == (after == 0))
            .ok_or(DropReason::BadLength)?;
        let wr = match packet.imm() {
            Some(_) => Some(self.hold_receive(context, WcOpcode::RecvRdmaWithImm)?),
            None => None,
        };
        if let Some(payload) = RxPayload::of(packet) {
            context
                .place_remote(next, payload, left)
                .map_err(|obstacle| obstacle.map(|_| DropReason::AccessDenied))?;
        }
        match wr {
            Some(wr) => self.complete(wr, WcOpcode::RecvRdmaWithImm, length, packet, context),
            None if ends => {}
            None => {
                self.message = UcRecvMessage::Write {
                    next: next.advance(len),
                    left: after,
                    length,
                };
            }
        }
        Ok(())
    }

    /// Completes the held receive with the message that `packet` ends.
    fn complete(
        &mut self,
        wr: RecvWr,
        opcode: WcOpcode,
        byte_len: u32,
        packet: &Packet<'_>,
        context: &mut impl RecvContext,
    ) {
        self.held_receive = None;
        self.receives = self.receives.wrapping_add(1);
        let completion = Completion {
            wr_id: wr.wr_id,
            status: WcStatus::Success,
            opcode,
            byte_len,
            imm: packet.imm().map(|ImmDt(bytes)| Imm(bytes)),
            invalidated: None,
        };
        context.complete_receive(completion, packet.solicited());
    }

    /// Enters the error state because a receive has failed.
    fn enter_error(&mut self) {
        self.fail();
        self.failed = true;
    }

    // Checks.

    /// Returns the length of the payload if it is valid for the position of the packet.
    fn checked_len(&self, packet: &Packet<'_>) -> Result<u32, DropReason> {
        let len = u32::try_from(packet.payload_len()).map_err(|_| DropReason::BadLength)?;
        self.config
            .path_mtu
            .allows_payload(packet.opcode().position(), len)
            .then_some(len)
            .ok_or(DropReason::BadLength)
    }

    /// Checks that the peer may write to the range in the RETH. Returns its address. A range of
    /// length 0 is not checked (C9-88).
    fn check_write(
        &self,
        reth: &Reth,
        context: &mut impl RecvContext,
    ) -> Result<Remote, Obstacle<DropReason>> {
        let remote = Remote::from(reth);
        let access = Access::REMOTE_WRITE;
        if !self.config.access.contains(access) || reth.len > MAX_MESSAGE_BYTES {
            return Err(DropReason::AccessDenied.into());
        }
        if reth.len != 0 {
            context
                .check_remote(remote, reth.len, access)
                .map_err(|obstacle| obstacle.map(|_| DropReason::AccessDenied))?;
        }
        Ok(remote)
    }

    /// Returns the held receive, or takes one. A receive that cannot be used completes immediately
    /// with `opcode`, and the receiver enters the error state.
    fn hold_receive(
        &mut self,
        context: &mut impl RecvContext,
        opcode: WcOpcode,
    ) -> Result<RecvWr, DropReason> {
        if let Some(wr) = self.held_receive {
            return Ok(wr);
        }
        match context.take_receive().ok_or(DropReason::NoReceiveBuffer)? {
            Ok(wr) => {
                self.held_receive = Some(wr);
                Ok(wr)
            }
            Err(BadRecv { wr_id, status }) => {
                self.enter_error();
                context.complete_receive(Completion::failed(wr_id, opcode, status), false);
                Err(DropReason::NoReceiveBuffer)
            }
        }
    }
}

impl Default for UcReceiver {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
