// SPDX-License-Identifier: GPL-2.0

//! The invariant CRC (ICRC), the last four bytes of every packet. The caller provides the CRC-32
//! implementation ([`Crc32`]) and the payload.
//!
//! IBA: invariant CRC, section 7.8.1 and annex 17.

use super::{
    bth::VARIANT_BYTE,
    header::MAX_HEADERS_LEN,
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

/// The CRC after eight bytes of ones, which replace the local route header that Ethernet does not
/// have.
const SEED: u32 = 0xdebb_20e3;

/// A CRC-32 implementation.
pub trait Crc32 {
    /// Returns `crc` continued over `bytes`, with the reflected polynomial 0xedb88320 and no
    /// inversion at the start or the end. C: `crc32_le()`, `linux/crc32.h`.
    fn update(crc: u32, bytes: &[u8]) -> u32;
}

/// An ICRC computation in progress.
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
    algorithm: PhantomData<C>,
}

/// The first bytes covered, made contiguous so that one call of the CRC covers them.
#[derive(Immutable, IntoBytes, Unaligned)]
#[repr(C)]
struct Start<Ip> {
    ip_udp: Ip,
    headers: [u8; MAX_HEADERS_LEN],
}

impl<C: Crc32> Icrc<C> {
    /// Starts with the headers. `headers` starts with a complete BTH and may extend as far as the
    /// packet is contiguous.
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
            .split_at_checked(MAX_HEADERS_LEN)
            .unwrap_or((headers, &[]));
        let mut start = Start {
            ip_udp,
            headers: [0; MAX_HEADERS_LEN],
        };
        for (to, from) in start.headers.iter_mut().zip(first) {
            *to = *from;
        }
        if let Some(variant) = start.headers.get_mut(VARIANT_BYTE) {
            *variant = 0xff;
        }
        let unused = MAX_HEADERS_LEN.saturating_sub(first.len());
        let bytes = start.as_bytes();
        let covered = bytes
            .get(..bytes.len().saturating_sub(unused))
            .unwrap_or(bytes);
        Self {
            crc: C::update(SEED, covered),
            algorithm: PhantomData,
        }
        .payload(rest)
    }

    /// Continues with bytes that follow the headers: payload or pad.
    #[inline]
    pub fn payload(self, bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return self;
        }
        Self {
            crc: C::update(self.crc, bytes),
            algorithm: PhantomData,
        }
    }

    /// Continues with payload that the caller reads: `update` receives the CRC so far and returns
    /// it continued over the payload, as [`Crc32::update`] does.
    #[inline]
    pub fn payload_with(self, update: impl FnOnce(u32) -> u32) -> Self {
        Self {
            crc: update(self.crc),
            algorithm: PhantomData,
        }
    }

    /// Continues with `len` zero pad bytes, at most 3.
    #[inline]
    pub fn pad(self, len: usize) -> Self {
        self.payload([0; 3].get(..len).unwrap_or(&[0; 3]))
    }

    /// Returns the ICRC in wire order.
    #[inline]
    #[must_use]
    pub fn finish(self) -> [u8; ICRC_LEN] {
        (!self.crc).to_le_bytes()
    }

    /// Compares the result with the ICRC of a received packet.
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
