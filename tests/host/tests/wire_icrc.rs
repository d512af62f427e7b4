// SPDX-License-Identifier: GPL-2.0

//! The ICRC, compared with a second implementation, and its independence of fragmentation and of
//! variant fields.

use roce::{
    status::DropReason,
    wire::{
        icrc::{
            Crc32,
            Icrc, //
        },
        ip::{
            Ipv4Pseudo,
            Ipv6Pseudo,
            Masked,
            UdpPseudo, //
        },
        packet::MAX_HEADERS_LEN, //
    }, //
};
use roce_tests::{
    crc::{
        Bitwise,
        Fast, //
    },
    hex,
    random::Random,
    spec,
    vectors, //
};
use std::cell::Cell;

/// Returns a packet from its IP header to its pad, with `len` bytes after the BTH.
fn packet(ip: &str, len: usize) -> Vec<u8> {
    let mut random = Random::new(len as u64);
    let mut packet = hex::bytes(ip);
    packet.extend_from_slice(&hex::bytes("04 40 ffff 00000011 80000007"));
    packet.extend((0..len).map(|_| random.byte()));
    packet
}

fn ip_len(packet: &[u8]) -> usize {
    Masked::received(packet)
        .expect("a valid header")
        .as_bytes()
        .len()
}

/// Computes the ICRC of a contiguous packet.
fn icrc(packet: &[u8]) -> [u8; 4] {
    let masked = Masked::received(packet).expect("a valid header");
    Icrc::<Fast>::headers(&masked, &packet[masked.as_bytes().len()..]).finish()
}

#[test]
fn agrees_with_the_second_implementation() {
    for ip in [vectors::IPV4_UDP, vectors::IPV6_UDP] {
        for len in (0..80).chain([1024, 4096]) {
            let packet = packet(ip, len);
            assert_eq!(icrc(&packet), spec::icrc(&packet), "{len} bytes");
        }
    }
}

#[test]
fn does_not_depend_on_fragmentation() {
    for ip in [vectors::IPV4_UDP, vectors::IPV6_UDP] {
        let packet = packet(ip, 100);
        let masked = Masked::received(&packet).unwrap();
        let rest = &packet[ip_len(&packet)..];
        let expected = spec::icrc(&packet);
        for first in 12..rest.len() {
            for second in first..rest.len() {
                let icrc = Icrc::<Fast>::headers(&masked, &rest[..first])
                    .payload(&rest[first..second])
                    .payload(&rest[second..]);
                assert_eq!(
                    icrc.verify(expected),
                    Ok(()),
                    "split at {first} and {second}"
                );
            }
        }
    }
}

#[test]
fn pad_is_covered_as_zeroes() {
    for pad in 0..4 {
        let mut padded = packet(vectors::IPV4_UDP, 40 - pad);
        let masked = Masked::received(&padded).unwrap();
        let icrc = Icrc::<Fast>::headers(&masked, &padded[28..]).pad(pad);
        padded.resize(padded.len() + pad, 0);
        assert_eq!(icrc.finish(), spec::icrc(&padded));
    }
}

#[test]
fn only_bytes_that_routers_change_are_not_covered() {
    // Not covered: type of service, time to live, checksums; traffic class, flow label, hop limit;
    // the BTH byte with FECN and BECN. The last column lists bytes that the parser requires to have
    // a fixed value.
    let v4: (_, &[usize], &[usize]) = (
        vectors::IPV4_UDP,
        &[1, 8, 10, 11, 26, 27, 32],
        &[0, 6, 7, 9],
    );
    let v6: (_, &[usize], &[usize]) = (
        vectors::IPV6_UDP,
        &[1, 2, 3, 7, 46, 47, 52],
        &[0, 6], //
    );
    for (ip, uncovered, fixed) in [v4, v6] {
        let packet = packet(ip, 16);
        let expected = icrc(&packet);
        for at in (0..packet.len()).filter(|at| !fixed.contains(at)) {
            for bit in 0..8 {
                let mut changed = packet.clone();
                changed[at] ^= 1 << bit;
                let same = icrc(&changed) == expected;
                assert_eq!(same, uncovered.contains(&at), "byte {at}, bit {bit}");
            }
        }
    }
    let mut changed = packet(vectors::IPV6_UDP, 16);
    let expected = icrc(&changed);
    changed[0] ^= 0x0f; // the traffic class starts in the byte of the version
    assert_eq!(icrc(&changed), expected);
    let mut changed = packet(vectors::IPV4_UDP, 16);
    let expected = icrc(&changed);
    changed[6] ^= 0x40; // "don't fragment"
    assert_ne!(icrc(&changed), expected);
}

#[test]
fn built_and_received_headers_are_equal() {
    let udp = UdpPseudo {
        sport: 0xc011,
        dport: 4791,
        len: 28,
    };
    let v4 = Ipv4Pseudo {
        total_len: 48,
        id: 0x1234,
        frag: 0x4000,
        saddr: [10, 0, 0, 1],
        daddr: [10, 0, 0, 2],
    };
    let received = Masked::received(&hex::bytes(vectors::IPV4_UDP));
    assert_eq!(Ok(Masked::ipv4(&v4, &udp)), received);

    let address = |last| {
        let mut address = [0; 16];
        (address[0], address[15]) = (0xfd, last);
        address
    };
    let v6 = Ipv6Pseudo {
        payload_len: 28,
        saddr: address(1),
        daddr: address(2),
    };
    let received = Masked::received(&hex::bytes(vectors::IPV6_UDP));
    assert_eq!(Ok(Masked::ipv6(&v6, &udp)), received);
}

