// SPDX-License-Identifier: GPL-2.0

//! Requests and packets for the tests of sender and receiver.

extern crate std;

use crate::{
    id::{
        Pkey,
        Qpn,
        Rkey,
        Srqn, //
    },
    psn::Psn,
    wire::{
        emit::Headers,
        ext::{
            ImmDt,
            Reth, //
        },
        opcode::{
            Opcode,
            Operation,
            Position,
            Service, //
        },
        packet::Packet, //
    },
    wr::{
        Imm,
        Remote,
        SendOp,
        SendWr, //
    }, //
};
use std::vec::Vec;

/// An address in the peer's memory.
pub(super) const REMOTE: Remote = Remote {
    va: 0x1000,
    rkey: Rkey::new(0x77),
};

/// Immediate data.
pub(super) const IMM: Imm = Imm([1, 2, 3, 4]);

/// A signaled request whose `wr_id` is its length.
pub(super) fn request(op: SendOp, length: u32) -> SendWr {
    SendWr {
        wr_id: u64::from(length),
        op,
        length,
        srqn: Srqn::default(),
        signaled: true,
        solicited: false,
        fence: false,
    }
}

/// A packet as a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Pkt {
    pub(super) operation: Operation,
    pub(super) position: Position,
    pub(super) psn: u32,
    pub(super) len: usize,
    /// Address and length.
    pub(super) reth: Option<(u64, u32)>,
    pub(super) imm: bool,
    pub(super) solicited: bool,
}

impl Pkt {
    pub(super) fn send(position: Position, psn: u32, len: usize) -> Self {
        Self {
            operation: Operation::Send,
            position,
            psn,
            len,
            reth: None,
            imm: false,
            solicited: false,
        }
    }

    /// A packet of a WRITE of `total` bytes.
    pub(super) fn write(position: Position, psn: u32, len: usize, total: u32) -> Self {
        let starts = matches!(position, Position::First | Position::Only);
        Self {
            operation: Operation::RdmaWrite,
            reth: starts.then_some((REMOTE.va, total)),
            ..Self::send(position, psn, len)
        }
    }

    pub(super) fn with_imm(self) -> Self {
        Self { imm: true, ..self }
    }

    pub(super) fn solicited(self) -> Self {
        Self {
            solicited: true,
            ..self
        }
    }

    /// Converts from a parsed packet.
    pub(super) fn of(packet: &Packet<'_>) -> Self {
        assert_eq!(packet.opcode().service(), Service::Uc);
        assert!(!packet.ack_request(), "UC requests no ACK");
        Self {
            operation: packet.opcode().operation(),
            position: packet.opcode().position(),
            psn: packet.psn().get(),
            len: packet.payload_len(),
            reth: packet.reth().map(|reth| (reth.va, reth.len)),
            imm: packet.imm().is_some(),
            solicited: packet.solicited(),
        }
    }

    /// Returns the bytes of the packet. Payload and ICRC are zeros.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let opcode = Opcode::of(Service::Uc, self.operation, self.position, self.imm);
        let psn = Psn::new(self.psn);
        let mut headers = Headers::new(opcode.unwrap(), Pkey::DEFAULT, Qpn::new(5), psn)
            .solicited(self.solicited);
        if let Some((va, len)) = self.reth {
            let rkey = REMOTE.rkey;
            headers = headers.reth(Reth { va, rkey, len });
        }
        if self.imm {
            headers = headers.imm(ImmDt(IMM.0));
        }
        let mut bytes = headers.emit(self.len).as_slice().to_vec();
        let pad = self.len.wrapping_neg() % 4;
        bytes.resize(bytes.len() + self.len + pad + 4, 0);
        bytes
    }
}
