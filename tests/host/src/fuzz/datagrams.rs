// SPDX-License-Identifier: GPL-2.0

//! Fuzz body: datagrams. A sent datagram has the requested headers and is accepted only with its
//! Q_Key. Of arbitrary bytes, only a datagram with the right Q_Key is accepted.

use super::{
    bytes::Bytes,
    packets::MTU, //
};
use roce::{
    id::{
        Pkey,
        Qkey,
        Qpn, //
    },
    psn::Psn,
    status::DropReason,
    ud::{
        check_qkey,
        headers,
        DatagramWr,
        UdSender, //
    },
    wire::{
        ext::ImmDt,
        opcode::{
            Operation,
            Service, //
        },
        packet::Packet, //
    },
    wr::Imm, //
};

/// Sends a datagram determined by `data`, and parses the rest as a packet.
///
/// # Panics
///
/// If a property is violated.
pub fn datagrams(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let flags = bytes.byte();
    let wr = DatagramWr {
        wr_id: 1,
        remote_qpn: Qpn::new(bytes.number(MTU) & 0xff_ffff),
        remote_qkey: Qkey::new(bytes.number(MTU)),
        imm: (flags & 1 != 0).then_some(Imm([flags; 4])),
        length: bytes.number(MTU) % 4097,
        signaled: true,
        solicited: flags & 2 != 0,
    };
    let from = UdSender {
        qpn: Qpn::new(bytes.number(MTU) & 0xff_ffff),
        qkey: Qkey::new(bytes.number(MTU)),
        pkey: Pkey::DEFAULT,
    };
    let psn = Psn::new(bytes.number(1 << 19));
    check_sent(&wr, from, psn);
    check_received(data.get(8..).unwrap_or_default(), from.qkey);
}

/// Checks a sent datagram.
fn check_sent(wr: &DatagramWr, from: UdSender, psn: Psn) {
    let headers = headers(wr, from, psn)
        .expect("a datagram")
        .emit(wr.length as usize);
    let len = headers.len() + wr.length.next_multiple_of(4) as usize + 4;
    let packet = Packet::parse(headers.as_slice(), len).expect("an emitted packet");
    assert_eq!(packet.opcode().service(), Service::Ud);
    assert_eq!(packet.opcode().operation(), Operation::Send);
    assert_eq!((packet.dest_qpn(), packet.psn()), (wr.remote_qpn, psn));
    assert_eq!(packet.pkey(), from.pkey);
    assert_eq!(packet.payload_len(), wr.length as usize);
    assert_eq!(packet.solicited(), wr.solicited);
    assert_eq!(
        packet.imm().map(|ImmDt(imm)| imm),
        wr.imm.map(|Imm(imm)| imm)
    );
    // A privileged Q_Key is replaced by that of the sending QP.
    let key = match wr.remote_qkey.get() >> 31 {
        0 => wr.remote_qkey,
        _ => from.qkey,
    };
    assert_eq!(check_qkey(&packet, key), Ok(from.qpn));
    let other = Qkey::new(key.get() ^ 1);
    assert_eq!(check_qkey(&packet, other), Err(DropReason::BadQkey));
}

/// Checks an arbitrary packet.
fn check_received(data: &[u8], key: Qkey) {
    let Ok(packet) = Packet::parse(data, data.len()) else {
        return;
    };
    let word = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().expect("four bytes"));
    // Headers of a datagram: Q_Key, then source QP.
    let expected = match data[0] {
        0x64 | 0x65 if word(12) == key.get() => Ok(Qpn::new(word(16) & 0xff_ffff)),
        0x64 | 0x65 => Err(DropReason::BadQkey),
        _ => Err(DropReason::WrongService),
    };
    assert_eq!(check_qkey(&packet, key), expected);
}
