// SPDX-License-Identifier: GPL-2.0

//! A second implementation of the wire format, from the tables of the specification.
//!
//! It uses no table or mask of the protocol crate, so that the comparison is independent.

use crate::crc::Bitwise;
use roce::wire::icrc::Crc32 as _;

/// Returns the ICRC of a packet from its IP header to its pad, without ICRC.
///
/// # Panics
///
/// If the packet is shorter than IP, UDP and BTH headers.
#[must_use]
pub fn icrc(packet: &[u8]) -> [u8; 4] {
    let mut covered = packet.to_vec();
    let ip_len = match packet[0] >> 4 {
        4 => {
            covered[1] = 0xff; // type of service
            covered[8] = 0xff; // time to live
            covered[10..12].fill(0xff); // header checksum
            20
        }
        6 => {
            covered[0] |= 0x0f; // upper half of the traffic class
            covered[1..4].fill(0xff); // the rest of it, flow label
            covered[7] = 0xff; // hop limit
            40
        }
        version => panic!("IP version {version}"),
    };
    covered[ip_len + 6..ip_len + 8].fill(0xff); // UDP checksum
    covered[ip_len + 8 + 4] = 0xff; // FECN, BECN, reserved

    // Eight bytes of ones replace the local route header.
    let after_lrh = Bitwise::update(!0, &[0xff; 8]);
    (!Bitwise::update(after_lrh, &covered)).to_le_bytes()
}

/// One row of the specification's opcode table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Low five bits of the opcode.
    pub low: u8,
    /// Name: operation, position and special property.
    pub name: &'static str,
    /// Services: letters of "RUD", for RC, UC and UD. XRC has those of RC.
    pub services: &'static str,
    /// Bytes of extension headers in RC and UC. UD has 8 more, and a request of XRC 4.
    pub headers: usize,
    /// Whether payload is allowed.
    pub payload: bool,
}

/// The opcode table of the specification for RC, UC, UD and XRC.
pub const OPCODES: &[Row] = &[
    row(0x00, "send first", "RU", 0, true),
    row(0x01, "send middle", "RU", 0, true),
    row(0x02, "send last", "RU", 0, true),
    row(0x03, "send last imm", "RU", 4, true),
    row(0x04, "send only", "RUD", 0, true),
    row(0x05, "send only imm", "RUD", 4, true),
    row(0x06, "write first", "RU", 16, true),
    row(0x07, "write middle", "RU", 0, true),
    row(0x08, "write last", "RU", 0, true),
    row(0x09, "write last imm", "RU", 4, true),
    row(0x0a, "write only", "RU", 16, true),
    row(0x0b, "write only imm", "RU", 20, true),
    row(0x0c, "read request only", "R", 16, false),
    row(0x0d, "read response first", "R", 4, true),
    row(0x0e, "read response middle", "R", 0, true),
    row(0x0f, "read response last", "R", 4, true),
    row(0x10, "read response only", "R", 4, true),
    row(0x11, "acknowledge only", "R", 4, false),
    row(0x12, "atomic acknowledge only", "R", 12, false),
    row(0x13, "compare swap only", "R", 28, false),
    row(0x14, "fetch add only", "R", 28, false),
    row(0x16, "send invalidate last", "R", 4, true),
    row(0x17, "send invalidate only", "R", 4, true),
    row(0x1c, "flush only", "R", 20, false),
    row(0x1d, "atomic write only", "R", 16, true),
];

const fn row(
    low: u8,
    name: &'static str,
    services: &'static str,
    headers: usize,
    payload: bool,
) -> Row {
    Row {
        low,
        name,
        services,
        headers,
        payload,
    }
}

/// Returns the row of an opcode byte and its bytes of extension headers; `None` if the byte is not
/// an opcode of RC, UC, UD or XRC.
#[must_use]
pub fn row_of(byte: u8) -> Option<(&'static Row, usize)> {
    let (letter, additional) = match byte >> 5 {
        0 => ('R', 0),
        1 => ('U', 0),
        3 => ('D', 8),
        // All but READ responses and acknowledgements.
        5 if (0x0d..=0x12).contains(&(byte & 0x1f)) => ('R', 0),
        5 => ('R', 4),
        _ => return None,
    };
    OPCODES
        .iter()
        .find(|row| row.low == byte & 0x1f && row.services.contains(letter))
        .map(|row| (row, row.headers + additional))
}

/// Returns whether the byte is a reserved opcode of RC or XRC. Their responders NAK it.
#[must_use]
pub fn is_reserved(byte: u8) -> bool {
    matches!(byte >> 5, 0 | 5) && row_of(byte).is_none()
}
