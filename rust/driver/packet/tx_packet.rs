// SPDX-License-Identifier: GPL-2.0

//! A packet under construction: headers, payload, pad and ICRC.
//!
//! Used by the engines, in process context or softirq. The payload is copied and the ICRC covers the copy, so the
//! owner of the memory may write to it at any time. A packet that cannot be finished is dropped, and the transport
//! recovers from the loss.

use crate::mem::payload::PayloadSink;
use kernel::prelude::*;
use rdma::{
    mm::memory::Memory,
    net::tx::skb::TxSkb,
    util::crc32::crc32_le, //
};
use roce::wire::{
    emit::{
        pad_len,
        HeaderBuf, //
    },
    icrc::{
        Crc32,
        Icrc,
        ICRC_LEN, //
    },
    ip::Masked, //
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

/// A packet under construction.
pub(crate) struct TxPacket {
    skb: TxSkb,
    icrc: Icrc<KernelCrc>,
    payload_len: usize,
}

impl TxPacket {
    /// Starts a packet with `payload_len` bytes of payload. `None`: no memory.
    pub(crate) fn new(masked: &Masked, headers: &HeaderBuf, payload_len: usize) -> Option<Self> {
        let tail = payload_len.wrapping_add(trailer_len(payload_len));
        let mut skb = TxSkb::new(headers.len().wrapping_add(tail))?;
        skb.put(headers.as_slice()).ok()?;
        Some(Self {
            skb,
            icrc: Icrc::headers(masked, headers.as_slice()),
            payload_len,
        })
    }

    /// Appends pad bytes and ICRC, and returns the buffer. `None`: there is no room, because the payload was too long.
    pub(crate) fn finish(mut self) -> Option<TxSkb> {
        let pad = pad_len(self.payload_len);
        let mut trailer = [0; 3 + ICRC_LEN];
        let icrc = self.icrc.pad(pad).finish();
        trailer
            .get_mut(pad..)?
            .first_chunk_mut::<ICRC_LEN>()?
            .copy_from_slice(&icrc);
        let trailer = trailer.get(..trailer_len(self.payload_len))?;
        self.skb.put(trailer).ok()?;
        Some(self.skb)
    }

    /// As [`TxPacket::finish`], with a wrong ICRC.
    pub(crate) fn finish_damaged(mut self) -> Option<TxSkb> {
        self.icrc = self.icrc.payload(&[0]);
        self.finish()
    }
}

impl PayloadSink for TxPacket {
    fn append_bytes(&mut self, bytes: &[u8]) -> Result {
        self.icrc = self.icrc.payload(bytes);
        self.skb.put(bytes)
    }

    fn append(&mut self, memory: &Memory, offset: u64, len: u32) -> Result {
        // CAST: `usize` has 64 bits.
        let len = len as usize;
        let copy = self.skb.put_memory(memory, offset, len)?;
        self.icrc = self.icrc.payload(copy);
        Ok(())
    }
}

/// Returns the bytes after a payload of this length: pad and ICRC.
pub(crate) const fn trailer_len(payload_len: usize) -> usize {
    pad_len(payload_len).wrapping_add(ICRC_LEN)
}
