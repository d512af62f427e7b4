// SPDX-License-Identifier: GPL-2.0

//! Runs are cut into the packets that a message has, and joined to what they were cut from.

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
    segmentation::tx_desc::{
        SlotIndex,
        TxPayload, //
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

/// Every operation whose messages have several packets, with immediate data or without.
const KINDS: [(Operation, bool); 6] = [
    (Operation::Send, false),
    (Operation::Send, true),
    (Operation::SendInvalidate, false),
    (Operation::RdmaWrite, false),
    (Operation::RdmaWrite, true),
    (Operation::ReadResponse, false),
];

/// A run of packets, which asks for everything that one can ask for.
fn run(kind: (Operation, bool), position: Position, length: u32) -> TxDesc {
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

/// The headers of its packets, with the lengths of their payload.
fn split(segment: &TxDesc) -> Vec<(HeaderBuf, usize)> {
    let mut packets = segment.split(MTU);
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
fn a_message_is_cut_into_the_packets_that_it_has() {
    for (kind, length) in KINDS.iter().flat_map(|&kind| {
        [0, 1, 1023, 1024, 1025, 2048, 5000]
            .iter()
            .map(move |&length| (kind, length))
    }) {
        let segment = run(kind, Position::Only, length);
        let split = split(&segment);
        assert_eq!(split.len(), segment.packets as usize);
        let mut sum = 0;
        for (index, packet) in split.iter().map(parse).enumerate() {
            let (starts, ends) = (index == 0, index + 1 == split.len());
            let opcode = packet.opcode();
            assert_eq!(
                (opcode.starts_message(), opcode.ends_message()),
                (starts, ends)
            );
            assert_eq!(packet.psn(), Psn::new(0xff_fffe).add(index as u32));
            assert!(MTU.admits(opcode.position(), packet.payload_len() as u32));
            assert_eq!((packet.ack_request(), packet.solicited()), (ends, ends));
            let writes = kind.0 == Operation::RdmaWrite;
            assert_eq!(packet.reth(), (writes && starts).then_some(RETH));
            assert_eq!(packet.imm(), (kind.1 && ends).then_some(IMM));
            let invalidates = kind.0 == Operation::SendInvalidate && ends;
            assert_eq!(packet.ieth().is_some(), invalidates);
            let answers = kind.0 == Operation::ReadResponse && (starts || ends);
            assert_eq!(
                packet.aeth().map(|aeth| aeth.msn.get()),
                answers.then_some(3)
            );
            sum += packet.payload_len();
        }
        assert_eq!(sum, length as usize);
    }
}

#[test]
fn the_length_on_the_wire_is_that_of_all_packets() {
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
            let desc = run(kind, position, length);
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
fn what_was_cut_is_joined() {
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
        let segment = run(kind, position, length);
        let split = split(&segment);
        let packets: Vec<Packet<'_>> = split.iter().map(parse).collect();
        let mut joined = packets[0];
        let mut count = 1;
        for next in &packets[1..] {
            let Some(longer) = joined.coalesce(next, MTU) else {
                break;
            };
            joined = longer;
            count += 1;
        }
        // A last packet that brings something is taken by itself.
        let ends = matches!(position, Position::Only | Position::Last);
        let brings = packets[4].payload_offset() != BTH_LEN;
        assert_eq!(
            count,
            if ends && brings { 4 } else { 5 },
            "{kind:?} {position:?}"
        );
        assert_eq!(joined.packets(), count);
        assert_eq!(joined.psn(), packets[0].psn());
        assert_eq!(joined.reth(), packets[0].reth());
        assert_eq!(joined.payload_offset(), packets[0].payload_offset());
        assert_eq!(joined.ack_request(), count == 5);
        assert_eq!(joined.solicited(), count == 5);
        let sum: usize = packets[..count as usize]
            .iter()
            .map(Packet::payload_len)
            .sum();
        assert_eq!(joined.payload_len(), sum);
        assert!(MTU.admits_run(joined.opcode().position(), count, sum as u32));
    }
}

/// Whether the first packet of a SEND of three and this one are joined.
fn joins(position: Position, change: impl FnOnce(Headers) -> Headers, len: usize) -> bool {
    let first = run((Operation::Send, false), Position::First, 1024);
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
fn only_what_goes_on_is_joined() {
    assert!(joins(Position::Middle, |next| next, 1024));
    assert!(joins(Position::Last, |next| next, 1));
    assert!(joins(Position::Last, |next| next.ack_request(true), 1024));
    assert!(!joins(Position::First, |next| next, 1024));
    assert!(!joins(Position::Only, |next| next, 1024));
    assert!(!joins(Position::Middle, |next| next, 1023), "too short");
    assert!(!joins(Position::Last, |next| next, 1025), "too long");
    assert!(!joins(Position::Last, |next| next, 0), "empty");
    assert!(!joins(Position::Middle, |next| next.psn(Psn::new(0)), 1024));
    let other = Opcode::of(Service::Rc, Operation::RdmaWrite, Position::Middle, false).unwrap();
    let write = |_| Headers::new(other, Pkey::DEFAULT, Qpn::new(5), Psn::new(0xff_ffff));
    assert!(!joins(Position::Middle, write, 1024), "another operation");
    let other = Opcode::of(Service::Rc, Operation::Send, Position::Middle, false).unwrap();
    let stray = |_| Headers::new(other, Pkey::DEFAULT, Qpn::new(6), Psn::new(0xff_ffff));
    assert!(!joins(Position::Middle, stray, 1024), "for another");
}

#[test]
fn nothing_is_joined_to_what_asks_or_is_short() {
    let kind = (Operation::Send, false);
    let next = run(kind, Position::Middle, 1024).headers;
    let next = (next.psn(Psn::new(0xff_ffff)).emit(1024), 1024);
    let first = |headers: Headers, len: usize| {
        let first = (headers.emit(len), len);
        parse(&first).coalesce(&parse(&next), MTU).is_some()
    };
    let headers = run(kind, Position::First, 1024).headers;
    let silent = headers.ack_request(false).solicited(false);
    assert!(first(silent, 1024));
    assert!(!first(silent, 1020));
    assert!(!first(silent.ack_request(true), 1024));
    assert!(!first(silent.solicited(true), 1024));
}
