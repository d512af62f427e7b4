// SPDX-License-Identifier: GPL-2.0

//! Each packet format, parsed and built, compared with handwritten vectors.

use roce::{
    id::{
        Msn,
        Pkey,
        Qkey,
        Qpn,
        Rkey, //
    },
    message::connection::Connection,
    psn::Psn,
    status::{
        DropReason,
        NakCode, //
    },
    wire::{
        aeth::{
            Aeth,
            Syndrome, //
        },
        emit::Headers,
        ext::{
            AtomicAckEth,
            AtomicEth,
            Deth,
            Feth,
            Ieth,
            ImmDt,
            Reth, //
        },
        opcode::{
            Opcode,
            Operation,
            Position,
            Service, //
        },
        packet::Packet, //
    }, //
};
use roce_tests::{
    hex,
    vectors, //
};

/// Returns the headers of an RC packet to QP 0x11 in the default partition.
fn rc(operation: Operation, position: Position, imm: bool, psn: u32) -> Headers {
    let opcode = Opcode::of(Service::Rc, operation, position, imm).expect("an RC opcode");
    Headers::new(opcode, Pkey::DEFAULT, Qpn::new(0x11), Psn::new(psn))
}

/// Returns the headers of an ACK or NAK to QP 0x12.
fn ack(psn: u32, syndrome: Syndrome, msn: u32) -> Headers {
    let msn = Msn::new(msn);
    let aeth = Aeth { syndrome, msn };
    Connection::new(Service::Rc, Qpn::new(0x12)).ack(Psn::new(psn), aeth)
}

/// Checks that `headers`, payload and pad give the vector.
fn emits(vector: &str, headers: Headers, payload: &[u8]) {
    let expected = hex::bytes(vector);
    let mut packet = headers.emit(payload.len()).as_slice().to_vec();
    packet.extend_from_slice(payload);
    packet.resize(packet.len().next_multiple_of(4), 0);
    packet.extend_from_slice(&[0xee; 4]);
    assert_eq!(packet, expected);
}

/// Parses a vector, and checks the location of its payload.
fn parses(vector: &'static str, payload: &[u8], check: impl FnOnce(&Packet<'_>)) {
    let bytes = hex::bytes(vector);
    let packet = Packet::parse(&bytes, bytes.len()).expect("a valid packet");
    let start = packet.payload_offset();
    assert_eq!(&bytes[start..start + packet.payload_len()], payload);
    assert_eq!(bytes[packet.icrc_offset()..], [0xee; 4]);
    check(&packet);
}

#[test]
fn send_first() {
    emits(
        vectors::SEND_FIRST,
        rc(Operation::Send, Position::First, false, 0xff_fffe),
        &[1, 2, 3, 4],
    );
    parses(vectors::SEND_FIRST, &[1, 2, 3, 4], |packet| {
        assert_eq!(packet.opcode().operation(), Operation::Send);
        assert_eq!(packet.opcode().position(), Position::First);
        assert_eq!(packet.dest_qpn(), Qpn::new(0x11));
        assert_eq!(packet.psn(), Psn::new(0xff_fffe));
        assert_eq!(packet.pkey(), Pkey::DEFAULT);
        assert!(packet.migrated() && !packet.solicited() && !packet.ack_request());
        assert_eq!(packet.imm(), None);
    });
}

#[test]
fn send_last_with_immediate_solicited_and_padded() {
    let imm = ImmDt([0xca, 0xfe, 0xf0, 0x0d]);
    let opcode = Opcode::of(Service::Rc, Operation::Send, Position::Last, true).unwrap();
    let qpn = Qpn::new(0xab_cdef);
    emits(
        vectors::SEND_LAST_IMM,
        Headers::new(opcode, Pkey::DEFAULT, qpn, Psn::new(0))
            .solicited(true)
            .ack_request(true)
            .imm(imm),
        &[1, 2],
    );
    parses(vectors::SEND_LAST_IMM, &[1, 2], |packet| {
        assert_eq!(packet.imm(), Some(imm));
        assert_eq!(packet.pad(), 2);
        assert_eq!(packet.dest_qpn(), qpn);
        assert_eq!(packet.psn(), Psn::new(0));
        assert!(packet.solicited() && packet.ack_request());
    });
}

