// SPDX-License-Identifier: GPL-2.0

//! Responses to completions: what the requester makes of what it is answered.
//!
//! Owns the judgement on each kind of response. PSNs decide, not opcodes: a response belongs to
//! the request whose PSNs include its own, and where in a READ its bytes go follows from the
//! distance. So a responder may start a response anew at any packet.
//!
//! IBA: section 9.7.6, receiving responses.

use super::{
    requester::{
        Requester,
        RequesterState, //
        ResponseContext,
    },
    retry::Exhausted,
    send_window::Reach,
    slot::Slot, //
};
use crate::{
    access::{
        Obstacle,
        Taken, //
    },
    num::{
        low_u32,
        usize_as_u64, //
    },
    psn::Psn,
    segmentation::tx_desc::RxPayload,
    status::{
        DropReason,
        NakCode,
        WcStatus, //
    },
    time::Instant,
    wire::{
        aeth::Syndrome,
        opcode::Operation,
        packet::Packet, //
    },
    wr::SendOp, //
};

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Requester<S> {
    /// Takes a response of the peer. What it completes is reported by
    /// [`poll_completion`](Self::poll_completion).
    ///
    /// # Errors
    ///
    /// - [`DropReason::WrongQpState`]: nothing can be in flight in this state.
    /// - [`DropReason::WrongService`]: it is not a response, or to nothing that is ever sent.
    /// - [`DropReason::StaleResponse`]: nothing in flight has its PSN, or it says nothing new.
    /// - [`DropReason::ResponseGap`]: one before it is missing, which is dealt with already.
    /// - [`DropReason::BadSyndrome`]: what it says is reserved.
    pub fn handle_response(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        host: &mut impl ResponseContext,
    ) -> Result<Taken, DropReason> {
        if !matches!(self.state, RequesterState::Ready | RequesterState::Draining) {
            return Err(DropReason::WrongQpState);
        }
        let psn = packet.psn();
        if !self.window.contains(psn) {
            self.stats.stale_responses = self.stats.stale_responses.wrapping_add(1);
            return Err(DropReason::StaleResponse);
        }
        self.stats.responses = self.stats.responses.wrapping_add(1);
        let outcome = match packet.opcode().operation() {
            Operation::Acknowledge => self.on_acknowledge(now, packet).map(|()| Taken::Whole),
            Operation::ReadResponse => self.on_read_response(now, packet, host),
            Operation::AtomicAcknowledge => self.on_atomic_response(now, packet, host),
            _ => Err(DropReason::WrongService),
        };
        self.settle();
        outcome
    }

    fn on_acknowledge(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), DropReason> {
        let psn = packet.psn();
        let syndrome = packet
            .aeth()
            .map_or(Syndrome::Reserved, |aeth| aeth.syndrome);
        match syndrome {
            Syndrome::Ack { .. } => {
                self.heard();
                self.advance_to(now, psn.next())
            }
            Syndrome::Rnr { timer } => {
                self.advance_to(now, psn)?;
                self.on_not_ready(now, psn, timer)
            }
            Syndrome::Nak(NakCode::PsnSequence) => {
                self.advance_to(now, psn)?;
                self.on_sequence_nak(psn)
            }
            Syndrome::Nak(code) => {
                let status = code.wc_status().ok_or(DropReason::BadSyndrome)?;
                if status == WcStatus::RemInvRdReqErr {
                    return Err(DropReason::BadSyndrome);
                }
                self.advance_to(now, psn)?;
                self.on_fatal_nak(psn, status)
            }
            Syndrome::Reserved => Err(DropReason::BadSyndrome),
        }
    }

    /// Takes data that was read, or the word that an atomic write or a flush is done. Its arrival
    /// acknowledges every request before that one.
    fn on_read_response(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        host: &mut impl ResponseContext,
    ) -> Result<Taken, DropReason> {
        let slot = self.answered(now, packet)?;
        if matches!(slot.wr.op, SendOp::Atomic { .. }) {
            return Err(DropReason::BadSequence);
        }
        let (mtu, index) = (self.window.mtu(), packet.psn().since(slot.first));
        let len = low_u32(usize_as_u64(packet.payload_len()));
        let end = index.saturating_add(packet.packets());
        // Of a READ, the rest may not be asked for yet.
        let asked = packet.packets() <= self.window.high().since(packet.psn());
        if !asked || len != mtu.span(index, end, slot.response_length()) {
            self.end(WcStatus::BadRespErr);
            return Ok(Taken::Whole);
        }
        if let Some(payload) = RxPayload::of(packet) {
            let offset = mtu.offset(index, slot.wr.length);
            match host.place(self.window.oldest_place(), offset, payload) {
                Ok(()) => {}
                Err(Obstacle::Absent) => return Ok(Taken::Paused),
                Err(Obstacle::Refused(status)) => {
                    self.end(status);
                    return Ok(Taken::Whole);
                }
            }
        }
        if let (SendOp::ReadInvalidate { rkey, .. }, true) = (slot.wr.op, end == slot.packets) {
            if let Err(status) = host.invalidate(rkey) {
                self.end(status);
                return Ok(Taken::Whole);
            }
        }
        self.window.advance(packet.packets());
        self.progress(now, packet.packets());
        Ok(Taken::Whole)
    }

    /// Takes what an atomic operation found.
    fn on_atomic_response(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        host: &mut impl ResponseContext,
    ) -> Result<Taken, DropReason> {
        let slot = self.answered(now, packet)?;
        let found = packet.atomic_ack().ok_or(DropReason::BadSequence)?.original;
        if !matches!(slot.wr.op, SendOp::Atomic { .. }) {
            return Err(DropReason::BadSequence);
        }
        match host.place_value(self.window.oldest_place(), found) {
            Ok(()) => {
                self.window.advance(1);
                self.progress(now, 1);
            }
            Err(Obstacle::Absent) => return Ok(Taken::Paused),
            Err(Obstacle::Refused(status)) => self.end(status),
        }
        Ok(Taken::Whole)
    }

    /// Returns the request that this response answers, the oldest. What is before it is
    /// acknowledged by that.
    fn answered(&mut self, now: Instant, packet: &Packet<'_>) -> Result<Slot, DropReason> {
        if let Some(aeth) = packet.aeth() {
            if !matches!(aeth.syndrome, Syndrome::Ack { .. }) {
                return Err(DropReason::BadSyndrome);
            }
        }
        let psn = packet.psn();
        self.advance_to(now, psn)?;
        let Some((slot, true)) = self.window.oldest() else {
            return Err(DropReason::StaleResponse);
        };
        if self.window.una() != psn || !slot.awaits_response() || slot.status.is_some() {
            return Err(DropReason::BadSequence);
        }
        Ok(*slot)
    }

    /// Acknowledges every packet before `upto`. One that only data can acknowledge, and that is
    /// answered by something later, shows that the data got lost.
    fn advance_to(&mut self, now: Instant, upto: Psn) -> Result<(), DropReason> {
        let una = self.window.una();
        let reach = self.window.acknowledge(upto);
        if self.window.una() != una {
            let packets = self.window.una().since(una);
            self.progress(now, packets);
        }
        match reach {
            Reach::Whole => Ok(()),
            Reach::Gap => self.on_gap(),
        }
    }

    fn progress(&mut self, now: Instant, packets: u32) {
        self.cwnd.on_ack(packets);
        self.rtt.on_ack(self.window.una(), now);
        let due = self.is_answer_due();
        self.retry.on_progress(now, due);
        if !self.window.in_flight() {
            self.nothing_to_ask();
        } else if !due {
            self.may_have_stopped(now);
        }
    }

    fn on_gap(&mut self) -> Result<(), DropReason> {
        if self.window.in_flight() && self.retry.on_gap() {
            self.stats.implied_naks = self.stats.implied_naks.wrapping_add(1);
            self.on_loss();
        }
        Err(DropReason::ResponseGap)
    }

    fn on_sequence_nak(&mut self, psn: Psn) -> Result<(), DropReason> {
        self.check_outstanding(psn)?;
        self.stats.sequence_naks = self.stats.sequence_naks.wrapping_add(1);
        self.on_loss();
        Ok(())
    }

    fn on_not_ready(&mut self, now: Instant, psn: Psn, timer: u8) -> Result<(), DropReason> {
        self.check_outstanding(psn)?;
        self.stats.rnr_naks = self.stats.rnr_naks.wrapping_add(1);
        match self.retry.on_not_ready(now, timer) {
            Ok(()) => self.go_back(),
            Err(_) => self.end(WcStatus::RnrRetryExcErr),
        }
        Ok(())
    }

    fn on_fatal_nak(&mut self, psn: Psn, status: WcStatus) -> Result<(), DropReason> {
        if self.window.una() != psn {
            return Err(DropReason::StaleResponse);
        }
        self.stats.fatal_naks = self.stats.fatal_naks.wrapping_add(1);
        self.end(status);
        Ok(())
    }

    /// Checks that a refusal is news: the packet was sent since it was last gone back to.
    fn check_outstanding(&self, psn: Psn) -> Result<(), DropReason> {
        match self.window.una() == psn && self.window.in_flight() {
            true => Ok(()),
            false => Err(DropReason::StaleResponse),
        }
    }

    /// The peer has shown that something got lost.
    fn on_loss(&mut self) {
        let may = self.retry.on_loss();
        self.resend(may);
    }

    /// Sends everything again because something got lost, if that `may` be done once more.
    pub(super) fn resend(&mut self, may: Result<(), Exhausted>) {
        match may {
            Ok(()) => {
                self.go_back();
                self.rtt.on_loss();
            }
            Err(_) => self.end(WcStatus::RetryExcErr),
        }
    }
}
