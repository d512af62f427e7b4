// SPDX-License-Identifier: GPL-2.0

//! One packet of those that are in a received buffer.
//!
//! Owns where its bytes are: in the buffer itself, if it is the first, or in one on its list. It lies in
//! several pieces, and stays so; bytes are copied out of it, or checked in place. Does not know what the
//! payload is.
//!
//! Offsets count from the first byte of the UDP payload.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::bindings;
use crate::net::rx::skb::{
    RxSkb,
    UDP_LEN, //
};
use core::{
    ptr,
    slice, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// One packet.
///
/// # Invariants
///
/// - `raw` is the buffer of `skb`, or one on its list.
/// - From `base` on, the data of `raw` are at least `len` bytes of UDP payload. Those before are in
///   the linear part.
#[derive(Clone, Copy)]
pub struct RxPacket<'a> {
    skb: &'a RxSkb,
    raw: *const bindings::sk_buff,
    base: usize,
    len: usize,
    index: u16,
}

impl<'a> RxPacket<'a> {
    /// The first packet of `skb`.
    #[inline]
    pub(super) fn first(skb: &'a RxSkb) -> Self {
        // SAFETY: Valid.
        let size = unsafe { bindings::ferroce_helper_skb_gso_size(skb.as_raw()) };
        let len = match size {
            0 => skb.udp_payload_len(),
            size => usize::from(size),
        };
        // INVARIANT: By that of `RxSkb`.
        Self {
            skb,
            raw: skb.as_raw(),
            base: UDP_LEN,
            len,
            index: 0,
        }
    }

    /// The packet after this one.
    #[inline]
    pub fn next(&self) -> Option<Self> {
        // SAFETY: By the invariant; a buffer that is not a burst has no list of packets.
        let raw = unsafe {
            match self.index {
                0 => bindings::ferroce_helper_skb_packet_list(self.raw),
                _ => (*self.raw)
                    .__bindgen_anon_1
                    .__bindgen_anon_1
                    .next
                    .cast_const(),
            }
        };
        if raw.is_null() {
            return None;
        }
        // INVARIANT: By that of `RxSkb`.
        // CAST: `u32` to `usize`, on 64 bits.
        // SAFETY: On the list.
        let len = unsafe { (*raw).len as usize };
        Some(Self {
            raw,
            base: 0,
            len,
            index: self.index.wrapping_add(1),
            ..*self
        })
    }

    /// The buffer that the packet is in.
    #[inline]
    pub fn skb(&self) -> &'a RxSkb {
        self.skb
    }

    /// Which packet of its buffer this is, counted from 0.
    #[inline]
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Length of the UDP payload in bytes.
    #[inline]
    pub fn udp_payload_len(&self) -> usize {
        self.len
    }

    /// The first bytes of the payload, as many as `buffer` takes or there are: where they stand, if that
    /// is one piece, or copied to `buffer`.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the buffer is not as it should be.
    #[inline]
    pub fn peek<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8]>
    where
        'a: 'b,
    {
        let len = self.len.min(buffer.len());
        // SAFETY: Valid, and not changed while the buffer is borrowed.
        let fields = unsafe { &*self.raw };
        // CAST: `u32` to `usize`, on 64 bits.
        let linear = fields.len.wrapping_sub(fields.data_len) as usize;
        if linear >= self.base.wrapping_add(len) {
            // SAFETY: The linear part is initialised, and is at least so long.
            return Ok(unsafe { slice::from_raw_parts(fields.data.add(self.base), len) });
        }
        let buffer = buffer.get_mut(..len).ok_or(EFAULT)?;
        self.copy(0, buffer)?;
        Ok(buffer)
    }

    /// Copies bytes at `offset` of the payload to `to`.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the packet has not so many.
    pub fn copy(&self, offset: usize, to: &mut [u8]) -> Result {
        // SAFETY: The slice is valid for writes.
        unsafe { self.copy_raw(offset, to.as_mut_ptr(), to.len()) }
    }

    /// Copies `len` bytes at `offset` of the payload to `to`.
    ///
    /// # Safety
    ///
    /// `to` is valid for writing `len` bytes. Others may be using them at the same time; then
    /// nobody may rely on what they read.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the packet has not so many.
    #[inline]
    pub(crate) unsafe fn copy_raw(&self, offset: usize, to: *mut u8, len: usize) -> Result {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(EFAULT);
        }
        // CAST: Within a packet.
        let (offset, len) = (self.base.wrapping_add(offset) as c_int, len as c_int);
        // SAFETY: The packet is valid, and so is `to`. C checks the range.
        to_result(unsafe { bindings::skb_copy_bits(self.raw, offset, to.cast(), len) })
    }

    /// Continues CRC-32 `crc` over `len` bytes at `offset` of the payload, or as many as there
    /// are, piece by piece. See [`crc32_le`](crate::util::crc32::crc32_le).
    pub fn crc32(&self, offset: usize, len: usize, mut crc: u32) -> u32 {
        // CAST: Within a packet.
        let bound = |at: usize| self.base.wrapping_add(at.min(self.len)) as u32;
        let (from, to) = (bound(offset), bound(offset.saturating_add(len)));
        let mut state: bindings::skb_seq_state = pin_init::zeroed();
        let mut piece = ptr::null();
        let mut done = 0;
        // SAFETY: The packet is valid and not changed meanwhile. Every piece is valid until the
        // next one is asked for; the walk ends by itself when there is none.
        unsafe {
            bindings::skb_prepare_seq_read(self.raw.cast_mut(), from, to, &mut state);
            loop {
                let len = bindings::skb_seq_read(done, &mut piece, &mut state);
                if len == 0 {
                    return crc;
                }
                // The last piece is as long as its part of the buffer, whatever was asked for.
                let len = len.min(to.saturating_sub(from).saturating_sub(done));
                crc = bindings::crc32_le(crc, piece.cast(), len as usize);
                done = done.wrapping_add(len);
            }
        }
    }
}

impl RxSkb {
    /// The packet that was kept by [`RxSkb::resume_at`], or the first.
    #[inline]
    pub fn current(&self) -> RxPacket<'_> {
        let mut packet = RxPacket::first(self);
        // Ends: fewer than there are packets.
        for _ in 0..self.notes().position {
            packet = packet.next().unwrap_or(packet);
        }
        packet
    }
}
