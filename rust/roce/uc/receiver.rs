// SPDX-License-Identifier: GPL-2.0

//! The responder side of a UC QP: the counterpart of [`Responder`](crate::rc::responder::Responder)
//! without responses.
//!
//! A packet that is missing or cannot be executed loses its message and no other; the next message
//! starts with its first packet. The receive of the lost message is kept for the next one. In rc, such
//! a packet is requested again or moves the QP to the error state.
//!
//! IBA: section 9.8.2.2, inbound requests of an unreliable connection. Deviation: late and duplicate packets are
//! dropped, see [`MAX_LATE_PACKETS`].

use crate::{
    access::{
        Access,
        Obstacle,
        Taken, //
    },
    message::assembly::{
        Assembly,
        Refusal, //
    },
    psn::Psn,
    recv_context::RecvContext,
    segmentation::mtu::Mtu,
    status::DropReason,
    wire::{
        opcode::Service,
        packet::Packet, //
    },
    wr::Completion, //
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
    assembly: Assembly,
    failed: bool,
    receives: u32,
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
            assembly: Assembly::EMPTY,
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
        self.assembly.discard();
    }

    /// Discards all state except the attributes (to RESET).
    pub fn reset(&mut self) {
        self.state = UcRecvState::Idle;
        self.assembly = Assembly::EMPTY;
        self.failed = false;
    }

    /// Handles a packet from the peer. If the result is [`Taken::Paused`], it was not handled, and the message that it
    /// interrupts, if any, is discarded.
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
        if behind != 0 || opcode.starts_message() {
            self.assembly.discard();
        }
        let rules = (self.config.path_mtu, self.config.access);
        let placed = match self.assembly.place(packet, rules, context) {
            Err(Obstacle::Absent) => return Ok(Taken::Paused),
            Err(Obstacle::Refused(refusal)) => Err(refusal),
            Ok(received) => Ok(received),
        };
        self.expected = psn.next();
        match placed {
            Ok(Some(byte_len)) => {
                self.receives = self.receives.wrapping_add(1);
                self.assembly.complete(byte_len, packet, context);
            }
            Ok(None) => {}
            Err(refusal) => return self.on_refused(refusal, packet, context),
        }
        Ok(Taken::Whole)
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
        self.assembly.flush()
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

    /// Loses the message of a packet that was refused.
    fn on_refused(
        &mut self,
        refusal: Refusal,
        packet: &Packet<'_>,
        context: &mut impl RecvContext,
    ) -> Result<Taken, DropReason> {
        self.assembly.discard();
        Err(match refusal {
            Refusal::Sequence => DropReason::BadSequence,
            Refusal::Length | Refusal::ReceiveLength => DropReason::BadLength,
            Refusal::Rights | Refusal::Key => DropReason::AccessDenied,
            Refusal::NoReceive => DropReason::NoReceiveBuffer,
            Refusal::BadReceive => {
                self.enter_error();
                DropReason::NoReceiveBuffer
            }
            Refusal::ReceiveMemory(status) => {
                self.enter_error();
                self.assembly.fail_receive(status, packet, context);
                return Ok(Taken::Whole);
            }
        })
    }

    /// Enters the error state because a receive has failed.
    fn enter_error(&mut self) {
        self.fail();
        self.failed = true;
    }
}

impl Default for UcReceiver {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
