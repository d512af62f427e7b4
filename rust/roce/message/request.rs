// SPDX-License-Identifier: GPL-2.0

//! The packets of a request: their operation, headers and payload.

use super::connection::Connection;
use crate::{
    psn::Psn,
    segmentation::{
        mtu::Mtu,
        tx_desc::{
            SlotIndex,
            TxDesc,
            TxPayload, //
        }, //
    },
    wire::{
        emit::Headers,
        ext::{
            AtomicEth,
            Feth,
            Ieth,
            ImmDt,
            Reth,
            Xrceth, //
        },
        opcode::{
            Operation,
            Position,
            Service, //
        }, //
    },
    wr::{
        AtomicOp,
        FlushScope,
        Imm,
        Placement,
        Remote,
        SendOp,
        SendWr, //
    }, //
};

/// Consecutive packets of a request, sent together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestPart {
    /// Index of the first packet.
    index: u32,
    /// Index after the last packet.
    end: u32,
    /// Number of packets of the message.
    packets: u32,
}

impl RequestPart {
    /// Returns packets `index` to `end` (exclusive) of `packets`. Of a READ: those to request, with one packet.
    #[inline]
    pub(crate) const fn new(index: u32, end: u32, packets: u32) -> Self {
        Self {
            index,
            end,
            packets,
        }
    }

    /// Returns whether the part ends the message. A request that awaits a response is one packet.
    #[inline]
    pub(crate) const fn is_last(&self, awaits_response: bool) -> bool {
        awaits_response || self.end >= self.packets
    }

    /// Returns the headers. `None`: it is a local operation, or the service does not have this one.
    #[inline]
    pub(crate) fn headers(
        &self,
        connection: &Connection,
        wr: &SendWr,
        mtu: Mtu,
        psn: Psn,
    ) -> Option<Headers> {
        let (operation, imm) = operation(&wr.op)?;
        let awaits_response = wr.op.awaits_response();
        let is_last = self.is_last(awaits_response);
        let position = Position::of(awaits_response || self.index == 0, is_last);
        let headers = connection
            .headers(operation, position, imm.is_some(), psn)?
            .solicited(wr.solicited && is_last && wr.op.uses_receive());
        let headers = match connection.service {
            Service::Xrc => headers.xrceth(Xrceth { srqn: wr.srqn }),
            _ => headers,
        };
        // Headers that the opcode does not have are not emitted.
        Some(
            match wr.op {
                SendOp::Send { .. } | SendOp::Local(_) => headers,
                SendOp::SendInvalidate { rkey } => headers.ieth(Ieth { rkey }),
                SendOp::Write { remote, .. } => headers.reth(reth(remote, wr.length)),
                SendOp::Read { remote } | SendOp::ReadInvalidate { remote, .. } => {
                    let offset = mtu.offset(self.index, wr.length);
                    let length = mtu.payload_between(self.index, self.end, wr.length);
                    headers.reth(reth(remote.advance(offset), length))
                }
                SendOp::Atomic { remote, op } => headers.atomic(atomic(remote, op)),
                SendOp::AtomicWrite { remote, .. } => headers.reth(reth(remote, wr.length)),
                SendOp::Flush {
                    remote,
                    scope,
                    placement,
                } => flush(headers, remote, scope, placement),
            }
            .imm(ImmDt(imm.map_or([0; 4], |Imm(bytes)| bytes))),
        )
    }

    /// Returns `packets` packets with these headers and `length` bytes of payload. `slot`: the slot of the request.
    #[inline]
    pub(crate) fn describe(
        &self,
        headers: Headers,
        (slot, wr): (SlotIndex, &SendWr),
        mtu: Mtu,
        (packets, length): (u32, u32),
    ) -> TxDesc {
        let (source, offset) = match (length, wr.op) {
            (0, _) => (TxPayload::None, 0),
            (_, SendOp::AtomicWrite { value, .. }) => (TxPayload::Value(value), 0),
            _ => (TxPayload::Slot(slot), mtu.offset(self.index, wr.length)),
        };
        TxDesc {
            headers,
            source,
            offset,
            length,
            packets,
        }
    }
}

/// Returns the operation of a request's packets, and its immediate data.
fn operation(op: &SendOp) -> Option<(Operation, Option<Imm>)> {
    Some(match *op {
        SendOp::Send { imm } => (Operation::Send, imm),
        SendOp::SendInvalidate { .. } => (Operation::SendInvalidate, None),
        SendOp::Write { imm, .. } => (Operation::RdmaWrite, imm),
        SendOp::Read { .. } | SendOp::ReadInvalidate { .. } => (Operation::ReadRequest, None),
        SendOp::Atomic { op, .. } => match op {
            AtomicOp::CompareSwap { .. } => (Operation::CompareSwap, None),
            AtomicOp::FetchAdd { .. } => (Operation::FetchAdd, None),
        },
        SendOp::AtomicWrite { .. } => (Operation::AtomicWrite, None),
        SendOp::Flush { .. } => (Operation::Flush, None),
        SendOp::Local(_) => return None,
    })
}

fn reth(Remote { va, rkey }: Remote, len: u32) -> Reth {
    Reth { va, rkey, len }
}

fn atomic(Remote { va, rkey }: Remote, op: AtomicOp) -> AtomicEth {
    let (compare, swap_or_add) = match op {
        AtomicOp::CompareSwap { compare, swap } => (compare, swap),
        AtomicOp::FetchAdd { add } => (0, add),
    };
    AtomicEth {
        va,
        rkey,
        swap_or_add,
        compare,
    }
}

fn flush(headers: Headers, at: Remote, scope: FlushScope, placement: Placement) -> Headers {
    let (selectivity, len) = match scope {
        FlushScope::Range(len) => (Feth::RANGE, len),
        FlushScope::Region => (Feth::MR, 0),
    };
    let feth = Feth {
        placement: placement.bits(),
        selectivity,
    };
    headers.feth(feth).reth(reth(at, len))
}
