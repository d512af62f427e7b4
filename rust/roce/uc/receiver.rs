// SPDX-License-Identifier: GPL-2.0

//! The receiving half of a UC QP.
//!
//! Owns the PSN that is due, the message of which a part has arrived, and the receive that was taken
//! for it. A packet that is missing, or that cannot be carried out, costs the message it belongs to and
//! no other: the next first packet of a message begins it. The receive stays for that one, so the
//! consumer loses none. Does not know the sender of its own QP.
//!
//! IBA: section 9.8.2.2, inbound requests of an unreliable connection; C9-88 (length 0). Not done: a
//! request that came again is not carried out again, see [`STALE`].

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

/// How far behind the PSN that is due a packet counts as one that came again, or late: it is dropped.
/// From there on, the whole circle lies ahead: so many packets were lost.
///
/// IBA would take any first packet as the beginning of a message. But an IP network repeats and
/// reorders packets, and would deliver messages twice.
pub const STALE: u32 = 4096;

/// The attributes of a receiver, as they stand on the way to RTR.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverConfig {
    /// PSN of the first packet.
    pub expected_psn: Psn,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// What the peer may do to memory at all (`qp_access_flags`).
    pub access: Access,
}

/// What a receiver does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UcRecvState {
    /// Packets are dropped (RESET, INIT).
    Idle,
    /// Packets are taken (RTR and all that follow).
    Ready,
    /// Packets are dropped (ERR).
    Error,
}

/// The receiving half of a UC QP.
///
/// Give packets to [`handle`](Self::handle). When [`take_failure`](Self::take_failure) says so
/// afterwards, take the QP to the error state; there, [`abandon`](Self::abandon) yields the receive in
/// progress.
#[derive(Debug)]
pub struct UcReceiver {
    state: UcRecvState,
    config: ReceiverConfig,
    /// PSN of the next packet.
    expected: Psn,
    message: UcRecvMessage,
    /// The receive that was taken and is not complete.
    held: Option<RecvWr>,
    failed: bool,
    receives: u32,
}

/// The message of which a part has arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum UcRecvMessage {
    /// None, or one that will not be delivered.
    None,
    /// A SEND, into the receive that is held.
    Send { received: u32 },
    /// An RDMA WRITE of `length` bytes, of which `left` are to come, to `next` first.
    Write {
        next: Remote,
        left: u32,
        length: u32,
    },
}

