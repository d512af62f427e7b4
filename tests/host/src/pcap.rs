// SPDX-License-Identifier: GPL-2.0

//! Captures: the classic pcap format, little endian, of an Ethernet.

use std::path::Path;

/// Length of the header of a file.
const FILE_HEADER: usize = 24;

/// Length of the header of a packet.
const PACKET_HEADER: usize = 16;

/// Length of an Ethernet header.
const ETHERNET: usize = 14;

/// Reads a capture of `tests/vectors` and returns its packets, each from its IP header on.
///
/// # Panics
///
/// If the file is not there, is of another kind, or holds a packet that is cut or not IP.
#[must_use]
pub fn packets(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors");
    let file = std::fs::read(folder.join(name)).expect("a capture");
    assert_eq!(word(&file, 0), 0xa1b2_c3d4, "not a little endian pcap");
    assert_eq!(word(&file, 20), 1, "not of an Ethernet");
    let mut packets = Vec::new();
    let mut rest = &file[FILE_HEADER..];
    while !rest.is_empty() {
        let (captured, original) = (word(rest, 8), word(rest, 12));
        assert_eq!(captured, original, "a packet that is cut");
        let (frame, later) = rest[PACKET_HEADER..].split_at(captured as usize);
        packets.push(ip_packet(frame).to_vec());
        rest = later;
    }
    packets
}

/// Returns the IP packet in a frame, without what pads the frame.
fn ip_packet(frame: &[u8]) -> &[u8] {
    let (ethernet, ip) = frame.split_at(ETHERNET);
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
