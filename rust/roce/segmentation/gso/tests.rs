// SPDX-License-Identifier: GPL-2.0

//! Tests of splitting super-packets and coalescing packets.

extern crate std;

use super::*;
use crate::{
    id::{
        Msn,
        Pkey,
        Qpn,
        Rkey, //
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
            Reth, //
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
const KINDS: [(Operation, bool); 6] = [
    (Operation::Send, false),
    (Operation::Send, true),
    (Operation::SendInvalidate, false),
    (Operation::RdmaWrite, false),
    (Operation::RdmaWrite, true),
    (Operation::ReadResponse, false),
];

/// A super-packet with AckReq and solicited-event bits, and all extension headers.
fn super_packet(kind: (Operation, bool), position: Position, length: u32) -> TxDesc {
    let opcode = Opcode::of(Service::Rc, kind.0, position, kind.1).unwrap();
    let headers = Headers::new(opcode, Pkey::DEFAULT, Qpn::new(5), Psn::new(0xff_fffe))
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

#[test]
fn split_packets_are_coalesced() {
    for (kind, position) in KINDS.iter().flat_map(|&kind| {
        [
            Position::Only,
            Position::First,
            Position::Middle,
            Position::Last,
        ]
        .map(|position| (kind, position))
    }) {
        let length = match position {
            Position::Only | Position::Last => 5000,
            Position::First | Position::Middle => 5 * 1024,
        };
        let desc = super_packet(kind, position, length);
        let split = split(&desc);
        let packets: Vec<Packet<'_>> = split.iter().map(parse).collect();
        let mut coalesced = packets[0];
        let mut count = 1;
        for next in &packets[1..] {
            let Some(super_packet) = coalesced.coalesce(next, MTU) else {
                break;
            };
            coalesced = super_packet;
            count += 1;
        }
        // A last packet with extension headers is not coalesced.
        let ends = matches!(position, Position::Only | Position::Last);
        let has_extensions = packets[4].payload_offset() != BTH_LEN;
        assert_eq!(
            count,
            if ends && has_extensions { 4 } else { 5 },
            "{kind:?} {position:?}"
        );
        assert_eq!(coalesced.packets(), count);
        assert_eq!(coalesced.psn(), packets[0].psn());
        assert_eq!(coalesced.reth(), packets[0].reth());
        assert_eq!(coalesced.payload_offset(), packets[0].payload_offset());
        assert_eq!(coalesced.ack_request(), count == 5);
        assert_eq!(coalesced.solicited(), count == 5);
        let sum: usize = packets[..count as usize]
            .iter()
            .map(Packet::payload_len)
            .sum();
        assert_eq!(coalesced.payload_len(), sum);
        assert!(MTU.allows_super_packet(coalesced.opcode().position(), count, sum as u32));
    }
}

/// Whether the first packet of a SEND is coalesced with a packet like this one.
fn coalesces(position: Position, change: impl FnOnce(Headers) -> Headers, len: usize) -> bool {
    let first = super_packet((Operation::Send, false), Position::First, 1024);
    let first = (
        first.headers.ack_request(false).solicited(false).emit(1024),
        1024,
    );
    let next = Opcode::of(Service::Rc, Operation::Send, position, false).unwrap();
    let next = Headers::new(next, Pkey::DEFAULT, Qpn::new(5), Psn::new(0xff_ffff));
    let next = (change(next).emit(len), len);
    parse(&first).coalesce(&parse(&next), MTU).is_some()
}

#[test]
fn only_the_next_packet_of_the_message_is_coalesced() {
    assert!(coalesces(Position::Middle, |next| next, 1024));
    assert!(coalesces(Position::Last, |next| next, 1));
    assert!(coalesces(
        Position::Last,
        |next| next.ack_request(true),
        1024
    ));
    assert!(!coalesces(Position::First, |next| next, 1024));
    assert!(!coalesces(Position::Only, |next| next, 1024));
    assert!(!coalesces(Position::Middle, |next| next, 1023), "too short");
    assert!(!coalesces(Position::Last, |next| next, 1025), "too long");
    assert!(!coalesces(Position::Last, |next| next, 0), "empty");
    assert!(!coalesces(
        Position::Middle,
        |next| next.psn(Psn::new(0)),
        1024
    ));
    let other = Opcode::of(Service::Rc, Operation::RdmaWrite, Position::Middle, false).unwrap();
    let write = |_| Headers::new(other, Pkey::DEFAULT, Qpn::new(5), Psn::new(0xff_ffff));
    assert!(
        !coalesces(Position::Middle, write, 1024),
        "another operation"
    );
    let other = Opcode::of(Service::Rc, Operation::Send, Position::Middle, false).unwrap();
    let other_qp = |_| Headers::new(other, Pkey::DEFAULT, Qpn::new(6), Psn::new(0xff_ffff));
    assert!(!coalesces(Position::Middle, other_qp, 1024), "another QP");
}

#[test]
fn a_short_or_requesting_packet_is_not_coalesced() {
    let kind = (Operation::Send, false);
    let next = super_packet(kind, Position::Middle, 1024).headers;
    let next = (next.psn(Psn::new(0xff_ffff)).emit(1024), 1024);
    let first = |headers: Headers, len: usize| {
        let first = (headers.emit(len), len);
        parse(&first).coalesce(&parse(&next), MTU).is_some()
    };
    let headers = super_packet(kind, Position::First, 1024).headers;
    let no_request = headers.ack_request(false).solicited(false);
    assert!(first(no_request, 1024));
    assert!(!first(no_request, 1020));
    assert!(!first(no_request.ack_request(true), 1024));
    assert!(!first(no_request.solicited(true), 1024));
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
                f(&super_packet((kind.0, imm), position, length));
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
