// SPDX-License-Identifier: GPL-2.0

//! Test helpers: packets as plain values, for both directions.

extern crate std;

use crate::{
    id::{
        Msn,
        Pkey,
        Qpn,
        Rkey,
        Srqn, //
    },
    psn::Psn,
    segmentation::tx_desc::{
        BurstLimit,
        TxDesc, //
    },
    time::Instant,
    wire::{
        aeth::{
            Aeth,
            Syndrome, //
        },
        emit::Headers,
        ext::{
            AtomicAckEth,
            AtomicEth,
            Feth,
            Ieth,
            ImmDt,
            Reth,
            Xrceth, //
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

/// A burst without a limit.
pub(super) const ALL: BurstLimit = BurstLimit {
    bytes: u32::MAX,
    packets: u32::MAX,
};

/// The rkey of all test memory.
pub(super) const RKEY: Rkey = Rkey::new(0x77);

/// The peer's memory at `va`.
pub(super) const fn at(va: u64) -> Remote {
    Remote { va, rkey: RKEY }
}

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

/// The time `count` microseconds after the epoch.
pub(super) const fn micros(count: u64) -> Instant {
    Instant::from_nanos(count * 1_000)
}

/// A packet as a plain value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Pkt {
    pub(super) operation: Operation,
    pub(super) position: Position,
    pub(super) psn: u32,
    pub(super) len: u32,
    pub(super) syndrome: Option<Syndrome>,
    /// Address and length.
    pub(super) reth: Option<(u64, u32)>,
    pub(super) imm: Option<Imm>,
    /// Key to invalidate.
    pub(super) ieth: Option<Rkey>,
    /// Address, swap or add value, compare value.
    pub(super) atomic: Option<(u64, u64, u64)>,
    /// Original value of an atomic operation.
    pub(super) original: Option<u64>,
    /// Placement and selectivity.
    pub(super) feth: Option<(u8, u8)>,
    /// The number of the SRQ: then it is a packet of XRC.
    pub(super) srqn: Option<u32>,
    pub(super) ack_request: bool,
    pub(super) solicited: bool,
}

impl Pkt {
    /// A packet without extension headers and flags.
    pub(super) fn new(operation: Operation, position: Position, psn: u32, len: u32) -> Self {
        Self {
            operation,
            position,
            psn,
            len,
            syndrome: None,
            reth: None,
            imm: None,
            ieth: None,
            atomic: None,
            original: None,
            feth: None,
            srqn: None,
            ack_request: false,
            solicited: false,
        }
    }

    /// The packet with the AckReq bit set.
    pub(super) fn with_ack_request(self) -> Self {
        Self {
            ack_request: true,
            ..self
        }
    }

    /// A request of XRC, for this SRQ.
    pub(super) fn for_srq(self, srqn: u32) -> Self {
        Self {
            srqn: Some(srqn),
            ..self
        }
    }

    /// The packet with a RETH.
    pub(super) fn with_reth(self, va: u64, len: u32) -> Self {
        Self {
            reth: Some((va, len)),
            ..self
        }
    }

    /// The packet with immediate data.
    pub(super) fn with_imm(self, imm: [u8; 4]) -> Self {
        Self {
            imm: Some(Imm(imm)),
            ..self
        }
    }

    /// Converts a planned packet.
    pub(super) fn of(segment: &TxDesc) -> Self {
        let buffer = segment.headers.emit(segment.length as usize);
        let len = buffer.len() + (segment.length as usize).next_multiple_of(4) + 4;
        let packet = Packet::parse(buffer.as_slice(), len).unwrap();
        let service = packet.opcode().service();
        assert!(matches!(service, Service::Rc | Service::Xrc));
        assert_eq!(packet.payload_len(), segment.length as usize);
        Self {
            operation: packet.opcode().operation(),
            position: packet.opcode().position(),
            psn: packet.psn().get(),
            len: segment.length,
            syndrome: packet.aeth().map(|aeth| aeth.syndrome),
            reth: packet.reth().map(|reth| (reth.va, reth.len)),
            imm: packet.imm().map(|ImmDt(bytes)| Imm(bytes)),
            ieth: packet.ieth().map(|ieth| ieth.rkey),
            atomic: packet
                .atomic()
                .map(|eth| (eth.va, eth.swap_or_add, eth.compare)),
            original: packet.atomic_ack().map(|eth| eth.original),
            feth: packet.feth().map(|feth| (feth.placement, feth.selectivity)),
            srqn: packet.xrceth().map(|xrceth| xrceth.srqn.get()),
            ack_request: packet.ack_request(),
            solicited: packet.solicited(),
        }
    }

    /// Builds the packet, parses it and passes it to `take`.
    pub(super) fn parse<R>(self, take: impl FnOnce(&Packet<'_>) -> R) -> R {
        let imm = self.imm.is_some();
        let service = match self.srqn {
            Some(_) => Service::Xrc,
            None => Service::Rc,
        };
        let opcode = match self.operation {
            Operation::Reserved => Opcode::from_byte(0x1f),
            operation => Opcode::of(service, operation, self.position, imm),
        };
        let opcode = opcode.unwrap();
        let mut headers = Headers::new(opcode, Pkey::DEFAULT, Qpn::new(1), Psn::new(self.psn))
            .ack_request(self.ack_request)
            .solicited(self.solicited);
        if let Some(srqn) = self.srqn {
            let srqn = Srqn::new(srqn);
            headers = headers.xrceth(Xrceth { srqn });
        }
        if let Some((va, len)) = self.reth {
            let rkey = RKEY;
            headers = headers.reth(Reth { va, rkey, len });
        }
        if let Some(Imm(bytes)) = self.imm {
            headers = headers.imm(ImmDt(bytes));
        }
        if let Some(rkey) = self.ieth {
            headers = headers.ieth(Ieth { rkey });
        }
        if let Some((va, swap_or_add, compare)) = self.atomic {
            headers = headers.atomic(AtomicEth {
                va,
                rkey: RKEY,
                swap_or_add,
                compare,
            });
        }
        if let Some(original) = self.original {
            headers = headers.original(AtomicAckEth { original });
        }
        if let Some((placement, selectivity)) = self.feth {
            headers = headers.feth(Feth {
                placement,
                selectivity,
            });
        }
        let syndrome = self.syndrome.unwrap_or(Syndrome::ACK_UNLIMITED);
        let buffer = headers
            .aeth(Aeth {
                syndrome,
                msn: Msn::new(0),
            })
            .emit(self.len as usize);
        let len = buffer.len() + (self.len as usize).next_multiple_of(4) + 4;
        take(&Packet::parse(buffer.as_slice(), len).unwrap())
    }
}

/// An ACK or NAK.
pub(super) fn aeth_packet(psn: u32, syndrome: Syndrome) -> Pkt {
    Pkt {
        syndrome: Some(syndrome),
        ..Pkt::new(Operation::Acknowledge, Position::Only, psn, 0)
    }
}

/// An ACK.
pub(super) fn ack(psn: u32) -> Pkt {
    aeth_packet(psn, Syndrome::ACK_UNLIMITED)
}

/// The PSNs of packets.
pub(super) fn psns(packets: &[Pkt]) -> Vec<u32> {
    packets.iter().map(|packet| packet.psn).collect()
}
