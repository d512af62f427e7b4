// SPDX-License-Identifier: GPL-2.0

//! Properties of parser and builder: each is the inverse of the other, for all values.

use proptest::prelude::*;
use roce::{
    id::{
        Msn,
        Pkey,
        Qkey,
        Qpn,
        Rkey,
        Srqn, //
    },
    psn::Psn,
    status::NakCode,
    wire::{
        aeth::{
            Aeth,
            Syndrome, //
        },
        emit::{
            pad_len,
            Headers, //
        },
        ext::{
            AtomicAckEth,
            AtomicEth,
            Deth,
            Feth,
            Ieth,
            ImmDt,
            Reth,
            Xrceth, //
        },
        header::Header,
        opcode::Opcode,
        packet::Packet, //
    }, //
};
use roce_tests::fuzz::parse::{
    parse,
    rebuild, //
};

fn opcode() -> impl Strategy<Value = Opcode> {
    let all: Vec<_> = (0..=u8::MAX).filter_map(Opcode::from_byte).collect();
    prop::sample::select(all)
}

fn syndrome() -> impl Strategy<Value = Syndrome> {
    prop_oneof![
        (0..32_u8).prop_map(|credits| Syndrome::Ack { credits }),
        (0..32_u8).prop_map(|timer| Syndrome::Rnr { timer }),
        (0..5_u8).prop_map(|code| Syndrome::Nak(NakCode::from_code(code).unwrap())),
    ]
}

/// All extension headers. An opcode uses some of them.
#[derive(Clone, Copy, Debug)]
struct Extensions {
    reth: Reth,
    aeth: Aeth,
    deth: Deth,
    imm: ImmDt,
    ieth: Ieth,
    atomic: AtomicEth,
    original: AtomicAckEth,
    feth: Feth,
    xrceth: Xrceth,
}

prop_compose! {
    fn extensions()(
        va in any::<u64>(),
        key in any::<u32>(),
        len in any::<u32>(),
        syndrome in syndrome(),
        msn in any::<u32>(),
        qpn in any::<u32>(),
        imm in any::<[u8; 4]>(),
        operands in any::<(u64, u64)>(),
        original in any::<u64>(),
        placement in 0..16_u8,
        selectivity in 0..4_u8,
        srqn in any::<u32>(),
    ) -> Extensions {
        let rkey = Rkey::new(key);
        Extensions {
            reth: Reth { va, rkey, len },
            aeth: Aeth { syndrome, msn: Msn::new(msn) },
            deth: Deth { qkey: Qkey::new(key), src_qpn: Qpn::new(qpn) },
            imm: ImmDt(imm),
            ieth: Ieth { rkey },
            atomic: AtomicEth { va, rkey, swap_or_add: operands.0, compare: operands.1 },
            original: AtomicAckEth { original },
            feth: Feth { placement, selectivity },
            xrceth: Xrceth { srqn: Srqn::new(srqn) },
        }
    }
}

proptest! {
    #[test]
    fn emitted_headers_are_parsed(
        opcode in opcode(),
        pkey in any::<u16>(),
        qpn in any::<u32>(),
        psn in any::<u32>(),
        ack_request: bool,
        solicited: bool,
        values in extensions(),
        payload_len in 0..4097_usize,
    ) {
        let headers = Headers::new(opcode, Pkey::new(pkey), Qpn::new(qpn), Psn::new(psn))
            .ack_request(ack_request)
            .solicited(solicited)
            .reth(values.reth)
            .aeth(values.aeth)
            .deth(values.deth)
            .imm(values.imm)
            .ieth(values.ieth)
            .atomic(values.atomic)
            .original(values.original)
            .feth(values.feth)
            .xrceth(values.xrceth)
            .emit(payload_len);
        let pad = pad_len(payload_len);
        prop_assert_eq!((payload_len + pad) % 4, 0);

        let udp_payload_len = headers.len() + payload_len + pad + 4;
        let packet = Packet::parse(headers.as_slice(), udp_payload_len).unwrap();
        prop_assert_eq!(packet.opcode(), opcode);
        prop_assert_eq!(packet.pkey(), Pkey::new(pkey));
        prop_assert_eq!(packet.dest_qpn(), Qpn::new(qpn));
        prop_assert_eq!(packet.psn(), Psn::new(psn));
        prop_assert_eq!(packet.ack_request(), ack_request);
        prop_assert_eq!(packet.solicited(), solicited);
        prop_assert_eq!(packet.migrated(), opcode != Opcode::CNP);
        prop_assert_eq!(packet.payload_offset(), headers.len());
        prop_assert_eq!(packet.payload_len(), payload_len);
        prop_assert_eq!(usize::from(packet.pad()), pad);

        let has = |header| opcode.headers().contains(header);
        prop_assert_eq!(packet.reth(), has(Header::Reth).then_some(values.reth));
        prop_assert_eq!(packet.aeth(), has(Header::Aeth).then_some(values.aeth));
        prop_assert_eq!(packet.deth(), has(Header::Deth).then_some(values.deth));
        prop_assert_eq!(packet.imm(), has(Header::ImmDt).then_some(values.imm));
        prop_assert_eq!(packet.ieth(), has(Header::Ieth).then_some(values.ieth));
        prop_assert_eq!(packet.atomic(), has(Header::AtomicEth).then_some(values.atomic));
        let original = has(Header::AtomicAckEth).then_some(values.original);
        prop_assert_eq!(packet.atomic_ack(), original);
        prop_assert_eq!(packet.xrceth(), has(Header::Xrceth).then_some(values.xrceth));
        prop_assert_eq!(packet.feth(), has(Header::Feth).then_some(values.feth));

        let again = rebuild(&packet).emit(payload_len);
        prop_assert_eq!(again.as_slice(), headers.as_slice());
    }

    #[test]
    fn any_bytes_are_parsed_or_dropped(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        parse(&bytes);
    }

    #[test]
    fn any_bytes_behind_a_known_opcode_are_parsed_or_dropped(
        opcode in opcode(),
        mut bytes in prop::collection::vec(any::<u8>(), 2..120),
    ) {
        bytes[0] = opcode.to_byte();
        bytes[1] &= 0xf0;
        parse(&bytes);
    }
}
