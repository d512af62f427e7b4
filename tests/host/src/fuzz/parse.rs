// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: the parser with arbitrary bytes.

use crate::{
    crc::Fast,
    spec, //
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
    }, //
};

/// Parses `data` as a UDP payload, complete and with only the headers contiguous, and as an IP
/// packet.
///
/// # Panics
///
/// If a property is violated.
pub fn parse(data: &[u8]) {
    let complete = Packet::parse(data, data.len());
    let linear = Packet::parse(&data[..data.len().min(MAX_HEADERS_LEN)], data.len());
    assert_eq!(complete, linear, "the parser read beyond the headers");
    match complete {
        Ok(packet) => check_accepted(data, &packet),
        Err(reason) => check_dropped(data, reason),
    }
    check_icrc(data);
}

/// Checks an accepted packet.
fn check_accepted(data: &[u8], packet: &Packet<'_>) {
    let headers = packet.payload_offset();
    let pad = usize::from(packet.pad());
    assert!(headers <= MAX_HEADERS_LEN);
    assert_eq!(
        headers + packet.payload_len() + pad + 4,
        data.len(),
        "the lengths add up"
    );
    assert_eq!(packet.icrc_offset() + 4, data.len());
    assert_eq!(packet.opcode().to_byte(), data[0]);

    // The builder reproduces the packet, except flags, pad and reserved bits.
    let emitted = rebuild(packet).emit(packet.payload_len());
    assert_eq!(emitted.len(), headers);
    let again = emitted.as_slice();
    let len = headers + packet.payload_len() + (packet.payload_len().wrapping_neg() & 3) + 4;
    let again = Packet::parse(again, len).expect("an emitted packet");
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

/// Returns a builder with all values of a packet.
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
    if let Some(xrceth) = packet.xrceth() {
        headers = headers.xrceth(xrceth);
    }
    headers
}

/// Checks that the reason of a dropped packet is right.
fn check_dropped(data: &[u8], reason: DropReason) {
    let long_enough = data.len() >= 12;
    let needed = match data.first() {
        Some(0x81) => Some(12 + 16 + 4),
        Some(byte) if spec::is_reserved(*byte) => Some(12 + 4),
        Some(byte) => spec::row_of(*byte).map(|(_, headers)| 12 + headers + 4),
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
        other => panic!("unexpected reason {other:?}"),
    }
}

/// Checks the ICRC of an IP packet.
fn check_icrc(data: &[u8]) {
    let Ok(masked) = Masked::received(data) else {
        return;
    };
    let rest = &data[masked.as_bytes().len()..];
    if rest.len() < 5 {
        // Shorter than the BTH byte that is masked. The computation must not fail.
        let _ = Icrc::<Fast>::headers(&masked, rest).finish();
        return;
    }
    let expected = spec::icrc(data);
    assert_eq!(Icrc::<Fast>::headers(&masked, rest).finish(), expected);
    let (headers, payload) = rest.split_at(rest.len().min(12));
    let icrc = Icrc::<Fast>::headers(&masked, headers).payload(payload);
    assert_eq!(icrc.finish(), expected);
    assert_eq!(icrc.verify(expected), Ok(()));
}
