// SPDX-License-Identifier: GPL-2.0

//! The opcode table, all 256 entries, and the parser with every opcode and length.

use roce::{
    status::DropReason,
    wire::{
        header::Header,
        opcode::{
            Opcode,
            Operation,
            Position,
            Service, //
        },
        packet::{
            Packet,
            MAX_HEADERS_LEN, //
        }, //
    }, //
};
use roce_tests::spec;

const OPERATIONS: [(Operation, &str); 13] = [
    (Operation::Send, "send"),
    (Operation::SendInvalidate, "send invalidate"),
    (Operation::RdmaWrite, "write"),
    (Operation::ReadRequest, "read request"),
    (Operation::ReadResponse, "read response"),
    (Operation::Acknowledge, "acknowledge"),
    (Operation::AtomicAcknowledge, "atomic acknowledge"),
    (Operation::CompareSwap, "compare swap"),
    (Operation::FetchAdd, "fetch add"),
    (Operation::Flush, "flush"),
    (Operation::AtomicWrite, "atomic write"),
    (Operation::Cnp, "cnp"),
    (Operation::Reserved, "reserved"),
];

const POSITIONS: [(Position, &str); 4] = [
    (Position::First, "first"),
    (Position::Middle, "middle"),
    (Position::Last, "last"),
    (Position::Only, "only"),
];

const SERVICES: [Service; 5] = [
    Service::Rc,
    Service::Uc,
    Service::Ud,
    Service::Xrc,
    Service::Cnp,
];

/// Returns the name of an opcode in the table of the specification.
fn name(opcode: Opcode) -> String {
    let operation = OPERATIONS.iter().find(|o| o.0 == opcode.operation());
    let position = POSITIONS.iter().find(|p| p.0 == opcode.position());
    let imm = if opcode.has_imm() { " imm" } else { "" };
    format!("{} {}{imm}", operation.unwrap().1, position.unwrap().1)
}

#[test]
fn the_table_matches_the_specification() {
    for byte in 0..=u8::MAX {
        let Some(opcode) = Opcode::from_byte(byte) else {
            assert!(spec::row_of(byte).is_none() && byte != 0x81, "{byte:#x}");
            continue;
        };
        assert_eq!(opcode.to_byte(), byte);
        if opcode.operation() == Operation::Reserved {
            assert!(spec::is_reserved(byte), "{byte:#x}");
            continue;
        }
        if opcode == Opcode::CNP {
            assert_eq!(byte, 0x81);
            assert_eq!(opcode.headers().len(), 16);
            continue;
        }
        let (row, headers) = spec::row_of(byte).expect("a row of the specification");
        assert_eq!(name(opcode), row.name);
        assert_eq!(opcode.headers().len(), headers, "{}", row.name);
        assert_eq!(opcode.has_payload(), row.payload, "{}", row.name);
        let service = match byte >> 5 {
            0 => Service::Rc,
            1 => Service::Uc,
            5 => Service::Xrc,
            _ => Service::Ud,
        };
        assert_eq!(opcode.service(), service);
    }
}

#[test]
fn the_properties_of_an_opcode_identify_it() {
    for opcode in (0..=u8::MAX).filter_map(Opcode::from_byte) {
        let again = Opcode::of(
            opcode.service(),
            opcode.operation(),
            opcode.position(),
            opcode.has_imm(),
        );
        let can_be_sent = opcode.operation() != Operation::Reserved;
        assert_eq!(again, can_be_sent.then_some(opcode));
    }
}

#[test]
fn reserved_opcodes_of_rc_and_xrc_are_requests_without_headers() {
    let is_reserved = |opcode: &Opcode| opcode.operation() == Operation::Reserved;
    let reserved: Vec<_> = (0..=u8::MAX)
        .filter_map(Opcode::from_byte)
        .filter(is_reserved)
        .collect();
    let bytes: Vec<_> = reserved.iter().map(|opcode| opcode.to_byte()).collect();
    const LOW: [u8; 7] = [0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f];
    assert_eq!(bytes, [LOW, LOW.map(|low| 0xa0 | low)].concat());
    for opcode in reserved {
        assert!(matches!(opcode.service(), Service::Rc | Service::Xrc));
        assert!(opcode.is_request() && opcode.starts_message() && opcode.ends_message());
        assert_eq!(opcode.headers().len(), 0);
    }
}