#[test]
fn send_only_with_invalidate() {
    let rkey = Rkey::new(0xa1b2);
    let pkey = Pkey::new(0x8001);
    let opcode = Opcode::of(
        Service::Rc,
        Operation::SendInvalidate,
        Position::Only,
        false,
    );
    emits(
        vectors::SEND_ONLY_INVALIDATE,
        Headers::new(opcode.unwrap(), pkey, Qpn::new(0x11), Psn::new(0x12_3456))
            .ack_request(true)
            .ieth(Ieth { rkey }),
        &[],
    );
    parses(vectors::SEND_ONLY_INVALIDATE, &[], |packet| {
        assert_eq!(packet.ieth(), Some(Ieth { rkey }));
        assert_eq!(packet.pkey(), pkey);
        assert_eq!(packet.psn(), Psn::new(0x12_3456));
    });
}

#[test]
fn write_first() {
    let reth = Reth {
        va: 0x7f11_2233_4455,
        rkey: Rkey::new(0x1234),
        len: 8192,
    };
    emits(
        vectors::WRITE_FIRST,
        rc(Operation::RdmaWrite, Position::First, false, 1).reth(reth),
        &[1, 2, 3, 4],
    );
    parses(vectors::WRITE_FIRST, &[1, 2, 3, 4], |packet| {
        assert_eq!(packet.reth(), Some(reth));
        assert_eq!(packet.aeth(), None);
    });
}

#[test]
fn write_only_with_immediate() {
    let reth = Reth {
        va: u64::MAX,
        rkey: Rkey::new(0x89ab_cdef),
        len: 1,
    };
    let imm = ImmDt([0, 0, 0, 7]);
    emits(
        vectors::WRITE_ONLY_IMM,
        rc(Operation::RdmaWrite, Position::Only, true, 2)
            .imm(imm)
            .reth(reth)
            .ack_request(true),
        &[0x5a],
    );
    parses(vectors::WRITE_ONLY_IMM, &[0x5a], |packet| {
        assert_eq!(packet.reth(), Some(reth));
        assert_eq!(packet.imm(), Some(imm));
        assert_eq!(packet.pad(), 3);
    });
}

#[test]
fn read_request() {
    let reth = Reth {
        va: 0x1000,
        rkey: Rkey::new(0x42),
        len: 1 << 31,
    };
    emits(
        vectors::READ_REQUEST,
        rc(Operation::ReadRequest, Position::Only, false, 3)
            .reth(reth)
            .ack_request(true),
        &[],
    );
    parses(vectors::READ_REQUEST, &[], |packet| {
        assert_eq!(packet.opcode(), Opcode::RC_READ_REQUEST);
        assert_eq!(packet.reth(), Some(reth));
    });
}

#[test]
fn read_responses() {
    let aeth = Aeth {
        syndrome: Syndrome::ACK_UNLIMITED,
        msn: Msn::new(7),
    };
    let to = Qpn::new(0x12);
    let response = |position, psn| {
        let opcode = Opcode::of(Service::Rc, Operation::ReadResponse, position, false);
        Headers::new(opcode.unwrap(), Pkey::DEFAULT, to, Psn::new(psn))
    };
    emits(
        vectors::READ_RESPONSE_FIRST,
        response(Position::First, 3).aeth(aeth),
        &[1, 2, 3, 4],
    );
    parses(vectors::READ_RESPONSE_FIRST, &[1, 2, 3, 4], |packet| {
        assert_eq!(packet.aeth(), Some(aeth));
        assert!(packet.opcode().is_response());
    });
    emits(
        vectors::READ_RESPONSE_MIDDLE,
        response(Position::Middle, 4).aeth(aeth), // ignored: a middle packet has no AETH
        &[5, 6, 7, 8],
    );
    parses(vectors::READ_RESPONSE_MIDDLE, &[5, 6, 7, 8], |packet| {
        assert_eq!(packet.aeth(), None);
    });
}

