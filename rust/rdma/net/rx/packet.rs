// SPDX-License-Identifier: GPL-2.0

//! One packet of a received skb: the skb itself, or one on its frag_list. A super-packet counts as one packet.
//!
//! The packet may be in several fragments and is not linearised. Its bytes are copied out, or checksummed in
//! place. Offsets count from the first byte of the UDP payload.
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

/// One packet of a received skb.
///
/// # Invariants
///
/// - `raw` is the skb of `skb`, or one on its frag_list.
/// - From offset `base` on, the data of `raw` contains at least `len` bytes of UDP payload. The bytes before
///   `base` are in the linear part.
#[derive(Clone, Copy)]
pub struct RxPacket<'a> {
    skb: &'a RxSkb,
    raw: *const bindings::sk_buff,
    base: usize,
    len: usize,
    index: u16,
}

impl<'a> RxPacket<'a> {
    /// Returns the first packet of `skb`.
    #[inline]
    pub(super) fn first(skb: &'a RxSkb) -> Self {
        // SAFETY: The skb is valid by the invariant of `RxSkb`.
        let size = unsafe { bindings::ferroce_helper_skb_gso_size(skb.as_raw()) };
        let len = match size {
            0 => skb.udp_payload_len(),
            _ if skb.is_super_packet() => skb.udp_payload_len(),
            size => usize::from(size),
        };
        // INVARIANT: By the invariant of `RxSkb`.
        Self {
            skb,
            raw: skb.as_raw(),
            base: UDP_LEN,
            len,
            index: 0,
        }
    }

    /// Returns the packet after this one.
    #[inline]
    pub fn next(&self) -> Option<Self> {
        // The skb on its frag_list is not a packet.
        if self.skb.is_super_packet() {
            return None;
        }
        // SAFETY: `raw` is valid by the type invariant. The helper returns null for an skb without GSO
        // fields. The frag_list is linked by `next` and ends with null.
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
        // INVARIANT: By the invariant of `RxSkb`.
        // CAST: `u32` to `usize`, which has 64 bits.
        // SAFETY: `raw` is not null, so it is an skb on the frag_list.
        let len = unsafe { (*raw).len as usize };
        Some(Self {
            raw,
            base: 0,
            len,
            index: self.index.wrapping_add(1),
            ..*self
        })
    }

