// SPDX-License-Identifier: GPL-2.0

//! Requests that came before: what the responder says to them once more.
//!
//! Owns the comparison of a repeated request with the one that was answered. Nothing is carried out
//! here but READs, whose memory is read again.
//!
//! IBA: C9-105, duplicate requests.

use super::{
    atomics::atomic,
    pending_ack::PendingReply,
    replay::{
        ReplayEntry,
        Request, //
    },
    responder::Responder, //
};
use crate::{
    access::Access,
    psn::Psn,
    status::DropReason,
    wire::{
        opcode::Operation,
        packet::Packet, //
    },
    wr::Remote, //
};

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Answers a request again that was carried out already.
    pub(super) fn on_duplicate(&mut self, packet: &Packet<'_>) -> Result<(), DropReason> {
        self.stats.duplicates = self.stats.duplicates.wrapping_add(1);
        match packet.opcode().operation() {
            Operation::ReadRequest => self.repeat_read(packet),
            Operation::CompareSwap
            | Operation::FetchAdd
            | Operation::AtomicWrite
            | Operation::Flush => self.repeat_answer(packet),
            _ => {
                self.acknowledge_again(packet.psn());
                Ok(())
            }
        }
    }

    /// Acknowledges a SEND or WRITE again, if nothing else is to be said.
    fn acknowledge_again(&mut self, psn: Psn) {
        match self.reply {
            PendingReply::None => self.reply = PendingReply::Ack { owed: psn },
            PendingReply::Ack { owed } if owed.is_before(psn) => {
                self.reply = PendingReply::Ack { owed: psn }
            }
            PendingReply::Sequence { owed } if owed.is_none_or(|owed| owed.is_before(psn)) => {
                self.reply = PendingReply::Sequence { owed: Some(psn) };
            }
            _ => {}
        }
    }

    /// Answers a READ again: all that is left of it from the PSN of the request on, or a part.
    fn repeat_read(&mut self, packet: &Packet<'_>) -> Result<(), DropReason> {
        // The right may have gone since the READ was answered.
        if !self.config.access.contains(Access::REMOTE_READ) {
            return Err(DropReason::UnknownDuplicate);
        }
        let psn = packet.psn();
        let reth = packet.reth().ok_or(DropReason::UnknownDuplicate)?;
        let answer = self.replay.find(psn).ok_or(DropReason::UnknownDuplicate)?;
        let mtu = self.config.path_mtu;
        let start = psn.since(answer.first);
        let offset = mtu.offset(start, answer.length);
        let left = answer.length.saturating_sub(offset);
        let end = start.saturating_add(mtu.packets(reth.len));
        // A part that ends within a packet cannot be told from the whole by its PSNs.
        let whole = reth.len == left;
        let part = reth.len < left
            && reth.len != 0
            && mtu.offset(end, answer.length).wrapping_sub(offset) == reth.len;
        let same = answer.request == Request::Read
            && Remote::from(&reth) == answer.remote.advance(offset)
            && (whole || part);
        if !same {
            return Err(DropReason::UnknownDuplicate);
        }
        self.replay.repeat(psn, start, end);
        Ok(())
    }

    /// Gives the answer of one packet again, if it was to the same request.
    fn repeat_answer(&mut self, packet: &Packet<'_>) -> Result<(), DropReason> {
        let psn = packet.psn();
        let answer = self.replay.find(psn).ok_or(DropReason::UnknownDuplicate)?;
        let operation = packet.opcode().operation();
        let same = match answer.request {
            Request::Read => false,
            Request::Atomic(op, _) => atomic(packet) == Some((op, answer.remote)),
            Request::AtomicWrite | Request::Flush => {
                let asked = match answer.request {
                    Request::AtomicWrite => Operation::AtomicWrite,
                    _ => Operation::Flush,
                };
                let place = packet.reth().map(|reth| Remote::from(&reth));
                operation == asked && place == Some(answer.remote)
            }
        };
        if !same {
            return Err(DropReason::UnknownDuplicate);
        }
        self.replay.repeat(psn, 0, 1);
        Ok(())
    }
}