#[test]
fn acks_and_naks() {
    let access = Syndrome::Nak(NakCode::RemoteAccess);
    for (vector, syndrome, msn) in [
        (
            vectors::ACKNOWLEDGE,
            Syndrome::Ack { credits: 0 },
            0xff_fffe,
        ),
        (vectors::RNR_NAK, Syndrome::Rnr { timer: 12 }, 1),
        (vectors::NAK_REMOTE_ACCESS, access, 1),
    ] {
        emits(vector, ack(3, syndrome, msn), &[]);
        parses(vector, &[], |packet| {
            let msn = Msn::new(msn);
            assert_eq!(packet.aeth(), Some(Aeth { syndrome, msn }));
        });
    }
}

#[test]
fn atomic_operations() {
    let swap = AtomicEth {
        va: 0x2008,
        rkey: Rkey::new(0x42),
        swap_or_add: 1,
        compare: 2,
    };
    let add = AtomicEth {
        va: 0x2010,
        rkey: Rkey::new(0x42),
        swap_or_add: u64::MAX,
        compare: 0,
    };
    for (vector, operation, psn, atomic) in [
        (vectors::COMPARE_SWAP, Operation::CompareSwap, 5, swap),
        (vectors::FETCH_ADD, Operation::FetchAdd, 6, add),
    ] {
        let headers = rc(operation, Position::Only, false, psn);
        emits(vector, headers.atomic(atomic).ack_request(true), &[]);
        parses(vector, &[], |packet| {
            assert_eq!(packet.atomic(), Some(atomic));
            assert_eq!(packet.opcode().operation(), operation);
        });
    }
}

#[test]
fn atomic_acknowledge() {
    let aeth = Aeth {
        syndrome: Syndrome::ACK_UNLIMITED,
        msn: Msn::new(2),
    };
    let original = AtomicAckEth {
        original: 0x0123_4567_89ab_cdef,
    };
    emits(
        vectors::ATOMIC_ACKNOWLEDGE,
        Headers::new(
            Opcode::RC_ATOMIC_ACKNOWLEDGE,
            Pkey::DEFAULT,
            Qpn::new(0x12),
            Psn::new(5),
        )
        .aeth(aeth)
        .original(original),
        &[],
    );
    parses(vectors::ATOMIC_ACKNOWLEDGE, &[], |packet| {
        assert_eq!(packet.aeth(), Some(aeth));
        assert_eq!(packet.atomic_ack(), Some(original));
    });
}

#[test]
fn flush_has_its_feth_before_its_reth() {
    let feth = Feth {
        placement: Feth::GLOBAL | Feth::PERSISTENT,
        selectivity: Feth::MR,
    };
    let reth = Reth {
        va: 0x3000,
        rkey: Rkey::new(0x42),
        len: 0,
    };
    emits(
        vectors::FLUSH,
        rc(Operation::Flush, Position::Only, false, 7)
            .reth(reth)
            .feth(feth)
            .ack_request(true),
        &[],
    );
    parses(vectors::FLUSH, &[], |packet| {
        assert_eq!(packet.feth(), Some(feth));
        assert_eq!(packet.reth(), Some(reth));
    });
}

#[test]
fn atomic_write() {
    let reth = Reth {
        va: 0x3008,
        rkey: Rkey::new(0x42),
        len: 8,
    };
    let value = 0x1122_3344_5566_7788_u64.to_be_bytes();
    emits(
        vectors::ATOMIC_WRITE,
        rc(Operation::AtomicWrite, Position::Only, false, 8)
            .reth(reth)
            .ack_request(true),
        &value,
    );
    parses(vectors::ATOMIC_WRITE, &value, |packet| {
        assert_eq!(packet.reth(), Some(reth));
    });
}