#[test]
fn set_packet_changes_identification_and_lengths() {
    let mut masked = Masked::received(&hex::bytes(vectors::IPV4_UDP)).unwrap();
    let template = masked;
    masked.set_packet(0xffff, 4116);
    let expected = "45 ff 1030 ffff 4000 ff 11 ffff 0a000001 0a000002  c011 12b7 101c ffff";
    assert_eq!(masked.as_bytes(), hex::bytes(expected));
    masked.set_packet(0x1234, 20);
    assert_eq!(masked, template);

    let mut masked = Masked::received(&hex::bytes(vectors::IPV6_UDP)).unwrap();
    let template = masked;
    masked.set_packet(7, 4116);
    let expected = "6f ffffff 101c 11 ff fd000000000000000000000000000001
        fd000000000000000000000000000002  c011 12b7 101c ffff";
    assert_eq!(masked.as_bytes(), hex::bytes(expected));
    masked.set_packet(8, 20);
    assert_eq!(masked, template);
}

#[test]
fn select_packet_derives_the_headers_of_a_packet_of_a_super_packet() {
    // The length is that of all packets. The identifications count up from the first, and wrap.
    let first = "45 00 f000 ffff 4000 40 11 0000 0a000001 0a000002  c011 12b7 efec 0000";
    let received = Masked::received(&hex::bytes(first)).unwrap();
    for (index, expected) in [
        (
            0,
            "45 ff 1030 ffff 4000 ff 11 ffff 0a000001 0a000002  c011 12b7 101c ffff",
        ),
        (
            1,
            "45 ff 1030 0000 4000 ff 11 ffff 0a000001 0a000002  c011 12b7 101c ffff",
        ),
        (
            63,
            "45 ff 1030 003e 4000 ff 11 ffff 0a000001 0a000002  c011 12b7 101c ffff",
        ),
    ] {
        let mut masked = received;
        masked.select_packet(index, 4116);
        assert_eq!(masked.as_bytes(), hex::bytes(expected), "packet {index}");
    }
    let mut masked = Masked::received(&hex::bytes(vectors::IPV6_UDP)).unwrap();
    let mut expected = masked;
    masked.select_packet(5, 4116);
    expected.set_packet(0, 4116);
    assert_eq!(masked, expected, "IPv6 has no identification");
}

#[test]
fn headers_without_a_defined_icrc_are_dropped() {
    let v4 = hex::bytes(vectors::IPV4_UDP);
    let v6 = hex::bytes(vectors::IPV6_UDP);
    let with = |bytes: &[u8], at: usize, value: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = value;
        Masked::received(&bytes)
    };
    let bad = Err(DropReason::BadIpHeader);
    assert_eq!(with(&v4, 0, 0x46), bad, "IP options");
    assert_eq!(with(&v4, 0, 0x44), bad, "header too short");
    assert_eq!(with(&v4, 0, 0x55), bad, "unknown version");
    assert_eq!(with(&v4, 6, 0x20), bad, "more fragments");
    assert_eq!(with(&v4, 7, 0x01), bad, "a later fragment");
    assert_eq!(with(&v4, 9, 6), bad, "TCP");
    assert_eq!(with(&v6, 6, 44), bad, "an extension header");
    for headers in [v4, v6] {
        for len in 0..headers.len() {
            let split = Masked::received(&headers[..len]);
            assert_eq!(split, Err(DropReason::TooShort));
        }
    }
}

#[test]
fn payload_read_by_the_caller_is_covered() {
    let packet = packet(vectors::IPV4_UDP, 100);
    let masked = Masked::received(&packet).unwrap();
    let (headers, payload) = packet[28..].split_at(12);
    let icrc = Icrc::<Fast>::headers(&masked, headers);
    let read = icrc.payload_with(|crc| Bitwise::update(crc, payload));
    assert_eq!(read.finish(), spec::icrc(&packet));
}

#[test]
fn a_wrong_icrc_is_detected() {
    let packet = packet(vectors::IPV4_UDP, 33);
    let masked = Masked::received(&packet).unwrap();
    let icrc = Icrc::<Bitwise>::headers(&masked, &packet[28..]);
    let mut received = icrc.finish();
    assert_eq!(icrc.verify(received), Ok(()));
    received[3] ^= 0x80;
    assert_eq!(icrc.verify(received), Err(DropReason::BadIcrc));
}

/// A CRC that counts its calls.
struct CountingCrc;

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

impl Crc32 for CountingCrc {
    fn update(crc: u32, bytes: &[u8]) -> u32 {
        assert!(!bytes.is_empty(), "a call without bytes");
        CALLS.set(CALLS.get() + 1);
        Fast::update(crc, bytes)
    }
}

#[test]
fn all_headers_take_one_call_and_each_fragment_one_more() {
    let packet = packet(vectors::IPV6_UDP, 100);
    let masked = Masked::received(&packet).unwrap();
    let (headers, payload) = packet[48..].split_at(MAX_HEADERS_LEN);
    let icrc = Icrc::<CountingCrc>::headers(&masked, headers);
    assert_eq!(CALLS.get(), 1);
    let icrc = icrc.payload(payload).payload(&[]).pad(0);
    assert_eq!(CALLS.get(), 2);
    assert_eq!(icrc.finish(), spec::icrc(&packet));
}
