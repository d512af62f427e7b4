// SPDX-License-Identifier: GPL-2.0

//! Packets captured from rdma_rxe; `tests/vectors/README.md` describes the captures.

use roce::{
    id::Pkey,
    status::{
        DropReason,
        NakCode, //
    },
    wire::{
        aeth::Syndrome,
        icrc::{
            Icrc,
            ICRC_LEN, //
        },
        ip::{
            Masked,
            ROCE_UDP_PORT,
            UDP_LEN, //
        },
        opcode::Opcode,
        packet::Packet, //
    }, //
};
use roce_tests::{
    crc::Fast,
    fuzz::parse,
    pcap,
    spec, //
};
use std::collections::BTreeSet;

const CAPTURES: [&str; 2] = ["rxe-ipv4.pcap", "rxe-ipv6.pcap"];

/// Opcode of FLUSH, whose ICRC rdma_rxe computes differently.
const FLUSH: u8 = 0x1c;

/// Splits a UDP payload into the covered bytes and the ICRC.
fn split_icrc(payload: &[u8]) -> (&[u8], [u8; ICRC_LEN]) {
    let (covered, icrc) = payload.split_at(payload.len() - ICRC_LEN);
    (covered, icrc.try_into().unwrap())
}

/// Calls `check` with each packet of each capture: IP and UDP headers, and UDP payload.
fn for_each(mut check: impl FnMut(&[u8], &[u8])) {
    for capture in CAPTURES {
        let packets = pcap::packets(capture);
        assert!(packets.len() > 50, "{capture} is too short");
        for packet in packets {
            let headers = Masked::received(&packet)
                .expect("IP and UDP")
                .as_bytes()
                .len();
            let (headers, payload) = packet.split_at(headers);
            let port = &headers[headers.len() - UDP_LEN + 2..][..2];
            assert_eq!(port, ROCE_UDP_PORT.to_be_bytes());
            check(headers, payload);
        }
    }
}

#[test]
fn every_icrc_is_right_and_a_bit_error_is_detected() {
    for_each(|headers, payload| {
        if payload[0] == FLUSH {
            return;
        }
        let masked = Masked::received(headers).unwrap();
        let (covered, received) = split_icrc(payload);
        assert_eq!(spec::icrc(&[headers, covered].concat()), received);
        let icrc = Icrc::<Fast>::headers(&masked, covered);
        assert_eq!(icrc.verify(received), Ok(()));

        let mut damaged = covered.to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        let icrc = Icrc::<Fast>::headers(&masked, &damaged);
        assert_eq!(icrc.verify(received), Err(DropReason::BadIcrc));
    });
}

/// The opcode table of rdma_rxe has no payload offset for FLUSH. The payload then starts at the
/// BTH, and the packet is covered twice. Only rdma_rxe agrees with itself on that.
#[test]
fn rdma_rxe_covers_flush_twice() {
    let mut count = 0;
    for_each(|headers, payload| {
        if payload[0] != FLUSH {
            return;
        }
        count += 1;
        let masked = Masked::received(headers).unwrap();
        let (covered, received) = split_icrc(payload);
        let icrc = Icrc::<Fast>::headers(&masked, covered);
        assert_eq!(icrc.verify(received), Err(DropReason::BadIcrc));
        assert_eq!(icrc.payload(covered).verify(received), Ok(()));
    });
    assert_eq!(count, CAPTURES.len());
}

#[test]
fn rebuilt_headers_differ_only_in_migreq() {
    for_each(|_, payload| {
        parse::parse(payload);
        let packet = Packet::parse(payload, payload.len()).expect("a valid packet");
        assert_eq!(packet.pkey(), Pkey::DEFAULT);
        assert!(!packet.migrated(), "rdma_rxe sends 0");
        let mut expected = payload[..packet.payload_offset()].to_vec();
        expected[1] |= 0x40;
        let emitted = parse::rebuild(&packet).emit(packet.payload_len());
        assert_eq!(emitted.as_slice(), expected, "{:?}", packet.opcode());
        let pad = &payload[packet.payload_offset() + packet.payload_len()..packet.icrc_offset()];
        assert!(pad.iter().all(|byte| *byte == 0));
    });
}

#[test]
fn every_opcode_occurs() {
    for capture in CAPTURES {
        let mut missing: BTreeSet<u8> = (0..=u8::MAX)
            .filter(|byte| *byte != Opcode::CNP.to_byte() && Opcode::from_byte(*byte).is_some())
            .filter(|byte| !spec::is_reserved(*byte))
            // rdma_rxe has no XRC.
            .filter(|byte| *byte < 0xa0)
            .collect();
        for packet in pcap::packets(capture) {
            let headers = Masked::received(&packet).unwrap().as_bytes().len();
            missing.remove(&packet[headers]);
        }
        assert!(missing.is_empty(), "{capture} lacks {missing:x?}");
    }
}

#[test]
fn each_kind_of_syndrome_occurs() {
    let mut seen = Vec::new();
    for_each(|_, payload| {
        let packet = Packet::parse(payload, payload.len()).unwrap();
        seen.extend(packet.aeth().map(|aeth| aeth.syndrome));
    });
    for syndrome in [
        Syndrome::ACK_UNLIMITED,
        Syndrome::Rnr { timer: 20 },
        Syndrome::Nak(NakCode::PsnSequence),
        Syndrome::Nak(NakCode::InvalidRequest),
        Syndrome::Nak(NakCode::RemoteAccess),
    ] {
        assert!(seen.contains(&syndrome), "{syndrome:?}");
    }
    assert!(!seen.contains(&Syndrome::Reserved));
}

#[test]
fn psns_wrap() {
    for capture in CAPTURES {
        let packets = pcap::packets(capture);
        let sent: Vec<u32> = packets
            .iter()
            .filter_map(|packet| {
                let headers = Masked::received(packet).unwrap().as_bytes().len();
                let payload = &packet[headers..];
                let packet = Packet::parse(payload, payload.len()).unwrap();
                packet.opcode().is_request().then(|| packet.psn().get())
            })
            .take(5)
            .collect();
        // One packet of 3 bytes, then three of 600 bytes, at 256 bytes each, then the next three.
        assert_eq!(sent, [0xff_fffe, 0xff_ffff, 0, 1, 2], "{capture}");
    }
}