#[test]
fn unreliable_services() {
    let imm = ImmDt([0, 0, 0, 8]);
    let opcode = Opcode::of(Service::Uc, Operation::RdmaWrite, Position::Last, true).unwrap();
    let uc = Headers::new(opcode, Pkey::DEFAULT, Qpn::new(0x13), Psn::new(9)).imm(imm);
    emits(vectors::UC_WRITE_LAST_IMM, uc, &[1, 2, 3, 4]);
    parses(vectors::UC_WRITE_LAST_IMM, &[1, 2, 3, 4], |packet| {
        assert_eq!(packet.opcode().service(), Service::Uc);
        assert_eq!(packet.imm(), Some(imm));
        assert_eq!(packet.reth(), None);
    });

    let imm = ImmDt([0x12, 0x34, 0x56, 0x78]);
    let deth = Deth {
        qkey: Qkey::new(0x8001_0000),
        src_qpn: Qpn::GSI,
    };
    let opcode = Opcode::of(Service::Ud, Operation::Send, Position::Only, true).unwrap();
    let ud = Headers::new(opcode, Pkey::DEFAULT, Qpn::GSI, Psn::new(10));
    emits(
        vectors::UD_SEND_ONLY_IMM,
        ud.imm(imm).deth(deth),
        &[1, 2, 3, 4],
    );
    parses(vectors::UD_SEND_ONLY_IMM, &[1, 2, 3, 4], |packet| {
        assert_eq!(packet.opcode().service(), Service::Ud);
        assert_eq!(packet.deth(), Some(deth));
        assert_eq!(packet.imm(), Some(imm));
    });
}

#[test]
fn congestion_notification() {
    let cnp = Headers::new(Opcode::CNP, Pkey::DEFAULT, Qpn::new(0x11), Psn::new(0));
    emits(vectors::CNP, cnp, &[]);
    parses(vectors::CNP, &[], |packet| {
        assert_eq!(packet.opcode(), Opcode::CNP);
        assert!(packet.bth().becn() && !packet.bth().fecn());
        assert!(!packet.opcode().is_request() && !packet.opcode().is_response());
    });
}

#[test]
fn reserved_bits_are_ignored() {
    let mut bytes = hex::bytes(vectors::WRITE_ONLY_IMM);
    bytes[4] = 0xff; // FECN, BECN, six reserved bits
    bytes[8] = 0xff; // seven reserved bits beside AckReq
    let packet = Packet::parse(&bytes, bytes.len()).unwrap();
    assert_eq!(packet.dest_qpn(), Qpn::new(0x11));
    assert_eq!(packet.psn(), Psn::new(2));
    assert!(packet.bth().fecn() && packet.bth().becn() && packet.ack_request());

    let mut bytes = hex::bytes(vectors::FLUSH);
    bytes[12..15].fill(0xff);
    bytes[15] |= 0xc0;
    let packet = Packet::parse(&bytes, bytes.len()).unwrap();
    assert_eq!(packet.feth().unwrap().placement, 3);
    assert_eq!(packet.feth().unwrap().selectivity, 1);

    let mut bytes = hex::bytes(vectors::UD_SEND_ONLY_IMM);
    bytes[16] = 0xff;
    let packet = Packet::parse(&bytes, bytes.len()).unwrap();
    assert_eq!(packet.deth().unwrap().src_qpn, Qpn::GSI);
}

#[test]
fn an_unknown_transport_version_is_dropped() {
    for version in 1..16 {
        let mut bytes = hex::bytes(vectors::ACKNOWLEDGE);
        bytes[1] |= version;
        let result = Packet::parse(&bytes, bytes.len());
        assert_eq!(result, Err(DropReason::BadVersion));
    }
}

#[test]
fn pad_may_be_as_long_as_the_payload() {
    let mut bytes = hex::bytes(vectors::SEND_FIRST);
    bytes[1] |= 3 << 4;
    for (len, expected) in [(20, Some(1)), (19, Some(0)), (18, None), (16, None)] {
        let result = Packet::parse(&bytes[..len], len).map(|packet| packet.payload_len());
        assert_eq!(result, expected.ok_or(DropReason::BadPad), "length {len}");
    }
    assert_eq!(
        Packet::parse(&bytes[..15], 15),
        Err(DropReason::TooShort),
        "shorter than an ICRC"
    );
}

#[test]
fn setting_the_psn_changes_nothing_else() {
    let first = rc(Operation::Send, Position::Middle, false, 0xff_ffff).ack_request(true);
    let (a, b) = (first.emit(8), first.psn(Psn::new(0)).emit(8));
    assert_eq!(a.as_slice()[..9], b.as_slice()[..9]);
    assert_eq!(a.as_slice()[9..], [0xff; 3]);
    assert_eq!(b.as_slice()[9..], [0; 3]);
}
