// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC, which ends every packet.
//!
//! Owns the order of things and the mask of the BTH. How a CRC-32 is computed is the caller's
//! business ([`Crc32`]), as is where the payload lies.
//!
//! IBA: invariant CRC, section 7.8.1 and annex 17.

use super::{
    bth::VARIANT_BYTE,
    header::MAX_HEADERS,
    ip::{
        IpLayout,
        Masked, //
    }, //
};
use crate::status::DropReason;
use core::marker::PhantomData;
use zerocopy::IntoBytes as _;
use zerocopy_derive::{
    Immutable,
    IntoBytes,
    Unaligned, //
};

/// Length of the ICRC in bytes.
pub const ICRC_LEN: usize = 4;

/// The CRC after eight bytes of ones, which stand for the local route header that Ethernet has
/// not.
const SEED: u32 = 0xdebb_20e3;

/// Computes a CRC-32.
pub trait Crc32 {
    /// Continues `crc` over `bytes` and returns it, with the reflected polynomial 0xedb88320, and
    /// inverting neither at the start nor at the end. C: `crc32_le()`, `linux/crc32.h`.
    fn update(crc: u32, bytes: &[u8]) -> u32;
}

/// An ICRC being computed.
///
/// ```
/// # use roce::wire::icrc::{Crc32, Icrc};
/// # use roce::wire::ip::Masked;
/// # fn icrc<C: Crc32>(masked: &Masked, headers: &[u8], a: &[u8], b: &[u8]) -> [u8; 4] {
/// Icrc::<C>::headers(masked, headers).payload(a).payload(b).finish()
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Icrc<C> {
    crc: u32,
    how: PhantomData<C>,
}

/// What is covered first, in one piece, so that the CRC runs over it in one go.
#[derive(Immutable, IntoBytes, Unaligned)]
#[repr(C)]
struct Start<Ip> {
    ip_udp: Ip,
    headers: [u8; MAX_HEADERS],
}

impl<C: Crc32> Icrc<C> {
    /// Starts with the headers. `headers` begins at the BTH and holds all of it; it may go on as
    /// far as the packet lies in one piece.
    #[inline]
    pub fn headers(masked: &Masked, headers: &[u8]) -> Self {
        match masked.layout() {
            IpLayout::V4(ip_udp) => Self::start(*ip_udp, headers),
            IpLayout::V6(ip_udp) => Self::start(*ip_udp, headers),
        }
    }

    #[inline]
    fn start<Ip>(ip_udp: Ip, headers: &[u8]) -> Self
    where
        Start<Ip>: zerocopy::IntoBytes + zerocopy::Immutable,
    {
        let (first, rest) = headers
            .split_at_checked(MAX_HEADERS)
            .unwrap_or((headers, &[]));
        let mut start = Start {
            ip_udp,
            headers: [0; MAX_HEADERS],
        };
        for (to, from) in start.headers.iter_mut().zip(first) {
            *to = *from;
        }
        if let Some(variant) = start.headers.get_mut(VARIANT_BYTE) {
            *variant = 0xff;
        }
        let unused = MAX_HEADERS.saturating_sub(first.len());
        let bytes = start.as_bytes();
        let covered = bytes
            .get(..bytes.len().saturating_sub(unused))
            .unwrap_or(bytes);
        Self {
            crc: C::update(SEED, covered),
            how: PhantomData,
        }
        .payload(rest)
    }

    /// Goes on with a piece of what follows the headers: payload or pad bytes.
    #[inline]
    pub fn payload(self, bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return self;
        }
        Self {
            crc: C::update(self.crc, bytes),
            how: PhantomData,
        }
    }

    /// Goes on with payload that only the caller can read: `update` is given the CRC so far and
    /// returns it with the payload added, as [`Crc32::update`] would.
    #[inline]
    pub fn payload_with(self, update: impl FnOnce(u32) -> u32) -> Self {
        Self {
            crc: update(self.crc),
            how: PhantomData,
        }
    }

    /// Goes on with `len` pad bytes of 0; at most 3 count.
    #[inline]
    pub fn pad(self, len: usize) -> Self {
        self.payload([0; 3].get(..len).unwrap_or(&[0; 3]))
    }

    /// Returns the four bytes that end the packet.
    #[inline]
    #[must_use]
    pub fn finish(self) -> [u8; ICRC_LEN] {
        (!self.crc).to_le_bytes()
    }

    /// Compares with the four bytes that ended a received packet.
    ///
    /// # Errors
    ///
    /// [`DropReason::BadIcrc`] if they differ.
    #[inline]
    pub fn verify(self, received: [u8; ICRC_LEN]) -> Result<(), DropReason> {
        if self.finish() == received {
            Ok(())
        } else {
            Err(DropReason::BadIcrc)
        }
    }
}
