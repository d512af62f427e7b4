// SPDX-License-Identifier: GPL-2.0

//! Tests of splitting super-packets.

extern crate std;

use super::*;
use crate::{
    id::{
        Msn,
        Pkey,
        Qpn,
        Rkey,
        Srqn, //
    },
    psn::Psn,
    segmentation::{
        super_packet::SuperPacketSize,
        tx_desc::{
            SlotIndex,
            TxPayload, //
        }, //
    },
    wire::{
        aeth::{
            Aeth,
            Syndrome, //
        },
        emit::Headers,
        ext::{
            Ieth,
            ImmDt,
            Reth,
            Xrceth, //
        },
        opcode::{
            Operation,
            Service, //
        }, //
    }, //
};
use std::vec::Vec;

const MTU: Mtu = Mtu::Mtu1024;

const RETH: Reth = Reth {
    va: 0x1122_3344_5566,
    rkey: Rkey::new(0x77),
    len: 5000,
};

const IMM: ImmDt = ImmDt([1, 2, 3, 4]);

/// Operations whose messages may have several packets, with and without immediate data.
const KINDS: [(Operation, bool, Service); 12] = [
    (Operation::Send, false, Service::Rc),
    (Operation::Send, true, Service::Rc),
    (Operation::SendInvalidate, false, Service::Rc),
    (Operation::RdmaWrite, false, Service::Rc),
    (Operation::RdmaWrite, true, Service::Rc),
    (Operation::ReadResponse, false, Service::Rc),
    (Operation::Send, false, Service::Xrc),
    (Operation::Send, true, Service::Xrc),
    (Operation::SendInvalidate, false, Service::Xrc),
    (Operation::RdmaWrite, false, Service::Xrc),
    (Operation::RdmaWrite, true, Service::Xrc),
    (Operation::ReadResponse, false, Service::Xrc),
];

const XRCETH: Xrceth = Xrceth {
    srqn: Srqn::new(0x12_3456),
};

/// A super-packet with AckReq and solicited-event bits, and all extension headers.
fn super_packet(kind: (Operation, bool, Service), position: Position, length: u32) -> TxDesc {
    let opcode = Opcode::of(kind.2, kind.0, position, kind.1).unwrap();
    let headers = Headers::new(opcode, Pkey::DEFAULT, Qpn::new(5), Psn::new(0xff_fffe))
        .xrceth(XRCETH)
        .reth(RETH)
        .imm(IMM)
        .ieth(Ieth {
            rkey: Rkey::new(0x99),
        })
        .aeth(Aeth {
            syndrome: Syndrome::ACK_UNLIMITED,
            msn: Msn::new(3),
        })
        .ack_request(true)
        .solicited(true);
    TxDesc {
        headers,
        source: TxPayload::Slot(SlotIndex(0)),
        offset: 0,
        length,
        packets: MTU.packets(length),
    }
}

/// Splits a super-packet. Returns headers and payload length of each packet.
fn split(desc: &TxDesc) -> Vec<(HeaderBuf, usize)> {
    let mut packets = desc.split(MTU);
    let mut all = Vec::new();
    while let Some((headers, len)) = packets.advance() {
        all.push((*headers, len as usize));
    }
    all
}

fn parse((headers, len): &(HeaderBuf, usize)) -> Packet<'_> {
    let len = headers.len() + len.next_multiple_of(4) + 4;
    Packet::parse(headers.as_slice(), len).unwrap()
}

#[test]
fn a_message_is_split_into_its_packets() {
    for (kind, length) in KINDS.iter().flat_map(|&kind| {
        [0, 1, 1023, 1024, 1025, 2048, 5000]
            .iter()
            .map(move |&length| (kind, length))
    }) {
        let desc = super_packet(kind, Position::Only, length);
        let split = split(&desc);
        assert_eq!(split.len(), desc.packets as usize);
        let mut sum = 0;
        for (index, packet) in split.iter().map(parse).enumerate() {
            let (starts, ends) = (index == 0, index + 1 == split.len());
            let opcode = packet.opcode();
            assert_eq!(
                (opcode.starts_message(), opcode.ends_message()),
                (starts, ends)
            );
            assert_eq!(packet.psn(), Psn::new(0xff_fffe).add(index as u32));
            assert!(MTU.allows_payload(opcode.position(), packet.payload_len() as u32));
            assert_eq!((packet.ack_request(), packet.solicited()), (ends, ends));
            let has_xrceth = kind.2 == Service::Xrc && packet.opcode().is_request();
            assert_eq!(packet.xrceth(), has_xrceth.then_some(XRCETH));
            let writes = kind.0 == Operation::RdmaWrite;
            assert_eq!(packet.reth(), (writes && starts).then_some(RETH));
            assert_eq!(packet.imm(), (kind.1 && ends).then_some(IMM));
            let invalidates = kind.0 == Operation::SendInvalidate && ends;
            assert_eq!(packet.ieth().is_some(), invalidates);
            let has_aeth = kind.0 == Operation::ReadResponse && (starts || ends);
            assert_eq!(
                packet.aeth().map(|aeth| aeth.msn.get()),
                has_aeth.then_some(3)
            );
            sum += packet.payload_len();
        }
        assert_eq!(sum, length as usize);
    }
}

