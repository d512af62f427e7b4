// SPDX-License-Identifier: GPL-2.0

//! Execution of requests.
//!
//! The PSN is checked first, the rest in the order that [`assembly`] has. A packet that fails a check has no effect.
//! `atomics` executes atomic operations, ATOMIC WRITEs and FLUSHes; `duplicates` handles repeated requests.
//!
//! IBA: section 9.7.4, inbound requests; C9-148 (a READ counts when it is accepted).

use super::{
    nak::{
        NakReason,
        NotExecuted, //
    },
    replay::ReplayEntry,
    responder::{
        Fatal,
        PendingAck,
        Recovery,
        RequestContext,
        Responder,
        ResponderState, //
    }, //
};
use crate::{
    access::{
        Access,
        Obstacle,
        Taken, //
    },
    message::assembly::{
        self,
        Refusal, //
    },
    psn::Psn,
    status::{
        DropReason,
        NakCode,
        WcStatus, //
    },
    wire::{
        ext::{
            Ieth,
            Reth, //
        },
        opcode::{
            Operation,
            Service, //
        },
        packet::Packet, //
    },
    wr::Remote, //
};

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Handles a request from the peer. The next [`burst`](Self::burst) contains the response, if
    /// there is one, even if this returns an error.
    ///
    /// # Errors
    ///
    /// - [`DropReason::WrongQpState`]: requests are not executed in this state.
    /// - [`DropReason::WrongService`]: the packet is not a request of this service.
    /// - [`DropReason::AheadOfSequence`]: an earlier request is missing or must be repeated.
    /// - [`DropReason::UnknownDuplicate`]: the duplicate does not match a kept response.
    pub fn handle_request(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<Taken, DropReason> {
        if self.state != ResponderState::Ready {
            return Err(DropReason::WrongQpState);
        }
        let opcode = packet.opcode();
        if opcode.service() != self.config.connection.service || !opcode.is_request() {
            return Err(DropReason::WrongService);
        }
        match packet.psn().diff(self.expected) {
            0 => self.on_expected(packet, host),
            1.. => self.on_early(packet.psn()).map(|()| Taken::Whole),
            _ => self.on_duplicate(packet, host).map(|()| Taken::Whole),
        }
    }

    /// Returns whether `packet` is a request, an earlier one is missing, and no NAK reports that. A caller that expects
    /// the missing one may pass `packet` later, in its order; see [`ReorderBuffer`](super::reorder::ReorderBuffer).
    #[inline]
    #[must_use]
    pub fn is_early(&self, packet: &Packet<'_>) -> bool {
        let opcode = packet.opcode();
        self.state == ResponderState::Ready
            && packet.psn().is_after(self.expected)
            && opcode.service() == self.config.connection.service
            && opcode.is_request()
            && !self.recovery.nak_issued
    }

    /// Returns whether a NAK makes the peer repeat everything from the expected request on. What a
    /// [`ReorderBuffer`](super::reorder::ReorderBuffer) keeps is of no use then; it would also be found not ready once
    /// more before its repetition arrives, and a peer counts each RNR NAK.
    #[inline]
    #[must_use]
    pub const fn awaits_repetition(&self) -> bool {
        self.recovery.nak_issued
    }

    /// Sends a NAK for the expected request with the next [`burst`](Self::burst), unless one was sent. The caller has
    /// kept a later request for too long.
    pub fn report_gap(&mut self) {
        if self.state == ResponderState::Ready {
            self.nak_gap();
        }
    }

    /// Handles a packet ahead of the expected PSN. Issues one NAK.
    fn on_early(&mut self, psn: Psn) -> Result<(), DropReason> {
        self.stats.out_of_sequence = self.stats.out_of_sequence.wrapping_add(1);
        if self
            .recovery
            .latest_dropped
            .is_none_or(|latest| psn.is_after(latest))
        {
            self.recovery.latest_dropped = Some(psn);
        }
        self.nak_gap();
        Err(DropReason::AheadOfSequence)
    }

    /// Issues a NAK for the expected request, unless one was issued.
    fn nak_gap(&mut self) {
        if !self.recovery.nak_issued {
            self.recovery.nak_issued = true;
            let required = self.pending_ack.required();
            self.pending_ack = PendingAck::SequenceNak { required };
        }
    }

    fn on_expected(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<Taken, DropReason> {
        match self.execute(packet, host) {
            Ok(()) => self.on_executed(packet.ack_request()),
            Err(Obstacle::Absent) => {
                self.acknowledge_before_wait();
                return Ok(Taken::Paused);
            }
            Err(Obstacle::Refused(NakReason::NotReady)) => {
                self.stats.rnr_naks = self.stats.rnr_naks.wrapping_add(1);
                self.pending_ack = PendingAck::RnrNak;
                // Later packets need no NAK: the peer retransmits them after the RNR delay.
                self.recovery.nak_issued = true;
            }
            Err(Obstacle::Refused(NakReason::Final(code, fatal))) => {
                self.nak_fatal(self.expected_point(), code, fatal);
            }
        }
        Ok(Taken::Whole)
    }

    #[inline]
    fn execute(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NotExecuted> {
        if self.config.connection.service == Service::Xrc {
            self.select_srq(packet, host)?;
        }
        match packet.opcode().operation() {
            Operation::Send | Operation::SendInvalidate | Operation::RdmaWrite => {
                self.on_message(packet, host)
            }
            Operation::ReadRequest => self.on_read(packet, host),
            Operation::CompareSwap | Operation::FetchAdd => self.on_atomic(packet, host),
            Operation::AtomicWrite => self.on_atomic_write(packet, host),
            Operation::Flush => self.on_flush(packet, host),
            _ => Err(NakReason::INVALID.into()),
        }
    }

    /// Updates ACK and recovery after the expected request was executed. A NAK that is not sent yet
    /// is obsolete, unless later packets were dropped: then it names the new expected PSN.
    fn on_executed(&mut self, ack_request: bool) {
        self.replay.expire(self.expected);
        let has_unsent_nak = matches!(
            self.pending_ack,
            PendingAck::SequenceNak { .. } | PendingAck::RnrNak
        );
        let missing = |latest: Psn| !latest.is_before(self.expected);
        if has_unsent_nak && self.recovery.latest_dropped.is_some_and(missing) {
            let required = match ack_request {
                true => Some(self.expected.sub(1)),
                false => self.pending_ack.required(),
            };
            self.pending_ack = PendingAck::SequenceNak { required };
            return;
        }
        self.recovery = Recovery::default();
        let acknowledges = has_unsent_nak || ack_request;
        self.unrequested = !acknowledges;
        if acknowledges {
            self.schedule_ack();
        }
    }

    /// Schedules an ACK for messages that were executed, as the next one waits for memory: it may be the one that
    /// requests the ACK for all.
    fn acknowledge_before_wait(&mut self) {
        let owed = !self.assembly.is_in_message() && core::mem::take(&mut self.unrequested);
        if owed && matches!(self.pending_ack, PendingAck::None) {
            self.schedule_ack();
        }
    }

    /// Schedules an ACK for all executed requests.
    pub(super) fn schedule_ack(&mut self) {
        self.pending_ack = PendingAck::Ack {
            required: self.expected.sub(1),
        };
    }

    // Operations. Each advances the expected PSN when it succeeds.

    fn on_message(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NotExecuted> {
        let rules = (self.config.path_mtu, self.config.access);
        let received = match self.assembly.place(packet, rules, host) {
            Ok(received) => received,
            Err(Obstacle::Absent) => return Err(Obstacle::Absent),
            Err(Obstacle::Refused(refusal)) => {
                return Err(self.refuse(refusal, packet, host).into());
            }
        };
        if let Some(Ieth { rkey }) = packet.ieth() {
            if host.invalidate(rkey).is_err() {
                let status = WcStatus::RemInvReqErr;
                self.assembly.fail_receive(status, packet, host);
                return Err(NakReason::Final(NakCode::RemoteAccess, Fatal::LocalError).into());
            }
        }
        self.expected = self.expected.add(packet.packets());
        if packet.opcode().ends_message() {
            self.end_message();
        }
        if let Some(byte_len) = received {
            self.stats.receives = self.stats.receives.wrapping_add(1);
            self.assembly.complete(byte_len, packet, host);
        }
        Ok(())
    }

    /// Completes the receive that a refused packet uses, if any, with an error. Returns the reason of the NAK.
    #[cold]
    fn refuse(
        &mut self,
        refusal: Refusal,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> NakReason {
        let status = match refusal {
            Refusal::Key => Some(WcStatus::LocAccessErr),
            Refusal::ReceiveLength => Some(WcStatus::LocLenErr),
            Refusal::ReceiveMemory(status) => Some(status),
            _ => None,
        };
        if let Some(status) = status {
            self.assembly.fail_receive(status, packet, host);
        }
        refusal.into()
    }

    fn on_read(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NotExecuted> {
        let reth = packet.reth().ok_or(NakReason::INVALID)?;
        if self.assembly.is_in_message() || packet.payload_len() != 0 {
            return Err(NakReason::INVALID.into());
        }
        let packets = self.config.path_mtu.packets(reth.len);
        self.check_remote(&reth, Access::REMOTE_READ, host)?;
        let entry = ReplayEntry::for_read(
            self.expected,
            packets,
            (Remote::from(&reth), self.srqn),
            reth.len,
            self.msn.next(),
        );
        self.replay.push(entry).map_err(|_| NakReason::INVALID)?;
        self.reads.on_new(packets);
        self.expected = self.expected.add(packets);
        self.end_message();
        Ok(())
    }

    /// Increments the MSN: a message is complete.
    pub(super) fn end_message(&mut self) {
        self.msn = self.msn.next();
    }

    // Checks.

    /// Checks that QP and key grant `access` to the memory in `reth`. The key is not checked for
    /// length 0 (C9-88).
    pub(super) fn check_remote(
        &self,
        reth: &Reth,
        access: Access,
        host: &mut impl RequestContext,
    ) -> Result<(), NotExecuted> {
        Ok(assembly::check_remote(
            reth,
            (access, self.config.access),
            host,
        )?)
    }
}
