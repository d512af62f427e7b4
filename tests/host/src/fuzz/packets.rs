// SPDX-License-Identifier: GPL-2.0

//! Well-formed but arbitrary packets from the bytes of a fuzzer.

use super::bytes::Bytes;
use roce::{
    id::{
        Msn,
        Pkey,
        Qpn,
        Rkey, //
    },
    psn::Psn,
    wire::{
        aeth::{
            Aeth,
            Syndrome, //
        },
        emit::Headers,
        ext::{
            AtomicAckEth,
            AtomicEth,
            Feth,
            Ieth,
            ImmDt,
            Reth, //
        },
        opcode::{
            Opcode,
            Operation, //
        },
        packet::Packet, //
    }, //
};

/// Path MTU of all fuzzed connections.
pub const MTU: u32 = 256;

/// Opcodes of RC, a reserved one, and one of another service.
const RC_OPCODES: [u8; 27] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
    0x10, 0x11, 0x12, 0x13, 0x14, 0x16, 0x17, 0x1c, 0x1d, 0x24, 0x1f,
];

/// Opcodes of UC, and two of other services.
const UC_OPCODES: [u8; 14] = [
    0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x04, 0x64,
];

/// Passes an RC packet with a PSN near `psn` to `handle`.
pub fn packet<R>(bytes: &mut Bytes<'_>, psn: Psn, handle: impl FnOnce(&Packet<'_>) -> R) -> R {
    packet_of(&RC_OPCODES, bytes, psn, handle)
}

/// Passes a UC packet with a PSN near `psn` to `handle`.
pub fn unreliable<R>(bytes: &mut Bytes<'_>, psn: Psn, handle: impl FnOnce(&Packet<'_>) -> R) -> R {
    packet_of(&UC_OPCODES, bytes, psn, handle)
}

fn packet_of<R>(
    opcodes: &[u8],
    bytes: &mut Bytes<'_>,
    psn: Psn,
    handle: impl FnOnce(&Packet<'_>) -> R,
) -> R {
    let opcode = opcodes[bytes.below(opcodes.len())];
    let opcode = Opcode::from_byte(opcode).expect("a known opcode");
    let psn = match bytes.byte() {
        byte @ 0..=0x9f => psn.add(u32::from(byte & 0xf)),
        byte @ 0xa0..=0xef => psn.sub(u32::from(byte & 0xf)),
        _ => psn.add(bytes.number(1 << 19)),
    };
    let flags = bytes.byte();
    // An atomic write, which is valid with only one length, mostly has that length.
    let valid_len = opcode.operation() == Operation::AtomicWrite && flags & 0x30 != 0;
    let payload = match flags & 3 {
        _ if valid_len => 8,
        0 => MTU as usize,
        1 => bytes.byte().into(),
        2 => 0,
        _ => bytes.number(MTU) as usize % 0x1_0000,
    };
    let reth = Reth {
        va: bytes.number(MTU).into(),
        rkey: Rkey::new(u32::from(flags >> 6)),
        len: if valid_len { 8 } else { bytes.number(MTU) },
    };
    let headers = Headers::new(opcode, Pkey::DEFAULT, Qpn::new(1), psn)
        .ack_request(flags & 4 != 0)
        .solicited(flags & 8 != 0)
        .imm(ImmDt([flags; 4]))
        .ieth(Ieth { rkey: reth.rkey })
        .reth(reth)
        .atomic(AtomicEth {
            va: reth.va,
            rkey: reth.rkey,
            swap_or_add: u64::from(flags),
            compare: u64::from(reth.len),
        })
        .original(AtomicAckEth {
            original: u64::from(reth.len),
        })
        .feth(Feth {
            placement: (flags >> 4) & 3,
            selectivity: flags >> 6,
        })
        .aeth(Aeth {
            syndrome: Syndrome::from_byte(if flags & 16 != 0 { bytes.byte() } else { 0x1f }),
            msn: Msn::new(0),
        })
        .emit(payload);
    let len = headers.len() + payload.next_multiple_of(4) + 4;
    handle(&Packet::parse(headers.as_slice(), len).expect("an emitted packet"))
}
