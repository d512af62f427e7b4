// SPDX-License-Identifier: GPL-2.0

//! Requests to effects: what the responder makes of a packet.
//!
//! Owns the order of the checks: PSN, length of the payload, sequence of opcodes, rights, length of the message,
//! resources. A packet that fails one has had no effect. Atomic operations and their like are in `atomics`, what came
//! before in `duplicates`. Does not know how answers are sent.
//!
//! IBA: section 9.7.4, inbound requests; C9-88 (length 0), C9-92 (lengths of payload), C9-94
//! (longest message), C9-148 (a READ counts when it is accepted).

use super::{
    nak::NakReason,
    pending_ack::PendingReply,
    replay::ReplayEntry,
    responder::{
        Fatal,
        RcMessage,
        Recovery,
        RequestContext,
        Responder, //
        ResponderState,
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
        MAX_MESSAGE, //
    }, //
};

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Takes a request of the peer. Its answer, if it has one, leaves with the next
    /// [`burst`](Self::burst), whatever is returned here.
    ///
    /// # Errors
    ///
    /// - [`DropReason::WrongQpState`]: no request is carried out in this state.
    /// - [`DropReason::WrongService`]: it is not an RC request.
    /// - [`DropReason::AheadOfSequence`]: one before it is missing, or must come again.
    /// - [`DropReason::UnknownDuplicate`]: its answer is not kept any more.
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
            _ => self.on_duplicate(packet).map(|()| Taken::Whole),
        }
    }

    /// A request is missing before this one. The peer is told once.
    fn on_early(&mut self, psn: Psn) -> Result<(), DropReason> {
        self.stats.out_of_sequence = self.stats.out_of_sequence.wrapping_add(1);
        if self
            .recovery
            .latest
            .is_none_or(|latest| psn.is_after(latest))
        {
            self.recovery.latest = Some(psn);
        }
        if !self.recovery.told {
            self.recovery.told = true;
            let owed = self.reply.owed();
            self.reply = PendingReply::Sequence { owed };
        }
        Err(DropReason::AheadOfSequence)
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
            _ => Err(NakReason::INVALID),
        };
        match outcome {
            Ok(()) => self.recovered(packet.ack_request()),
            Err(NakReason::Absent) => return Ok(Taken::Paused),
            Err(NakReason::NotReady) => {
                self.stats.rnr_naks = self.stats.rnr_naks.wrapping_add(1);
                self.reply = PendingReply::NotReady;
                // What follows is dropped in silence: the peer will send it again anyway.
                self.recovery.told = true;
            }
            Err(NakReason::Final(code, fatal)) => self.refuse(self.expected, code, fatal),
        }
        Ok(Taken::Whole)
    }

    /// The expected request has arrived: the peer need not be told to go back to it any more,
    /// except for what was dropped after it.
    fn recovered(&mut self, ack_request: bool) {
        self.replay.age(self.expected);
        let untold = matches!(
            self.reply,
            PendingReply::Sequence { .. } | PendingReply::NotReady
        );
        let missing = |latest: Psn| !latest.is_before(self.expected);
        if untold && self.recovery.latest.is_some_and(missing) {
            let owed = match ack_request {
                true => Some(self.expected.sub(1)),
                false => self.reply.owed(),
            };
            self.reply = PendingReply::Sequence { owed };
            return;
        }
        self.recovery = Recovery::default();
        if untold || ack_request {
            self.owe_ack();
        }
    }

    pub(super) fn owe_ack(&mut self) {
        self.reply = PendingReply::Ack {
            owed: self.expected.sub(1),
        };
    }

    // Operations. Each advances the expected PSN when it is done.

    fn on_send(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NakReason> {
        let opcode = packet.opcode();
        self.checked_len(packet)?;
        let (wr, received) = match (self.message, opcode.starts_message()) {
            (RcMessage::None, true) => (self.take_receive(host, WcOpcode::Recv)?, 0),
            (RcMessage::Send { wr, received }, false) => (wr, received),
            _ => return Err(NakReason::INVALID),
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
                    self.held = Some(wr);
                }
                Err(NakReason::Absent)
            }
            Err(Obstacle::Refused((status, nak))) => {
                self.message = RcMessage::None;
                let failed = Completion::failed(wr.wr_id, WcOpcode::Recv, status);
                host.complete_receive(failed, packet.solicited());
                Err(NakReason::Final(nak, Fatal::LocalError))
            }
        }
    }

    fn on_write(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NakReason> {
        let opcode = packet.opcode();
        let len = self.checked_len(packet)?;
        let (next, left, length) = match (self.message, packet.reth()) {
            (RcMessage::None, Some(reth)) => {
                self.check_remote(&reth, Access::REMOTE_WRITE, host)?;
                (Remote::from(&reth), reth.len, reth.len)
            }
            // The right may have gone since the message began.
            (RcMessage::Write { next, left, length }, None)
                if self.config.access.contains(Access::REMOTE_WRITE) =>
            {
                (next, left, length)
            }
            _ => return Err(NakReason::INVALID),
        };
        let left = left.checked_sub(len).ok_or(NakReason::INVALID)?;
        if opcode.ends_message() != (left == 0) {
            return Err(NakReason::INVALID);
        }
        let wr = match packet.imm() {
            Some(_) => Some(self.take_receive(host, WcOpcode::RecvRdmaWithImm)?),
            None => None,
        };
        let payload = RxPayload::of(packet);
        let placed = payload.map_or(Ok(()), |payload| host.place_remote(next, payload));
        if let Err(obstacle) = placed {
            if let (Obstacle::Absent, Some(wr)) = (obstacle, wr) {
                self.held = Some(wr);
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
            left,
            length,
        };
        if opcode.ends_message() {
            match wr {
                Some(wr) => self.complete(wr, WcOpcode::RecvRdmaWithImm, length, packet, host),
                None => self.finish(),
            }
        }
        Ok(())
    }

    fn on_read(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NakReason> {
        let reth = packet.reth().ok_or(NakReason::INVALID)?;
        if self.message != RcMessage::None || packet.payload_len() != 0 {
            return Err(NakReason::INVALID);
        }
        let packets = self.config.path_mtu.packets(reth.len);
        self.check_remote(&reth, Access::REMOTE_READ, host)?;
        let answer = ReplayEntry::new(
            self.expected,
            packets,
            Remote::from(&reth),
            reth.len,
            self.msn.next(),
        );
        self.replay.push(answer).map_err(|_| NakReason::INVALID)?;
        self.expected = self.expected.add(packets);
        self.finish();
        Ok(())
    }

    /// Reports the end of a message that consumes a receive.
    fn complete(
        &mut self,
        wr: RecvWr,
        opcode: WcOpcode,
        byte_len: u32,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) {
        self.finish();
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

    /// Counts the end of a message.
    pub(super) fn finish(&mut self) {
        self.message = RcMessage::None;
        self.msn = self.msn.next();
    }

    // Checks.

    /// Returns the length of the payload if it is one that a packet in this position can have.
    fn checked_len(&self, packet: &Packet<'_>) -> Result<u32, NakReason> {
        let len = u32::try_from(packet.payload_len()).map_err(|_| NakReason::INVALID)?;
        self.config
            .path_mtu
            .admits_run(packet.opcode().position(), packet.packets(), len)
            .then_some(len)
            .ok_or(NakReason::INVALID)
    }

    /// Checks that the peer may do `access` to the memory that it names. Memory of length 0 is
    /// not looked at (C9-88).
    fn check_remote(
        &self,
        reth: &Reth,
        access: Access,
        host: &mut impl RequestContext,
    ) -> Result<(), NakReason> {
        if !self.config.access.contains(access) || reth.len > MAX_MESSAGE {
            return Err(NakReason::INVALID);
        }
        if reth.len == 0 {
            return Ok(());
        }
        Ok(host.check_remote(Remote::from(reth), reth.len, access)?)
    }

    /// Takes a receive for a message: the one that was taken for the same packet before, when
    /// memory was absent, or the next. One that cannot be used completes at once.
    fn take_receive(
        &mut self,
        host: &mut impl RequestContext,
        opcode: WcOpcode,
    ) -> Result<RecvWr, NakReason> {
        if let Some(wr) = self.held.take() {
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

/// Places the payload of a packet of a SEND into the receive `wr`, of which `received` bytes are
/// there, and takes the key back that the packet names. Returns how many bytes are there then; or
/// what the receive completes with, and what the peer is told.
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
