// SPDX-License-Identifier: GPL-2.0

//! Execution of requests.
//!
//! Order of the checks: PSN, payload length, opcode sequence, rights, message length, resources. A
//! packet that fails a check has no effect. `atomics` executes atomic operations, ATOMIC WRITEs and
//! FLUSHes; `duplicates` handles repeated requests.
//!
//! IBA: section 9.7.4, inbound requests; C9-88 (length 0), C9-92 (lengths of payload), C9-94
//! (longest message), C9-148 (a READ counts when it is accepted).

use super::{
    nak::{
        NakReason,
        NotExecuted, //
    },
    replay::ReplayEntry,
    responder::{
        Fatal,
        PendingAck,
        RcMessage,
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
    wire::{
        ext::{
            Ieth,
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

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Handles a request from the peer. The next [`burst`](Self::burst) contains the response, if
    /// there is one, even if this returns an error.
    ///
    /// # Errors
    ///
    /// - [`DropReason::WrongQpState`]: requests are not executed in this state.
    /// - [`DropReason::WrongService`]: the packet is not an RC request.
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
        if opcode.service() != Service::Rc || !opcode.is_request() {
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
            && opcode.service() == Service::Rc
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
        let outcome = match packet.opcode().operation() {
            Operation::Send | Operation::SendInvalidate => self.on_send(packet, host),
            Operation::RdmaWrite => self.on_write(packet, host),
            Operation::ReadRequest => self.on_read(packet, host),
            Operation::CompareSwap | Operation::FetchAdd => self.on_atomic(packet, host),
            Operation::AtomicWrite => self.on_atomic_write(packet, host),
            Operation::Flush => self.on_flush(packet, host),
            _ => Err(NakReason::INVALID.into()),
        };
        match outcome {
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
        let is_complete = matches!(self.message, RcMessage::None);
        let owed = is_complete && core::mem::take(&mut self.unrequested);
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

    fn on_send(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NotExecuted> {
        let opcode = packet.opcode();
        self.checked_len(packet)?;
        let (wr, received) = match (self.message, opcode.starts_message()) {
            (RcMessage::None, true) => (self.take_receive(host, WcOpcode::Recv)?, 0),
            (RcMessage::Send { wr, received }, false) => (wr, received),
            _ => return Err(NakReason::INVALID.into()),
        };
        match take_payload(packet, wr, received, host) {
            Ok(end) => {
                self.message = RcMessage::Send { wr, received: end };
                self.expected = self.expected.add(packet.packets());
                if opcode.ends_message() {
                    self.complete(wr, WcOpcode::Recv, end, packet, host);
                }
                Ok(())
            }
            Err(Obstacle::Absent) => {
                if received == 0 {
                    self.held_receive = Some(wr);
                }
                Err(Obstacle::Absent)
            }
            Err(Obstacle::Refused((status, nak))) => {
                self.message = RcMessage::None;
                let failed = Completion::failed(wr.wr_id, WcOpcode::Recv, status);
                host.complete_receive(failed, packet.solicited());
                Err(NakReason::Final(nak, Fatal::LocalError).into())
            }
        }
    }

    fn on_write(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NotExecuted> {
        let opcode = packet.opcode();
        let len = self.checked_len(packet)?;
        let (next, left, length) = match (self.message, packet.reth()) {
            (RcMessage::None, Some(reth)) => {
                // A message of one packet is checked when it is placed, unless a receive depends on it.
                let is_checked_below =
                    packet.packets() == 1 && len == reth.len && packet.imm().is_none();
                match is_checked_below {
                    true => self.check_access(&reth, Access::REMOTE_WRITE)?,
                    false => self.check_remote(&reth, Access::REMOTE_WRITE, host)?,
                }
                (Remote::from(&reth), reth.len, reth.len)
            }
            // The right may have been revoked since the message began.
            (RcMessage::Write { next, left, length }, None)
                if self.config.access.contains(Access::REMOTE_WRITE) =>
            {
                (next, left, length)
            }
            _ => return Err(NakReason::INVALID.into()),
        };
        let after = left.checked_sub(len).ok_or(NakReason::INVALID)?;
        if opcode.ends_message() != (after == 0) {
            return Err(NakReason::INVALID.into());
        }
        let wr = match packet.imm() {
            Some(_) => Some(self.take_receive(host, WcOpcode::RecvRdmaWithImm)?),
            None => None,
        };
        let payload = RxPayload::of(packet);
        let placed = payload.map_or(Ok(()), |payload| host.place_remote(next, payload, left));
        if let Err(obstacle) = placed {
            if let (Obstacle::Absent, Some(wr)) = (obstacle, wr) {
                self.held_receive = Some(wr);
            } else if let Some(RecvWr { wr_id, .. }) = wr {
                let opcode = WcOpcode::RecvRdmaWithImm;
                let failed = Completion::failed(wr_id, opcode, WcStatus::LocAccessErr);
                host.complete_receive(failed, packet.solicited());
            }
            return Err(obstacle.into());
        }
        self.expected = self.expected.add(packet.packets());
        self.message = RcMessage::Write {
            next: next.advance(len),
            left: after,
            length,
        };
        if opcode.ends_message() {
            match wr {
                Some(wr) => self.complete(wr, WcOpcode::RecvRdmaWithImm, length, packet, host),
                None => self.end_message(),
            }
        }
        Ok(())
    }

    fn on_read(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NotExecuted> {
        let reth = packet.reth().ok_or(NakReason::INVALID)?;
        if self.message != RcMessage::None || packet.payload_len() != 0 {
            return Err(NakReason::INVALID.into());
        }
        let packets = self.config.path_mtu.packets(reth.len);
        self.check_remote(&reth, Access::REMOTE_READ, host)?;
        let entry = ReplayEntry::for_read(
            self.expected,
            packets,
            Remote::from(&reth),
            reth.len,
            self.msn.next(),
        );
        self.replay.push(entry).map_err(|_| NakReason::INVALID)?;
        self.reads.on_new(packets);
        self.expected = self.expected.add(packets);
        self.end_message();
        Ok(())
    }

    /// Completes a message that consumed a receive.
    fn complete(
        &mut self,
        wr: RecvWr,
        opcode: WcOpcode,
        byte_len: u32,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) {
        self.end_message();
        self.stats.receives = self.stats.receives.wrapping_add(1);
        let completion = Completion {
            wr_id: wr.wr_id,
            status: WcStatus::Success,
            opcode,
            byte_len,
            imm: packet.imm().map(|ImmDt(bytes)| Imm(bytes)),
            invalidated: packet.ieth().map(|Ieth { rkey }| rkey),
        };
        host.complete_receive(completion, packet.solicited());
    }

    /// Ends the message in progress and increments the MSN.
    pub(super) fn end_message(&mut self) {
        self.message = RcMessage::None;
        self.msn = self.msn.next();
    }

    // Checks.

    /// Returns the payload length, if it is valid for this position in a message.
    fn checked_len(&self, packet: &Packet<'_>) -> Result<u32, NakReason> {
        let len = u32::try_from(packet.payload_len()).map_err(|_| NakReason::INVALID)?;
        self.config
            .path_mtu
            .allows_super_packet(packet.opcode().position(), packet.packets(), len)
            .then_some(len)
            .ok_or(NakReason::INVALID)
    }

    /// Checks that the QP grants `access`, and that the message is not too long.
    fn check_access(&self, reth: &Reth, access: Access) -> Result<(), NakReason> {
        match self.config.access.contains(access) && reth.len <= MAX_MESSAGE_BYTES {
            true => Ok(()),
            false => Err(NakReason::INVALID),
        }
    }

    /// Checks that QP and key grant `access` to the memory in `reth`. The key is not checked for
    /// length 0 (C9-88).
    pub(super) fn check_remote(
        &self,
        reth: &Reth,
        access: Access,
        host: &mut impl RequestContext,
    ) -> Result<(), NotExecuted> {
        self.check_access(reth, access)?;
        if reth.len == 0 {
            return Ok(());
        }
        Ok(host.check_remote(Remote::from(reth), reth.len, access)?)
    }

    /// Takes the receive for a message: the one held for this packet since its memory was not
    /// present, or the next one. An invalid receive completes with an error.
    fn take_receive(
        &mut self,
        host: &mut impl RequestContext,
        opcode: WcOpcode,
    ) -> Result<RecvWr, NakReason> {
        if let Some(wr) = self.held_receive.take() {
            return Ok(wr);
        }
        match host.take_receive() {
            None => Err(NakReason::NotReady),
            Some(Ok(wr)) => Ok(wr),
            Some(Err(BadRecv { wr_id, status })) => {
                host.complete_receive(Completion::failed(wr_id, opcode, status), false);
                Err(NakReason::Final(
                    NakCode::RemoteOperational,
                    Fatal::LocalError,
                ))
            }
        }
    }
}

/// Places the payload of a SEND packet at offset `received` of the receive `wr`, and invalidates the
/// key in the packet, if any. Returns the new number of bytes received; on error, the completion
/// status of the receive and the NAK code.
fn take_payload(
    packet: &Packet<'_>,
    wr: RecvWr,
    received: u32,
    host: &mut impl RequestContext,
) -> Result<u32, Obstacle<(WcStatus, NakCode)>> {
    let len = low_u32(usize_as_u64(packet.payload_len()));
    let end = received
        .checked_add(len)
        .filter(|&end| end <= wr.length)
        .ok_or((WcStatus::LocLenErr, NakCode::InvalidRequest))?;
    RxPayload::of(packet)
        .map_or(Ok(()), |payload| host.place_receive(received, payload))
        .map_err(|obstacle| obstacle.map(|status| (status, NakCode::RemoteOperational)))?;
    if let Some(Ieth { rkey }) = packet.ieth() {
        host.invalidate(rkey)
            .map_err(|_| (WcStatus::RemInvReqErr, NakCode::RemoteAccess))?;
    }
    Ok(end)
}