impl UcReceiver {
    /// Makes an idle receiver.
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
            held: None,
            failed: false,
            receives: 0,
        }
    }

    // Commands.

    /// Sets every attribute, and the PSN. Only before [`start`](Self::start).
    pub fn configure(&mut self, config: &ReceiverConfig) {
        self.config = *config;
        self.expected = config.expected_psn;
    }

    /// Sets what the peer may do to memory.
    pub fn set_access(&mut self, access: Access) {
        self.config.access = access;
    }

    /// Starts to take packets (to RTR).
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

    /// Forgets everything but the attributes (to RESET).
    pub fn reset(&mut self) {
        self.state = UcRecvState::Idle;
        self.message = UcRecvMessage::None;
        self.held = None;
        self.failed = false;
    }

    /// Takes a packet of the peer. If it is paused, nothing has changed.
    ///
    /// # Errors
    ///
    /// - [`DropReason::WrongQpState`], [`DropReason::WrongService`].
    /// - [`DropReason::BadSequence`]: it came late or again, or does not continue the message at hand.
    /// - [`DropReason::BadLength`]: its payload, or what is announced, is of a length that cannot be, or
    ///   longer than the receive.
    /// - [`DropReason::NoReceiveBuffer`], [`DropReason::AccessDenied`].
    ///
    /// The message it belongs to is lost then; nothing else is. Only if
    /// [`take_failure`](Self::take_failure) says so is this the end.
    pub fn handle(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RecvContext,
    ) -> Result<Taken, DropReason> {
        if self.state != UcRecvState::Ready {
            return Err(DropReason::WrongQpState);
        }
        let opcode = packet.opcode();
        if opcode.service() != Service::Uc {
            return Err(DropReason::WrongService);
        }
        let psn = packet.psn();
        // 0 for the one that is due.
        let behind = self.expected.since(psn);
        if (1..=STALE).contains(&behind) {
            return Err(DropReason::BadSequence);
        }
        let before = (self.expected, self.message);
        let interrupted = behind != 0 || opcode.starts_message();
        let message = match interrupted {
            true => UcRecvMessage::None,
            false => self.message,
        };
        self.expected = psn.next();
        // Only a packet that is carried out puts it back.
        self.message = UcRecvMessage::None;
        let carried_out = match opcode.operation() {
            Operation::Send => self.on_send(message, packet, host),
            Operation::RdmaWrite => self.on_write(message, packet, host),
            _ => Err(DropReason::WrongService.into()),
        };
        match carried_out {
            Ok(()) => Ok(Taken::Whole),
            Err(Obstacle::Refused(reason)) => Err(reason),
            Err(Obstacle::Absent) => {
                (self.expected, self.message) = before;
                Ok(Taken::Paused)
            }
        }
    }

    /// Returns whether the receiver took itself to the error state, once: a receive failed, and its
    /// completion says so. The QP must follow.
    pub fn take_failure(&mut self) -> bool {
        core::mem::replace(&mut self.failed, false)
    }

    /// Takes the number of receives that got a message since it was last taken.
    pub fn take_receives(&mut self) -> u32 {
        core::mem::take(&mut self.receives)
    }

    /// Takes the receive in progress, as flushed. To be called in the error state, before the
    /// receives that are only posted are flushed.
    pub fn abandon(&mut self) -> Option<Completion> {
        let RecvWr { wr_id, .. } = self.held.take()?;
        Some(Completion::failed(
            wr_id,
            WcOpcode::Recv,
            WcStatus::WrFlushErr,
        ))
    }

    // Getters.

    /// Returns what the receiver does.
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

    // Operations. Each puts the message back if more of it is to come.

    fn on_send(
        &mut self,
        message: UcRecvMessage,
        packet: &Packet<'_>,
        host: &mut impl RecvContext,
    ) -> Result<(), Obstacle<DropReason>> {
        let received = match (message, packet.opcode().starts_message()) {
            (UcRecvMessage::None, true) => 0,
            (UcRecvMessage::Send { received }, false) => received,
            _ => return Err(DropReason::BadSequence.into()),
        };
        let len = self.checked_len(packet)?;
        let wr = self.hold_receive(host, WcOpcode::Recv)?;
        let end = received
            .checked_add(len)
            .filter(|&end| end <= wr.length)
            .ok_or(DropReason::BadLength)?;
        if let Some(payload) = RxPayload::of(packet) {
            match host.place_receive(received, payload) {
                Ok(()) => {}
                Err(Obstacle::Absent) => return Err(Obstacle::Absent),
                Err(Obstacle::Refused(status)) => {
                    self.held = None;
                    self.end();
                    let failed = Completion::failed(wr.wr_id, WcOpcode::Recv, status);
                    host.complete_receive(failed, packet.solicited());
                    return Ok(());
                }
            }
        }
        if packet.opcode().ends_message() {
            self.complete(wr, WcOpcode::Recv, end, packet, host);
        } else {
            self.message = UcRecvMessage::Send { received: end };
        }
        Ok(())
    }

    fn on_write(
        &mut self,
        message: UcRecvMessage,
        packet: &Packet<'_>,
        host: &mut impl RecvContext,
    ) -> Result<(), Obstacle<DropReason>> {
        let (next, left, length) = match (message, packet.reth()) {
            (UcRecvMessage::None, Some(reth)) => (self.admit(&reth, host)?, reth.len, reth.len),
            // The right may have gone since the message began.
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
        let left = left
            .checked_sub(len)
            .filter(|&left| ends == (left == 0))
            .ok_or(DropReason::BadLength)?;
        let wr = match packet.imm() {
            Some(_) => Some(self.hold_receive(host, WcOpcode::RecvRdmaWithImm)?),
            None => None,
        };
        if let Some(payload) = RxPayload::of(packet) {
            host.place_remote(next, payload)
                .map_err(|obstacle| obstacle.map(|_| DropReason::AccessDenied))?;
        }
        match wr {
            Some(wr) => self.complete(wr, WcOpcode::RecvRdmaWithImm, length, packet, host),
            None if ends => {}
            None => {
                self.message = UcRecvMessage::Write {
                    next: next.advance(len),
                    left,
                    length,
                };
            }
        }
        Ok(())
    }

    /// Reports the end of a message that consumes the receive that is held.
    fn complete(
        &mut self,
        wr: RecvWr,
        opcode: WcOpcode,
        byte_len: u32,
        packet: &Packet<'_>,
        host: &mut impl RecvContext,
    ) {
        self.held = None;
        self.receives = self.receives.wrapping_add(1);
        let completion = Completion {
            wr_id: wr.wr_id,
            status: WcStatus::Success,
            opcode,
            byte_len,
            imm: packet.imm().map(|ImmDt(bytes)| Imm(bytes)),
            invalidated: None,
        };
        host.complete_receive(completion, packet.solicited());
    }

    /// Goes to the error state: a receive has failed.
    fn end(&mut self) {
        self.fail();
        self.failed = true;
    }

    // Checks.

    /// Returns the length of the payload if it is one that a packet in this position can have.
    fn checked_len(&self, packet: &Packet<'_>) -> Result<u32, DropReason> {
        let len = u32::try_from(packet.payload_len()).map_err(|_| DropReason::BadLength)?;
        self.config
            .path_mtu
            .allows_payload(packet.opcode().position(), len)
            .then_some(len)
            .ok_or(DropReason::BadLength)
    }

    /// Returns the place that a RETH names if the peer may write there. Memory of length 0 is not
    /// looked at (C9-88).
    fn admit(
        &self,
        reth: &Reth,
        host: &mut impl RecvContext,
    ) -> Result<Remote, Obstacle<DropReason>> {
        let remote = Remote::from(reth);
        let access = Access::REMOTE_WRITE;
        if !self.config.access.contains(access) || reth.len > MAX_MESSAGE_BYTES {
            return Err(DropReason::AccessDenied.into());
        }
        if reth.len != 0 {
            host.check_remote(remote, reth.len, access)
                .map_err(|obstacle| obstacle.map(|_| DropReason::AccessDenied))?;
        }
        Ok(remote)
    }

    /// Returns the receive that is held, or takes one. One that cannot be used completes at once, as
    /// `opcode`, and this is the end.
    fn hold_receive(
        &mut self,
        host: &mut impl RecvContext,
        opcode: WcOpcode,
    ) -> Result<RecvWr, DropReason> {
        if let Some(wr) = self.held {
            return Ok(wr);
        }
        match host.take_receive().ok_or(DropReason::NoReceiveBuffer)? {
            Ok(wr) => {
                self.held = Some(wr);
                Ok(wr)
            }
            Err(BadRecv { wr_id, status }) => {
                self.end();
                host.complete_receive(Completion::failed(wr_id, opcode, status), false);
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