#[test]
fn wire_len_is_the_length_of_all_packets() {
    let positions = [
        Position::Only,
        Position::First,
        Position::Middle,
        Position::Last,
    ];
    for (kind, position) in KINDS
        .iter()
        .flat_map(|&kind| positions.map(|position| (kind, position)))
    {
        for length in [0, 1, 1023, 1024, 1025, 2048, 3072, 5000, 65_536] {
            let ends = matches!(position, Position::Only | Position::Last);
            if !ends && (length == 0 || length % 1024 != 0) {
                continue;
            }
            let desc = super_packet(kind, position, length);
            let expected: usize = split(&desc)
                .iter()
                .map(|(headers, len)| headers.len() + len.next_multiple_of(4) + ICRC_LEN)
                .sum();
            assert_eq!(
                desc.wire_len(MTU),
                expected,
                "{kind:?} {position:?} {length}"
            );
        }
    }
}

/// Lengths of super-packets at a position: any length up to the end of a message, full packets otherwise.
fn lengths(position: Position) -> impl Iterator<Item = u32> {
    let lengths = [700, 1024, 1025, 2048, 2049, 4095, 4096, 65_536, 65_535];
    lengths.into_iter().filter(move |length| {
        matches!(position, Position::Only | Position::Last) || length % MTU.bytes() == 0
    })
}

/// Calls `f` with every kind of super-packet.
fn for_each_super_packet(mut f: impl FnMut(&TxDesc)) {
    for kind in KINDS {
        for position in [
            Position::Only,
            Position::First,
            Position::Middle,
            Position::Last,
        ] {
            // Only the last packet of a message has immediate data.
            let imm = kind.1 && matches!(position, Position::Only | Position::Last);
            for length in lengths(position) {
                f(&super_packet((kind.0, imm, kind.2), position, length));
            }
        }
    }
}

fn size_of_buffer(desc: &TxDesc, headers: &HeaderBuf) -> SuperPacketSize {
    SuperPacketSize {
        len: headers.len() + desc.length as usize,
        packets: desc.packets,
        longest: desc.longest_packet(MTU),
    }
}

#[test]
fn an_unsplit_super_packet_is_split_from_its_buffer() {
    for_each_super_packet(|desc| {
        let headers = desc.headers.emit(desc.length as usize);
        let size = size_of_buffer(desc, &headers);
        let (packet, mtu) = Packet::parse_super_packet(headers.as_slice(), size).unwrap();
        assert_eq!(mtu, MTU);
        assert_eq!(packet.packets(), desc.packets);
        assert_eq!(packet.payload_len(), desc.length as usize);
        assert_eq!(packet.wire_len(MTU), desc.wire_len(MTU));
        let expected = split(desc);
        let longest = expected
            .iter()
            .map(|(headers, len)| headers.len() + len.next_multiple_of(4) + 4)
            .max();
        let full = BTH_LEN + 1024 + ICRC_LEN;
        assert_eq!(longest.max(Some(full)), Some(size.longest));
        let mut packets = packet.split(mtu);
        for (headers, len) in expected {
            let (split_headers, split_len) = packets.advance().unwrap();
            assert_eq!(split_headers.as_slice(), headers.as_slice());
            assert_eq!(split_len as usize, len);
        }
        assert!(packets.advance().is_none());
    });
}

#[test]
fn a_buffer_of_another_size_is_no_super_packet() {
    for_each_super_packet(|desc| {
        let headers = desc.headers.emit(desc.length as usize);
        let size = size_of_buffer(desc, &headers);
        for wrong in [
            SuperPacketSize {
                len: size.len + 4096,
                ..size
            },
            SuperPacketSize {
                packets: size.packets + 1,
                ..size
            },
            SuperPacketSize { packets: 0, ..size },
            SuperPacketSize {
                longest: size.longest / 2,
                ..size
            },
            SuperPacketSize {
                longest: 255,
                ..size
            },
            SuperPacketSize { len: 11, ..size },
        ] {
            let parsed = Packet::parse_super_packet(headers.as_slice(), wrong);
            assert!(parsed.is_err(), "{wrong:?} of {desc:?}");
        }
    });
}

#[test]
fn the_first_packets_of_a_super_packet_are_its_first_packets() {
    for_each_super_packet(|desc| {
        assert!(desc.first_packets(0, MTU).is_none());
        assert!(desc.first_packets(desc.packets, MTU).is_none());
        for packets in 1..desc.packets {
            let shorter = desc.first_packets(packets, MTU).unwrap();
            let (all, first) = (split(desc), split(&shorter));
            assert_eq!(first.len(), packets as usize);
            for (expected, packet) in all.iter().zip(&first) {
                assert_eq!(expected.0.as_slice(), packet.0.as_slice());
                assert_eq!(expected.1, packet.1);
            }
        }
    });
}
