// SPDX-License-Identifier: GPL-2.0

//! Reader of captures: classic pcap format, little endian, Ethernet.

use std::path::Path;

/// Length of the file header.
const FILE_HEADER_LEN: usize = 24;

/// Length of a packet header.
const PACKET_HEADER_LEN: usize = 16;

/// Length of an Ethernet header.
const ETHERNET_LEN: usize = 14;

/// Reads a capture in `tests/vectors` and returns its packets, starting at the IP header.
///
/// # Panics
///
/// If the file does not exist, has another format, or contains a truncated or non-IP packet.
#[must_use]
pub fn packets(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors");
    let file = std::fs::read(folder.join(name)).expect("a capture");
    assert_eq!(word(&file, 0), 0xa1b2_c3d4, "not a little endian pcap");
    assert_eq!(word(&file, 20), 1, "not an Ethernet capture");
    let mut packets = Vec::new();
    let mut rest = &file[FILE_HEADER_LEN..];
    while !rest.is_empty() {
        let (captured, original) = (word(rest, 8), word(rest, 12));
        assert_eq!(captured, original, "a truncated packet");
        let (frame, later) = rest[PACKET_HEADER_LEN..].split_at(captured as usize);
        packets.push(ip_packet(frame).to_vec());
        rest = later;
    }
    packets
}

/// Returns the IP packet in a frame, without Ethernet padding.
fn ip_packet(frame: &[u8]) -> &[u8] {
    let (ethernet, ip) = frame.split_at(ETHERNET_LEN);
    let field = |at: usize| usize::from(u16::from_be_bytes([ip[at], ip[at + 1]]));
    let len = match ethernet[12..] {
        [0x08, 0x00] => field(2),
        [0x86, 0xdd] => 40 + field(4),
        _ => panic!("neither IPv4 nor IPv6"),
    };
    &ip[..len]
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