    /// Returns the skb that contains the packet.
    #[inline]
    pub fn skb(&self) -> &'a RxSkb {
        self.skb
    }

    /// Returns the index of the packet in its skb, from 0.
    #[inline]
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Returns the length of the UDP payload in bytes.
    #[inline]
    pub fn udp_payload_len(&self) -> usize {
        self.len
    }

    /// Returns the first bytes of the payload, at most as many as `buffer` has: in place if they are linear,
    /// otherwise copied to `buffer`.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the skb is malformed.
    #[inline]
    pub fn peek<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8]>
    where
        'a: 'b,
    {
        let len = self.len.min(buffer.len());
        // SAFETY: The skb is valid by the type invariant, and does not change while it is borrowed.
        let fields = unsafe { &*self.raw };
        // CAST: `u32` to `usize`, which has 64 bits.
        let linear = fields.len.wrapping_sub(fields.data_len) as usize;
        if linear >= self.base.wrapping_add(len) {
            // SAFETY: The linear part is initialised, and contains the range, as just checked.
            return Ok(unsafe { slice::from_raw_parts(fields.data.add(self.base), len) });
        }
        let buffer = buffer.get_mut(..len).ok_or(EFAULT)?;
        self.copy(0, buffer)?;
        Ok(buffer)
    }

    /// Copies the bytes at `offset` of the payload to `to`.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the range ends beyond the packet.
    pub fn copy(&self, offset: usize, to: &mut [u8]) -> Result {
        // SAFETY: The slice is valid for writes of its length.
        unsafe { self.copy_raw(offset, to.as_mut_ptr(), to.len()) }
    }

    /// Copies `len` bytes at `offset` of the payload to `to`.
    ///
    /// # Safety
    ///
    /// `to` must be valid for writes of `len` bytes. Other code or a process may access them concurrently;
    /// their readers then see unspecified values.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the range ends beyond the packet.
    #[inline]
    pub(crate) unsafe fn copy_raw(&self, offset: usize, to: *mut u8, len: usize) -> Result {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(EFAULT);
        }
        // CAST: Offsets within a packet are small.
        let (offset, len) = (self.base.wrapping_add(offset) as c_int, len as c_int);
        // SAFETY: `raw` is valid by the type invariant, and the caller guarantees `to`. C checks the range
        // against the skb.
        to_result(unsafe { bindings::skb_copy_bits(self.raw, offset, to.cast(), len) })
    }

    /// Returns where the bytes at `offset` of the payload of a super-packet are, and how many of them are contiguous.
    /// `None` for another packet, whose bytes only C finds.
    #[inline]
    pub(super) fn contiguous(&self, offset: usize) -> Option<(*const u8, usize)> {
        match self.skb.is_super_packet() {
            true => self.find_contiguous(offset),
            false => None,
        }
    }

    /// As [`RxPacket::contiguous`].
    fn find_contiguous(&self, offset: usize) -> Option<(*const u8, usize)> {
        // SAFETY: The skb is valid by the type invariant, and does not change while it is borrowed.
        let fields = unsafe { &*self.raw };
        // CAST: `u32` to `usize`, which has 64 bits.
        let linear = fields.len.wrapping_sub(fields.data_len) as usize;
        let mut at = self.base.checked_add(offset)?.checked_sub(linear)?;
        let (mut index, mut len) = (0, 0);
        // Terminates: an skb has few fragments.
        loop {
            // SAFETY: As above. C checks the index.
            let start = unsafe { bindings::ferroce_helper_skb_frag(self.raw, index, &mut len) };
            let start: *const u8 = start.cast();
            if start.is_null() {
                return None;
            }
            match (len as usize).checked_sub(at) {
                Some(left @ 1..) => return Some((start.wrapping_add(at), left)),
                _ => at = at.wrapping_sub(len as usize),
            }
            index = index.wrapping_add(1);
        }
    }

    /// Continues CRC-32 `crc` over `len` bytes at `offset` of the payload, or over as many as there are. See
    /// [`crc32_le`](crate::util::crc32::crc32_le).
    pub fn crc32(&self, offset: usize, len: usize, mut crc: u32) -> u32 {
        // CAST: Offsets within a packet are small.
        let bound = |at: usize| self.base.wrapping_add(at.min(self.len)) as u32;
        let (from, to) = (bound(offset), bound(offset.saturating_add(len)));
        let mut state: bindings::skb_seq_state = pin_init::zeroed();
        let mut piece = ptr::null();
        let mut done = 0;
        // SAFETY: `raw` is valid by the type invariant and does not change while it is borrowed. C
        // initialises `state`. Each piece is valid until the next call of `skb_seq_read`. The loop reads
        // until that returns 0, so C has released its mapping.
        unsafe {
            bindings::skb_prepare_seq_read(self.raw.cast_mut(), from, to, &mut state);
            loop {
                let len = bindings::skb_seq_read(done, &mut piece, &mut state);
                if len == 0 {
                    return crc;
                }
                // C does not limit the last piece to the requested range.
                let len = len.min(to.saturating_sub(from).saturating_sub(done));
                crc = bindings::crc32_le(crc, piece.cast(), len as usize);
                done = done.wrapping_add(len);
            }
        }
    }
}

impl RxSkb {
    /// Returns the packet set by [`RxSkb::resume_at`], initially the first.
    #[inline]
    pub fn current(&self) -> RxPacket<'_> {
        let mut packet = RxPacket::first(self);
        // Terminates: the index is below the number of packets.
        for _ in 0..self.rx_cb().next_packet {
            packet = packet.next().unwrap_or(packet);
        }
        packet
    }
}
