// SPDX-License-Identifier: GPL-2.0

//! Duplicate requests: compares them with the executed request and repeats the response.
//!
//! Only READs are executed again: their memory is read anew. A duplicate READ may even name other memory than the first
//! one, if it uses only PSNs of the first one and the key grants the access.
//!
//! IBA: C9-105, duplicate requests.

use super::{
    atomics::atomic,
    replay::{
        ReplayEntry,
        Request, //
    },
    responder::{
        PendingAck,
        RequestContext,
        Responder, //
    },
    xrc::srqn, //
};
use crate::{
    access::Access,
    psn::Psn,
    status::DropReason,
    wire::{
        opcode::{
            Operation,
            Service, //
        },
        packet::Packet, //
    },
    wr::Remote, //
};

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Handles a request that was already executed.
    pub(super) fn on_duplicate(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), DropReason> {
        self.stats.duplicates = self.stats.duplicates.wrapping_add(1);
        match packet.opcode().operation() {
            Operation::ReadRequest => self.repeat_read(packet, host),
            Operation::CompareSwap
            | Operation::FetchAdd
            | Operation::AtomicWrite
            | Operation::Flush => self.repeat_response(packet),
            // The PSN belongs to a request that was executed, so the packet is not what was sent with it.
            Operation::Reserved => Err(DropReason::UnknownDuplicate),
            _ => {
                self.acknowledge_again(packet.psn());
                Ok(())
            }
        }
    }

    /// Acknowledges a SEND or WRITE again, unless an RNR NAK or a fatal NAK is pending.
    fn acknowledge_again(&mut self, psn: Psn) {
        match self.pending_ack {
            PendingAck::None => self.pending_ack = PendingAck::Ack { required: psn },
            PendingAck::Ack { required } if required.is_before(psn) => {
                self.pending_ack = PendingAck::Ack { required: psn }
            }
            PendingAck::SequenceNak { required }
                if required.is_none_or(|required| required.is_before(psn)) =>
            {
                self.pending_ack = PendingAck::SequenceNak {
                    required: Some(psn),
                };
            }
            _ => {}
        }
    }

    /// Repeats a READ response from the PSN of the request on, completely or in part.
    fn repeat_read(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), DropReason> {
        // The right may have been revoked since the first response.
        if !self.config.access.contains(Access::REMOTE_READ) {
            return Err(DropReason::UnknownDuplicate);
        }
        let psn = packet.psn();
        let reth = packet.reth().ok_or(DropReason::UnknownDuplicate)?;
        let entry = self.replay.find(psn).ok_or(DropReason::UnknownDuplicate)?;
        let mtu = self.config.path_mtu;
        let start = psn.since(entry.first);
        let offset = mtu.offset(start, entry.length);
        let left = entry.length.saturating_sub(offset);
        let end = start.saturating_add(mtu.packets(reth.len));
        if entry.request != Request::Read {
            return Err(DropReason::UnknownDuplicate);
        }
        // A part must end at a packet boundary: otherwise its PSNs would not show where it ends.
        let whole = reth.len == left;
        let part = reth.len < left
            && reth.len != 0
            && mtu.offset(end, entry.length).wrapping_sub(offset) == reth.len;
        let srqn = srqn(packet);
        let same = Remote::from(&reth) == entry.remote.advance(offset)
            && srqn == entry.srqn
            && (whole || part);
        if !same {
            let is_xrc = self.config.connection.service == Service::Xrc;
            let fits = end <= entry.packets && !entry.is_new() && packet.payload_len() == 0;
            let granted = fits
                && (!is_xrc || host.select_srq(srqn))
                && self.check_remote(&reth, Access::REMOTE_READ, host).is_ok();
            if !granted {
                return Err(DropReason::UnknownDuplicate);
            }
            let skipped = mtu.bytes().saturating_mul(start);
            self.replay.replace_read(psn, (&reth, srqn), skipped);
        }
        // Data that waits for memory is not lost.
        if !self.waits_for_memory() {
            self.reads.on_repeat();
        }
        self.replay.repeat(psn, start, end);
        Ok(())
    }

    /// Repeats a response of one packet, if the request is the same.
    fn repeat_response(&mut self, packet: &Packet<'_>) -> Result<(), DropReason> {
        let psn = packet.psn();
        let entry = self.replay.find(psn).ok_or(DropReason::UnknownDuplicate)?;
        let operation = packet.opcode().operation();
        let same = match entry.request {
            Request::Read => false,
            Request::Atomic(op, _) => atomic(packet) == Some((op, entry.remote)),
            Request::AtomicWrite | Request::Flush => {
                let expected = match entry.request {
                    Request::AtomicWrite => Operation::AtomicWrite,
                    _ => Operation::Flush,
                };
                let remote = packet.reth().map(|reth| Remote::from(&reth));
                operation == expected && remote == Some(entry.remote)
            }
        };
        if !same {
            return Err(DropReason::UnknownDuplicate);
        }
        self.replay.repeat(psn, 0, 1);
        Ok(())
    }
}
