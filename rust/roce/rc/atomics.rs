// SPDX-License-Identifier: GPL-2.0

//! Execution of atomic operations, ATOMIC WRITEs and FLUSHes: one request packet, one response
//! packet, executed at most once even if the request is repeated.
//!
//! All checks precede all effects. The replay entry is reserved first: a request whose response
//! could not be repeated is not executed.
//!
//! IBA: C9-88 (length 0), o9-17 (alignment of atomic operations); annex A19, memory placement
//! extensions.

use super::{
    nak::{
        NakReason,
        NotExecuted, //
    },
    replay::{
        ReplayEntry,
        Request, //
    },
    responder::{
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
    /// Executes an atomic operation.
    pub(super) fn on_atomic(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NotExecuted> {
        let (op, remote) = atomic(packet).ok_or(NakReason::INVALID)?;
        self.check_single_packet(packet, 0, Access::REMOTE_ATOMIC)?;
        check_alignment(remote)?;
        self.make_room()?;
        let original = host.execute_atomic(remote, op)?;
        Ok(self.record_response(Request::Atomic(op, original), remote)?)
    }

    /// Executes an ATOMIC WRITE.
    pub(super) fn on_atomic_write(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NotExecuted> {
        let reth = packet.reth().ok_or(NakReason::INVALID)?;
        let remote = Remote::from(&reth);
        self.check_single_packet(packet, ATOMIC_BYTES, Access::REMOTE_WRITE)?;
        if reth.len != ATOMIC_BYTES {
            return Err(NakReason::INVALID.into());
        }
        check_alignment(remote)?;
        self.make_room()?;
        let payload = RxPayload::of(packet).ok_or(NakReason::INVALID)?;
        host.write_atomic(remote, payload)?;
        Ok(self.record_response(Request::AtomicWrite, remote)?)
    }

    /// Executes a FLUSH. The data of all earlier requests is already placed.
    pub(super) fn on_flush(
        &mut self,
        packet: &Packet<'_>,
        host: &mut impl RequestContext,
    ) -> Result<(), NotExecuted> {
        let (feth, reth) = packet.feth().zip(packet.reth()).ok_or(NakReason::INVALID)?;
        let placement = Placement::from_bits(feth.placement).ok_or(NakReason::INVALID)?;
        let scope = match feth.selectivity {
            Feth::RANGE => FlushScope::Range(reth.len),
            Feth::MR => FlushScope::Region,
            _ => return Err(NakReason::INVALID.into()),
        };
        let remote = Remote::from(&reth);
        self.check_single_packet(packet, 0, placement.access())?;
        self.make_room()?;
        if scope != FlushScope::Range(0) {
            host.flush(remote, scope, placement)?;
        }
        Ok(self.record_response(Request::Flush, remote)?)
    }

    /// Checks that no message is in progress, that the payload has `payload` bytes, and that the QP
    /// grants `access`.
    fn check_single_packet(
        &self,
        packet: &Packet<'_>,
        payload: u32,
        access: Access,
    ) -> Result<(), NakReason> {
        let fits = usize_as_u64(packet.payload_len()) == u64::from(payload);
        let idle = !self.assembly.is_in_message();
        (fits && idle && self.config.access.contains(access))
            .then_some(())
            .ok_or(NakReason::INVALID)
    }

    fn make_room(&mut self) -> Result<(), NakReason> {
        let room = self.replay.make_room(self.expected, 1);
        room.map_err(|_| NakReason::INVALID)
    }

    /// Records the response to the expected request, which was executed.
    fn record_response(&mut self, request: Request, remote: Remote) -> Result<(), NakReason> {
        let entry = ReplayEntry::executed(self.expected, request, remote, self.msn.next());
        self.replay.push(entry).map_err(|_| NakReason::INVALID)?;
        self.expected = self.expected.next();
        self.end_message();
        Ok(())
    }
}

/// Returns the atomic operation of a packet and its address.
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
