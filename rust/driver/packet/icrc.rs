// SPDX-License-Identifier: GPL-2.0

//! What follows the payload of a packet: pad bytes and ICRC.

use rdma::util::crc32::crc32_le;
use roce::wire::{
    emit::pad_len,
    icrc::{
        Crc32,
        Icrc,
        ICRC_LEN, //
    }, //
};

/// The kernel's CRC-32.
#[derive(Clone, Copy)]
pub(crate) struct KernelCrc;

impl Crc32 for KernelCrc {
    #[inline]
    fn update(crc: u32, bytes: &[u8]) -> u32 {
        crc32_le(crc, bytes)
    }
}

/// Pad bytes and ICRC of a packet.
pub(crate) struct Trailer {
    bytes: [u8; Self::MAX_LEN],
    len: usize,
}

impl Trailer {
    /// Length of the longest one in bytes.
    pub(crate) const MAX_LEN: usize = 3 + ICRC_LEN;

    /// Returns the trailer of a packet whose headers and payload `icrc` covers; the payload has that length in bytes.
    pub(crate) fn new(icrc: Icrc<KernelCrc>, payload_len: usize) -> Self {
        let pad = pad_len(payload_len);
        let icrc = icrc.pad(pad).finish();
        let mut bytes = [0; Self::MAX_LEN];
        for (to, from) in bytes.iter_mut().skip(pad).zip(icrc) {
            *to = from;
        }
        Self {
            bytes,
            len: trailer_len(payload_len),
        }
    }

    /// Returns the bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

/// Returns the bytes after a payload of this length: pad and ICRC.
pub(crate) const fn trailer_len(payload_len: usize) -> usize {
    pad_len(payload_len).wrapping_add(ICRC_LEN)
}
