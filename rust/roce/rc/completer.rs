// SPDX-License-Identifier: GPL-2.0

//! The completer: handles responses and completes requests.
//!
//! The PSN, not the opcode, determines the request of a response and the offset of READ data. So a
//! responder may restart a response at any packet.
//!
//! IBA: section 9.7.6, receiving responses.

use super::{
    credits::Credits,
    requester::{
        Requester,
        RequesterState,
        ResponseContext, //
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
    /// Handles a response from the peer. [`poll_completion`](Self::poll_completion) reports the
    /// requests that it completes.
    ///
    /// # Errors
    ///
    /// - [`DropReason::WrongQpState`]: no packet can be in flight in this state.
    /// - [`DropReason::WrongService`]: the packet is not a response that this QP can receive.
    /// - [`DropReason::StaleResponse`]: no packet in flight has its PSN, or it carries no news.
    /// - [`DropReason::ResponseGap`]: an earlier response is missing. The loss is already handled.
    /// - [`DropReason::BadSequence`]: it does not match the request with its PSN.
    /// - [`DropReason::BadSyndrome`]: its syndrome is reserved or not allowed in this response.
    pub fn handle_response(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        host: &mut impl ResponseContext,
    ) -> Result<Taken, DropReason> {
        if !self.takes_responses() {
            return Err(DropReason::WrongQpState);
        }
        let psn = packet.psn();
        if !self.window.contains(psn) {
            if self.takes_credits(packet) {
                return Ok(Taken::Whole);
            }
            self.stats.stale_responses = self.stats.stale_responses.wrapping_add(1);
            return Err(DropReason::StaleResponse);
        }
        if packet.opcode().service() != self.config.connection.service {
            return Err(DropReason::WrongService);
        }
        self.stats.responses = self.stats.responses.wrapping_add(1);
        let outcome = match packet.opcode().operation() {
            Operation::Acknowledge => self.on_acknowledge(now, packet).map(|()| Taken::Whole),
            Operation::ReadResponse => self.on_read_response(now, packet, host),
            Operation::AtomicAcknowledge => self.on_atomic_response(now, packet, host),
            _ => Err(DropReason::WrongService),
        };
        self.fail_if_oldest_aborted();
        outcome
    }

    /// Returns whether packets can be in flight in this state.
    #[inline]
    const fn takes_responses(&self) -> bool {
        matches!(self.state, RequesterState::Ready | RequesterState::Draining)
    }

    /// Returns whether `packet` is a response, and an earlier one is missing. A caller that expects the missing one may
    /// pass `packet` later, in its order; see [`ReorderBuffer`](super::reorder::ReorderBuffer).
    #[inline]
    #[must_use]
    pub fn is_early(&self, packet: &Packet<'_>) -> bool {
        self.takes_responses()
            && self.window.contains(packet.psn())
            && self.awaits_response_before(packet.psn())
    }

    /// Returns whether an unacknowledged packet before `psn` awaits a response of its own.
    #[must_use]
    pub fn awaits_response_before(&self, psn: Psn) -> bool {
        self.window.awaits_response_before(psn)
    }

    /// Retransmits the packets from the oldest unacknowledged one, unless that happened since the last progress. The
    /// caller has kept a later response for too long.
    pub fn report_gap(&mut self) {
        if self.takes_responses() {
            // The error is for a packet that is dropped.
            let _ = self.on_gap();
            self.fail_if_oldest_aborted();
        }
    }

    /// Takes the credits of an ACK or response, which count from the oldest unacknowledged packet. Returns whether they
    /// admit more than before.
    fn on_credits(&mut self, code: u8) -> bool {
        let admits_more = self.window.credits.update(Credits::of_code(code));
        let receives = self.window.flight().receives;
        if self.window.credits.are_exceeded_by(receives) {
            // Messages that requested no ACK may be in flight, as no credits were known.
            self.require_ack_for_waiter();
        }
        admits_more
    }

    /// Takes the credits of an ACK that acknowledges nothing new: the peer has posted receives since. Returns whether
    /// it admits more than before.
    fn takes_credits(&mut self, packet: &Packet<'_>) -> bool {
        let repeats_latest = self.window.credits != Credits::UNLIMITED
            && packet.psn() == self.window.una().sub(1)
            && packet.opcode().operation() == Operation::Acknowledge;
        match packet.aeth().map(|aeth| aeth.syndrome) {
            Some(Syndrome::Ack { credits }) if repeats_latest => self.on_credits(credits),
            _ => false,
        }
    }

    fn on_acknowledge(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), DropReason> {
        let psn = packet.psn();
        let syndrome = packet
            .aeth()
            .map_or(Syndrome::Reserved, |aeth| aeth.syndrome);
        match syndrome {
            Syndrome::Ack { credits } => {
                self.on_ack_received();
                self.advance_to(now, psn.next())?;
                self.on_credits(credits);
                Ok(())
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

    /// Handles READ data, or the response to an ATOMIC WRITE or FLUSH. It acknowledges all earlier
    /// requests.
    fn on_read_response(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        host: &mut impl ResponseContext,
    ) -> Result<Taken, DropReason> {
        let slot = self.response_slot(now, packet)?;
        if matches!(slot.wr.op, SendOp::Atomic { .. }) {
            return Err(DropReason::BadSequence);
        }
        let (mtu, index) = (self.window.mtu(), packet.psn().since(slot.first));
        let len = low_u32(usize_as_u64(packet.payload_len()));
        let end = index.saturating_add(packet.packets());
        // Later parts of a split READ may not be requested yet.
        let requested = packet.packets() <= self.window.high().since(packet.psn());
        if !requested || len != mtu.payload_between(index, end, slot.response_length()) {
            self.fail_oldest(WcStatus::BadRespErr);
            return Ok(Taken::Whole);
        }
        if let Some(payload) = RxPayload::of(packet) {
            let offset = mtu.offset(index, slot.wr.length);
            match host.place(self.window.oldest_index(), offset, payload) {
                Ok(()) => {}
                Err(Obstacle::Absent) => return Ok(Taken::Paused),
                Err(Obstacle::Refused(status)) => {
                    self.fail_oldest(status);
                    return Ok(Taken::Whole);
                }
            }
        }
        if let (SendOp::ReadInvalidate { rkey, .. }, true) = (slot.wr.op, end == slot.packets) {
            if let Err(status) = host.invalidate(rkey) {
                self.fail_oldest(status);
                return Ok(Taken::Whole);
            }
        }
        self.window.advance(packet.packets());
        self.on_progress(now, packet.packets());
        Ok(Taken::Whole)
    }

    /// Handles the original value that an atomic operation returns.
    fn on_atomic_response(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        host: &mut impl ResponseContext,
    ) -> Result<Taken, DropReason> {
        let slot = self.response_slot(now, packet)?;
        let original = packet.atomic_ack().ok_or(DropReason::BadSequence)?.original;
        if !matches!(slot.wr.op, SendOp::Atomic { .. }) {
            return Err(DropReason::BadSequence);
        }
        match host.place_value(self.window.oldest_index(), original) {
            Ok(()) => {
                self.window.advance(1);
                self.on_progress(now, 1);
            }
            Err(Obstacle::Absent) => return Ok(Taken::Paused),
            Err(Obstacle::Refused(status)) => self.fail_oldest(status),
        }
        Ok(Taken::Whole)
    }

    /// Acknowledges all packets before this response and returns its request, which must then be the
    /// oldest.
    fn response_slot(&mut self, now: Instant, packet: &Packet<'_>) -> Result<Slot, DropReason> {
        let credits = match packet.aeth().map(|aeth| aeth.syndrome) {
            Some(Syndrome::Ack { credits }) => Some(credits),
            None => None,
            Some(_) => return Err(DropReason::BadSyndrome),
        };
        let psn = packet.psn();
        self.advance_to(now, psn)?;
        if let Some(credits) = credits {
            self.on_credits(credits);
        }
        let Some((slot, true)) = self.window.oldest() else {
            return Err(DropReason::StaleResponse);
        };
        if self.window.una() != psn || !slot.awaits_response() || slot.status.is_some() {
            return Err(DropReason::BadSequence);
        }
        Ok(*slot)
    }

    /// Acknowledges all packets before `upto`. If one of them awaits a response of its own, that
    /// response was lost.
    fn advance_to(&mut self, now: Instant, upto: Psn) -> Result<(), DropReason> {
        let una = self.window.una();
        let reach = self.window.acknowledge(upto);
        if self.window.una() != una {
            let packets = self.window.una().since(una);
            self.on_progress(now, packets);
        }
        match reach {
            Reach::Whole => Ok(()),
            Reach::Gap => self.on_gap(),
        }
    }

    fn on_progress(&mut self, now: Instant, packets: u32) {
        self.congestion.on_ack(packets);
        self.rtt.on_ack(self.window.una(), now);
        let ack_due = self.is_ack_due();
        self.retry.on_progress(now, ack_due);
        if !self.window.in_flight() {
            self.clear_ack_requests();
        } else if !ack_due {
            self.on_no_ack_due(now);
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
            Ok(()) => {
                self.window.credits.use_up_all();
                self.go_back();
            }
            Err(_) => self.fail_oldest(WcStatus::RnrRetryExcErr),
        }
        Ok(())
    }

    fn on_fatal_nak(&mut self, psn: Psn, status: WcStatus) -> Result<(), DropReason> {
        if self.window.una() != psn {
            return Err(DropReason::StaleResponse);
        }
        self.fail_oldest(status);
        Ok(())
    }

    /// Checks that a NAK is not stale: the packet was sent since the last rewind.
    fn check_outstanding(&self, psn: Psn) -> Result<(), DropReason> {
        match self.window.una() == psn && self.window.in_flight() {
            true => Ok(()),
            false => Err(DropReason::StaleResponse),
        }
    }

    /// Handles a loss that the peer has shown.
    fn on_loss(&mut self) {
        let retry = self.retry.on_loss();
        self.retransmit(retry);
    }

    /// Retransmits all unacknowledged packets, or fails the oldest request if retries are exhausted.
    pub(super) fn retransmit(&mut self, retry: Result<(), Exhausted>) {
        match retry {
            Ok(()) => {
                self.go_back();
                self.rtt.on_loss();
            }
            Err(_) => self.fail_oldest(WcStatus::RetryExcErr),
        }
    }
}
