// SPDX-License-Identifier: GPL-2.0

//! ACK Extended Transport Header (AETH): the responder's report on requests.

use super::{
    ext::Extension,
    header::Header, //
};
use crate::{
    id::Msn,
    num::low_u8,
    status::NakCode, //
};
use zerocopy::byteorder::network_endian::U32;

/// Bits 7 to 5 of a syndrome: its kind. Bit 7 is reserved and must be 0.
const KIND_MASK: u8 = 0xe0;

/// Kind: ACK.
const KIND_ACK: u8 = 0x00;

/// Kind: RNR NAK.
const KIND_RNR: u8 = 0x20;

/// Kind: reserved.
const KIND_RESERVED: u8 = 0x40;

/// Kind: NAK.
const KIND_NAK: u8 = 0x60;

/// Bits 4 to 0 of a syndrome: credits, RNR timer or NAK code.
const VALUE_MASK: u8 = 0x1f;

/// Syndrome of an AETH.
///
/// IBA: AETH syndrome field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Syndrome {
    /// ACK: all requests up to the PSN of the packet have arrived.
    Ack {
        /// Encoded end-to-end credits, five bits; see [`credit_count`].
        credits: u8,
    },
    /// RNR NAK: no receive is posted. The requester must retransmit after a delay.
    Rnr {
        /// Encoded delay, five bits; see [`rnr_timeout`](crate::time::rnr_timeout).
        timer: u8,
    },
    /// NAK: the request has failed, or must be retransmitted.
    Nak(NakCode),
    /// Any other value. Never sent.
    Reserved,
}

impl Syndrome {
    /// An ACK without end-to-end credits.
    pub const ACK_UNLIMITED: Self = Self::Ack {
        credits: VALUE_MASK,
    };

    /// Decodes a syndrome.
    #[inline]
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        let value = byte & VALUE_MASK;
        match byte & KIND_MASK {
            KIND_ACK => Self::Ack { credits: value },
            KIND_RNR => Self::Rnr { timer: value },
            KIND_NAK => match NakCode::from_code(value) {
                Some(code) => Self::Nak(code),
                None => Self::Reserved,
            },
            _ => Self::Reserved,
        }
    }

    /// Encodes the syndrome. Only the low five bits of credits and timer are used.
    #[inline]
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Ack { credits } => KIND_ACK | (credits & VALUE_MASK),
            Self::Rnr { timer } => KIND_RNR | (timer & VALUE_MASK),
            Self::Nak(code) => KIND_NAK | code.code(),
            Self::Reserved => KIND_RESERVED,
        }
    }
}

/// Returns the number of receives that a credit code stands for. `None` if credits are not counted.
///
/// IBA: end-to-end flow control credits. The counts double with every second code.
#[inline]
#[must_use]
pub fn credit_count(code: u8) -> Option<u32> {
    let code = code & VALUE_MASK;
    let power = 1_u32.wrapping_shl(u32::from(code >> 1));
    match code {
        VALUE_MASK => None,
        0 | 1 => Some(u32::from(code)),
        _ if code & 1 == 0 => Some(power),
        _ => Some(power.wrapping_add(power >> 1)),
    }
}

/// An ACK Extended Transport Header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Aeth {
    /// The syndrome.
    pub syndrome: Syndrome,
    /// Number of messages that the responder has completed, modulo 2^24.
    pub msn: Msn,
}

impl Extension for Aeth {
    const HEADER: Header = Header::Aeth;
    type Layout = U32;

    #[inline]
    fn decode(layout: Self::Layout) -> Self {
        Self {
            syndrome: Syndrome::from_byte(low_u8(layout.get() >> 24)),
            msn: Msn::new(layout.get()),
        }
    }

    #[inline]
    fn encode(self) -> Self::Layout {
        U32::new((u32::from(self.syndrome.to_byte()) << 24) | self.msn.get())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn decoding_and_encoding_a_syndrome_are_inverse() {
        for byte in 0..=u8::MAX {
            match Syndrome::from_byte(byte) {
                Syndrome::Reserved => {
                    let nak = byte & KIND_MASK == KIND_NAK && byte & VALUE_MASK <= 4;
                    assert!(byte >= KIND_RESERVED && !nak, "{byte:#x}");
                }
                syndrome => assert_eq!(syndrome.to_byte(), byte),
            }
        }
    }

    #[test]
    fn syndromes_match_the_specification() {
        assert_eq!(Syndrome::ACK_UNLIMITED.to_byte(), 0x1f);
        assert_eq!(Syndrome::Rnr { timer: 12 }.to_byte(), 0x2c);
        assert_eq!(Syndrome::Nak(NakCode::PsnSequence).to_byte(), 0x60);
        assert_eq!(Syndrome::Nak(NakCode::RemoteAccess).to_byte(), 0x62);
        assert_eq!(Syndrome::from_byte(0x5f), Syndrome::Reserved);
        assert_eq!(Syndrome::from_byte(0x65), Syndrome::Reserved);
        assert_eq!(Syndrome::from_byte(0x80), Syndrome::Reserved);
    }

    #[test]
    fn credits_match_the_specification() {
        const COUNTS: [u32; 31] = [
            0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
            1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
        ];
        let counts: std::vec::Vec<_> = (0..31).filter_map(credit_count).collect();
        assert_eq!(counts, COUNTS);
        assert_eq!(credit_count(0x1f), None);
        assert_eq!(credit_count(0xe5), Some(6), "five bits count");
    }

    #[test]
    fn values_are_limited_to_five_bits() {
        assert_eq!(Syndrome::Ack { credits: 0xff }.to_byte(), 0x1f);
        assert_eq!(Syndrome::Rnr { timer: 0xff }.to_byte(), 0x3f);
    }
}
