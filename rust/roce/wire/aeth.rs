// SPDX-License-Identifier: GPL-2.0

//! ACK Extended Transport Header: what a responder says about the requests it got.
//!
//! Owns the encoding of the syndrome. Does not know what a requester makes of it.

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

/// Bits 7 to 5 of a syndrome: what kind it is. Bit 7 is reserved and must be 0.
const KIND: u8 = 0xe0;

/// Kind of an acknowledgement.
const ACK: u8 = 0x00;

/// Kind of a "receiver not ready".
const RNR: u8 = 0x20;

/// Kind that is reserved.
const RESERVED: u8 = 0x40;

/// Kind of a refusal.
const NAK: u8 = 0x60;

/// Bits 4 to 0 of a syndrome: credits, delay or reason.
const VALUE: u8 = 0x1f;

/// What an AETH says.
///
/// IBA: AETH syndrome field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Syndrome {
    /// Everything up to the PSN of the packet arrived.
    Ack {
        /// Encoded end-to-end credits, five bits; 31 says that none are counted.
        credits: u8,
    },
    /// No receive work request is posted; send again after a while.
    Rnr {
        /// Encoded delay, five bits; see [`rnr_timeout`](crate::time::rnr_timeout).
        timer: u8,
    },
    /// The request is refused, or asked for once more.
    Nak(NakCode),
    /// None of these. Never sent from here.
    Reserved,
}

impl Syndrome {
    /// An acknowledgement that limits nothing.
    pub const ACK_UNLIMITED: Self = Self::Ack { credits: VALUE };

    /// Decodes a syndrome.
    #[inline]
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        let value = byte & VALUE;
        match byte & KIND {
            ACK => Self::Ack { credits: value },
            RNR => Self::Rnr { timer: value },
            NAK => match NakCode::from_code(value) {
                Some(code) => Self::Nak(code),
                None => Self::Reserved,
            },
            _ => Self::Reserved,
        }
    }

    /// Encodes the syndrome; of credits and timer, the low five bits count.
    #[inline]
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Ack { credits } => ACK | (credits & VALUE),
            Self::Rnr { timer } => RNR | (timer & VALUE),
            Self::Nak(code) => NAK | code.code(),
            Self::Reserved => RESERVED,
        }
    }
}

/// An ACK Extended Transport Header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Aeth {
    /// What the responder says.
    pub syndrome: Syndrome,
    /// How many messages the responder has completed, counted round.
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
    use super::*;

    #[test]
    fn every_syndrome_byte_is_decoded_as_it_is_encoded() {
        for byte in 0..=u8::MAX {
            match Syndrome::from_byte(byte) {
                Syndrome::Reserved => {
                    let nak = byte & KIND == NAK && byte & VALUE <= 4;
                    assert!(byte >= RESERVED && !nak, "{byte:#x}");
                }
                syndrome => assert_eq!(syndrome.to_byte(), byte),
            }
        }
    }

    #[test]
    fn syndromes_have_the_bytes_of_the_specification() {
        assert_eq!(Syndrome::ACK_UNLIMITED.to_byte(), 0x1f);
        assert_eq!(Syndrome::Rnr { timer: 12 }.to_byte(), 0x2c);
        assert_eq!(Syndrome::Nak(NakCode::PsnSequence).to_byte(), 0x60);
        assert_eq!(Syndrome::Nak(NakCode::RemoteAccess).to_byte(), 0x62);
        assert_eq!(Syndrome::from_byte(0x5f), Syndrome::Reserved);
        assert_eq!(Syndrome::from_byte(0x65), Syndrome::Reserved);
        assert_eq!(Syndrome::from_byte(0x80), Syndrome::Reserved);
    }

    #[test]
    fn values_of_five_bits_cannot_reach_the_kind() {
        assert_eq!(Syndrome::Ack { credits: 0xff }.to_byte(), 0x1f);
        assert_eq!(Syndrome::Rnr { timer: 0xff }.to_byte(), 0x3f);
    }
}
