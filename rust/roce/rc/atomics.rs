// SPDX-License-Identifier: GPL-2.0

//! Atomic operations, atomic writes and flushes: requests of one packet that have an answer of one
//! packet, and are carried out once however often they come.
//!
//! Owns their checks, which precede every effect. Room for the answer comes first: what cannot be
//! answered again is not carried out. READs, which are answered by many packets and may be carried
//! out again, are not here.
//!
//! IBA: C9-88 (length 0), o9-17 (alignment of atomic operations); annex A19, memory placement
//! extensions.

use super::{
    nak::NakReason,
    replay::{
        ReplayEntry,
        Request, //
    },
    responder::{
        RcMessage,
        RequestContext,
        Responder, //
    }, //
};
use crate::{
    access::Access,
    num::usize_as_u64,
    segmentation::tx_desc::RxPayload,
    wire::{
        ext::Feth,
        opcode::Operation,
        packet::Packet, //
    },
    wr::{
        AtomicOp,
        FlushScope,
        Placement,
        Remote,
        ATOMIC_BYTES, //
    }, //
};

impl<A: AsRef<[ReplayEntry]> + AsMut<[ReplayEntry]>> Responder<A> {
    /// Carries out an atomic operation.
    pub(super) fn on_atomic(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NakReason> {
        let (op, remote) = atomic(packet).ok_or(NakReason::INVALID)?;
        self.admit(packet, 0, Access::REMOTE_ATOMIC)?;
        check_alignment(remote)?;
        self.make_room()?;
        let found = host.execute_atomic(remote, op)?;
        self.answer(Request::Atomic(op, found), remote)
    }

    /// Carries out an atomic write.
    pub(super) fn on_atomic_write(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NakReason> {
        let reth = packet.reth().ok_or(NakReason::INVALID)?;
        let remote = Remote::from(&reth);
        self.admit(packet, ATOMIC_BYTES, Access::REMOTE_WRITE)?;
        if reth.len != ATOMIC_BYTES {
            return Err(NakReason::INVALID);
        }
        check_alignment(remote)?;
        self.make_room()?;
        let payload = RxPayload::of(packet).ok_or(NakReason::INVALID)?;
        host.write_atomic(remote, payload)?;
        self.answer(Request::AtomicWrite, remote)
    }

    /// Carries out a flush. Everything before it is in memory already.
    pub(super) fn on_flush(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NakReason> {
        let (feth, reth) = packet.feth().zip(packet.reth()).ok_or(NakReason::INVALID)?;
        let placement = Placement::from_bits(feth.placement).ok_or(NakReason::INVALID)?;
        let scope = match feth.selectivity {
            Feth::RANGE => FlushScope::Range(reth.len),
            Feth::MR => FlushScope::Region,
            _ => return Err(NakReason::INVALID),
        };
        let remote = Remote::from(&reth);
        self.admit(packet, 0, placement.access())?;
        self.make_room()?;
        if scope != FlushScope::Range(0) {
            host.flush(remote, scope, placement)?;
        }
        self.answer(Request::Flush, remote)
    }

    /// Checks that no message is under way, that the payload is as long as it must be, and that the
    /// peer may do `access` at all.
    fn admit(&self, packet: &Packet<'_>, payload: u32, access: Access) -> Result<(), NakReason> {
        let fits = usize_as_u64(packet.payload_len()) == u64::from(payload);
        let idle = self.message == RcMessage::None;
        (fits && idle && self.config.access.contains(access))
            .then_some(())
            .ok_or(NakReason::INVALID)
    }

    fn make_room(&mut self) -> Result<(), NakReason> {
        let room = self.replay.make_room(self.expected, 1);
        room.map_err(|_| NakReason::INVALID)
    }

    /// Notes the answer to the expected request, which is carried out.
    fn answer(&mut self, request: Request, remote: Remote) -> Result<(), NakReason> {
        let answer = ReplayEntry::done(self.expected, request, remote, self.msn.next());
        self.replay.push(answer).map_err(|_| NakReason::INVALID)?;
        self.expected = self.expected.next();
        self.finish();
        Ok(())
    }
}

/// Returns the atomic operation that a packet asks for, and where.
pub(super) fn atomic(packet: &Packet<'_>) -> Option<(AtomicOp, Remote)> {
    let eth = packet.atomic()?;
    let op = match packet.opcode().operation() {
        Operation::CompareSwap => AtomicOp::CompareSwap {
            compare: eth.compare,
            swap: eth.swap_or_add,
        },
        Operation::FetchAdd => AtomicOp::FetchAdd {
            add: eth.swap_or_add,
        },
        _ => return None,
    };
    let remote = Remote {
        va: eth.va,
        rkey: eth.rkey,
    };
    Some((op, remote))
}

fn check_alignment(remote: Remote) -> Result<(), NakReason> {
    match remote.va & u64::from(ATOMIC_BYTES.wrapping_sub(1)) {
        0 => Ok(()),
        _ => Err(NakReason::INVALID),
    }
}