#[test]
fn only_the_last_packet_shows_immediate_data_and_invalidation() {
    let of = |operation, position, imm| Opcode::of(Service::Rc, operation, position, imm);
    for position in [Position::First, Position::Middle] {
        let plain = of(Operation::Send, position, false);
        assert!(plain.is_some());
        assert_eq!(of(Operation::Send, position, true), plain);
        assert_eq!(of(Operation::SendInvalidate, position, false), plain);
        let plain = of(Operation::RdmaWrite, position, false);
        assert!(plain.is_some());
        assert_eq!(of(Operation::RdmaWrite, position, true), plain);
    }
}

#[test]
fn combinations_that_do_not_exist_have_no_opcode() {
    let mut found = 0;
    for service in SERVICES {
        for (operation, _) in OPERATIONS {
            for (position, _) in POSITIONS {
                for imm in [false, true] {
                    let Some(opcode) = Opcode::of(service, operation, position, imm) else {
                        continue;
                    };
                    found += 1;
                    assert_eq!(opcode.service(), service);
                    assert_eq!(opcode.position(), position);
                    let shown = opcode.ends_message();
                    assert_eq!(opcode.has_imm(), imm && shown, "{opcode:?}");
                    if shown {
                        assert_eq!(opcode.operation(), operation);
                    }
                }
            }
        }
    }
    // 65 opcodes: RC and XRC 25 each, UC 12, UD 2 and CNP. First and middle packets are also found with
    // immediate data (RC, XRC and UC, two operations of two positions) and as part of a SEND with
    // invalidate (RC, XRC and UC, two positions).
    assert_eq!(found, 65 + 12 + 6);
    assert_eq!(
        Opcode::of(Service::Cnp, Operation::Send, Position::Middle, false),
        None
    );
    assert_eq!(
        Opcode::of(Service::Uc, Operation::Cnp, Position::Only, false),
        None
    );
}

#[test]
fn every_packet_is_a_request_or_a_response() {
    for opcode in (0..=u8::MAX).filter_map(Opcode::from_byte) {
        let (request, response) = (opcode.is_request(), opcode.is_response());
        assert_eq!(request ^ response, opcode != Opcode::CNP, "{opcode:?}");
        let low = opcode.to_byte() & 0x1f;
        assert_eq!(response, (0x0d..=0x12).contains(&low));
    }
}

#[test]
fn headers_are_consecutive() {
    const ORDER: [(Header, usize); 10] = [
        (Header::Xrceth, 4),
        (Header::Deth, 8),
        (Header::Feth, 4),
        (Header::Reth, 16),
        (Header::Aeth, 4),
        (Header::AtomicEth, 28),
        (Header::AtomicAckEth, 8),
        (Header::ImmDt, 4),
        (Header::Ieth, 4),
        (Header::CnpReserved, 16),
    ];
    for opcode in (0..=u8::MAX).filter_map(Opcode::from_byte) {
        let mut at = 0;
        for (header, len) in ORDER {
            let here = opcode.headers().contains(header);
            assert_eq!(opcode.headers().offset(header), here.then_some(at));
            at += if here { len } else { 0 };
        }
        assert_eq!(opcode.headers().len(), at, "{opcode:?}");
        assert!(12 + at <= MAX_HEADERS_LEN);
    }
}

#[test]
fn every_opcode_and_length_is_parsed_or_dropped_for_the_right_reason() {
    let mut bytes = [0xa5; 64];
    for byte in 0..=u8::MAX {
        bytes[0] = byte;
        for pad in 0..4 {
            bytes[1] = 0x40 | (pad << 4);
            for len in 0..=bytes.len() {
                let expected = expected(byte, usize::from(pad), len);
                let complete = Packet::parse(&bytes[..len], len).map(|p| p.payload_len());
                assert_eq!(complete, expected, "{byte:#x}, pad {pad}, length {len}");
                let linear = &bytes[..len.min(MAX_HEADERS_LEN)];
                let linear = Packet::parse(linear, len).map(|p| p.payload_len());
                assert_eq!(linear, expected, "payload in fragments");
                let beyond = Packet::parse(&bytes, len).map(|p| p.payload_len());
                assert_eq!(beyond, expected, "with bytes after the packet");
            }
        }
    }
}

/// Returns the payload length of a packet, or the expected drop reason.
fn expected(byte: u8, pad: usize, len: usize) -> Result<usize, DropReason> {
    if len < 12 {
        return Err(DropReason::TooShort);
    }
    let headers = match spec::row_of(byte) {
        Some((_, headers)) => headers,
        None if byte == 0x81 => 16,
        None if spec::is_reserved(byte) => 0,
        None => return Err(DropReason::UnknownOpcode),
    };
    match len.checked_sub(12 + headers + 4) {
        None => Err(DropReason::TooShort),
        Some(body) => body.checked_sub(pad).ok_or(DropReason::BadPad),
    }
}
