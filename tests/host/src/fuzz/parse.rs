// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: what the parser promises about any bytes at all.

use crate::{
    crc::Fast,
    oracle, //
};
use roce::{
    status::DropReason,
    wire::{
        emit::Headers,
        icrc::Icrc,
        ip::Masked,
        packet::{
            Packet,
            MAX_HEADERS_LEN, //
        }, //
    },
};

/// Tries `data` as the UDP payload of a packet, whole and with only its headers in one piece, and
/// as an IP packet.
///
/// # Panics
///
/// If a promise is broken.
pub fn parse(data: &[u8]) {
    let whole = Packet::parse(data, data.len());
    let linear = Packet::parse(&data[..data.len().min(MAX_HEADERS_LEN)], data.len());
    assert_eq!(whole, linear, "the parser looked beyond the headers");
    match whole {
        Ok(packet) => accepted(data, &packet),
        Err(reason) => refused(data, reason),
    }
    ip(data);
}

/// What holds for a packet that was taken.
fn accepted(data: &[u8], packet: &Packet<'_>) {
    let headers = packet.payload_offset();
    let pad = usize::from(packet.pad());
    assert!(headers <= MAX_HEADERS_LEN);
    assert_eq!(
        headers + packet.payload_len() + pad + 4,
        data.len(),
        "the parts are the whole"
    );
    assert_eq!(packet.icrc_offset() + 4, data.len());
    assert_eq!(packet.opcode().to_byte(), data[0]);

    // Emitting what was read gives what was there, but for flags, pad and reserved bits.
    let emitted = rebuild(packet).emit(packet.payload_len());
    assert_eq!(emitted.len(), headers);
    let again = emitted.as_slice();
    let len = headers + packet.payload_len() + (packet.payload_len().wrapping_neg() & 3) + 4;
    let again = Packet::parse(again, len).expect("what is emitted can be parsed");
    assert_eq!(again.opcode(), packet.opcode());
    assert_eq!(again.psn(), packet.psn());
    assert_eq!(again.dest_qpn(), packet.dest_qpn());
    assert_eq!(again.pkey(), packet.pkey());
    assert_eq!(again.ack_request(), packet.ack_request());
    assert_eq!(again.solicited(), packet.solicited());
    assert_eq!(again.payload_len(), packet.payload_len());
    assert_eq!(again.reth(), packet.reth());
    assert_eq!(again.aeth(), packet.aeth());
    assert_eq!(again.deth(), packet.deth());
    assert_eq!(again.imm(), packet.imm());
    assert_eq!(again.ieth(), packet.ieth());
    assert_eq!(again.atomic(), packet.atomic());
    assert_eq!(again.atomic_ack(), packet.atomic_ack());
    assert_eq!(again.feth(), packet.feth());
}

/// Gives a builder everything that a packet says.
#[must_use]
pub fn rebuild(packet: &Packet<'_>) -> Headers {
    let mut headers = Headers::new(
        packet.opcode(),
        packet.pkey(),
        packet.dest_qpn(),
        packet.psn(),
    )
    .ack_request(packet.ack_request())
    .solicited(packet.solicited());
    if let Some(reth) = packet.reth() {
        headers = headers.reth(reth);
    }
    if let Some(aeth) = packet.aeth() {
        headers = headers.aeth(aeth);
    }
    if let Some(deth) = packet.deth() {
        headers = headers.deth(deth);
    }
    if let Some(imm) = packet.imm() {
        headers = headers.imm(imm);
    }
    if let Some(ieth) = packet.ieth() {
        headers = headers.ieth(ieth);
    }
    if let Some(atomic) = packet.atomic() {
        headers = headers.atomic(atomic);
    }
    if let Some(original) = packet.atomic_ack() {
        headers = headers.original(original);
    }
    if let Some(feth) = packet.feth() {
        headers = headers.feth(feth);
    }
    headers
}

/// What holds for a packet that was not taken: there is a reason, and it is the right one.
fn refused(data: &[u8], reason: DropReason) {
    let long_enough = data.len() >= 12;
    let needed = match data.first() {
        Some(0x81) => Some(12 + 16 + 4),
        Some(byte) => oracle::row_of(*byte).map(|(_, headers)| 12 + headers + 4),
        None => None,
    };
    match reason {
        DropReason::TooShort => assert!(!long_enough || needed.is_some_and(|n| data.len() < n)),
        DropReason::UnknownOpcode => assert!(long_enough && needed.is_none()),
        DropReason::BadVersion => assert!(data[1] & 0x0f != 0),
        DropReason::BadPad => {
            let pad = usize::from((data[1] >> 4) & 3);
            assert!(needed.is_some_and(|n| data.len() >= n && data.len() < n + pad));
        }
        other => panic!("the parser has no business with {other:?}"),
    }
}

/// What holds for the ICRC of any IP packet.
fn ip(data: &[u8]) {
    let Ok(masked) = Masked::received(data) else {
        return;
    };
    let rest = &data[masked.as_bytes().len()..];
    if rest.len() < 5 {
        // Not even the byte that must be masked; still nothing may go wrong.
        let _ = Icrc::<Fast>::headers(&masked, rest).finish();
        return;
    }
    let expected = oracle::icrc(data);
    assert_eq!(Icrc::<Fast>::headers(&masked, rest).finish(), expected);
    let (headers, payload) = rest.split_at(rest.len().min(12));
    let icrc = Icrc::<Fast>::headers(&masked, headers).payload(payload);
    assert_eq!(icrc.finish(), expected);
    assert_eq!(icrc.verify(expected), Ok(()));
}
