// SPDX-License-Identifier: GPL-2.0

//! One packet of a received skb: the skb itself, or an entry of a super-packet, which counts as one packet.
//!
//! The packet may be in several fragments and is not linearised. Its bytes are copied out, or checksummed in
//! place. Offsets count from the first byte of the UDP payload, or of the entry.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use crate::{
    bindings,
    mm::memory::Memory,
    net::{
        rx::skb::{
            RxSkb,
            UDP_LEN, //
        },
        skb_data::{
            self,
            Contiguous, //
        },
        super_packet::{
            entry::Entry,
            format::EntrySize, //
        }, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// One packet of a received skb.
///
/// # Invariants
///
/// From offset `entry.start` on, the data of `skb` contains at least `len` bytes of UDP payload. `entry.bytes` are the
/// first of them, or none.
#[derive(Clone, Copy)]
pub struct RxPacket<'a> {
    skb: &'a RxSkb,
    /// The packet, as if it were an entry of a super-packet. Its length is that of an entry only in a super-packet.
    entry: Entry,
    len: usize,
    index: u16,
}

impl<'a> RxPacket<'a> {
    /// Returns the first packet of `skb`. That of a malformed super-packet is empty, see [`RxPacket::malformed`].
    #[inline]
    pub(super) fn first(skb: &'a RxSkb) -> Self {
        if skb.is_super_packet() {
            // SAFETY: The skb is valid by the invariant of `RxSkb`, which says that its data begins with the UDP
            // header, and does not change while it is borrowed.
            if let Some(entry) = unsafe { Entry::first(skb.as_raw(), UDP_LEN) } {
                return Self::of_entry(skb, entry, 0);
            }
            return Self::malformed(skb, 0, skb.packets());
        }
        let entry = Entry {
            start: UDP_LEN,
            size: EntrySize { len: 0, packets: 1 },
            // SAFETY: As above.
            bytes: unsafe { Contiguous::find(skb.as_raw(), UDP_LEN) },
        };
        // INVARIANT: The packet follows the UDP header.
        Self {
            skb,
            entry,
            len: skb.udp_payload_len(),
            index: 0,
        }
    }

    /// Returns an empty packet, which no engine accepts. It stands for `packets` packets of a malformed super-packet,
    /// so that their drop is counted.
    #[cold]
    fn malformed(skb: &'a RxSkb, index: u16, packets: u16) -> Self {
        // INVARIANT: It has no bytes.
        Self {
            skb,
            entry: Entry {
                start: UDP_LEN,
                size: EntrySize { len: 0, packets },
                bytes: Contiguous::NONE,
            },
            len: 0,
            index,
        }
    }

    /// Returns the packet after this one. The last one of a malformed super-packet is empty, and stands for all packets
    /// that are not in an entry.
    #[inline]
    pub fn next(&self) -> Option<Self> {
        if !self.skb.is_super_packet() || self.len == 0 {
            return None;
        }
        let index = self.index.wrapping_add(1);
        // SAFETY: The skb is valid by the invariant of `RxSkb`, and the entry is one of it. It does not change while it
        // is borrowed.
        match unsafe { self.entry.next(self.skb.as_raw()) } {
            Ok(next) => Some(Self::of_entry(self.skb, next?, index)),
            Err(_) => Some(Self::malformed(self.skb, index, self.packets_behind())),
        }
    }

    /// Returns the number of packets of the skb that are in no entry up to this one, at least 1.
    #[cold]
    fn packets_behind(&self) -> u16 {
        let mut packet = Self::first(self.skb);
        let mut known = packet.packets();
        // Terminates: the index is below the number of packets.
        for _ in 0..self.index {
            packet = packet.next().unwrap_or(packet);
            known = known.saturating_add(packet.packets());
        }
        self.skb.packets().saturating_sub(known).max(1)
    }

    #[inline]
    fn of_entry(skb: &'a RxSkb, entry: Entry, index: u16) -> Self {
        // INVARIANT: The entry ends before the last record does.
        Self {
            skb,
            entry,
            len: entry.size.len.into(),
            index,
        }
    }

    /// Returns the number of packets of the entry of a super-packet; 1 for another packet.
    #[inline]
    pub fn packets(&self) -> u16 {
        self.entry.size.packets
    }

    /// Returns the number of packets from this one on.
    pub fn packets_left(&self) -> u16 {
        core::iter::successors(Some(*self), Self::next)
            .fold(0, |packets, next| next.packets().saturating_add(packets))
    }

    /// Returns the skb that contains the packet.
    #[inline]
    pub fn skb(&self) -> &'a RxSkb {
        self.skb
    }

    /// Returns the index of the packet, or entry, in its skb, from 0.
    #[inline]
    pub fn index(&self) -> u16 {
        self.index
    }

    /// Returns the length of the UDP payload in bytes.
    #[inline]
    pub fn udp_payload_len(&self) -> usize {
        self.len
    }

    /// Returns the first bytes of the payload, at most as many as `buffer` has: in place if they are contiguous and
    /// cannot change, otherwise copied to `buffer`.
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
        // SAFETY: The skb is valid by the invariant of `RxSkb`, and does not change while it is borrowed.
        let fields = unsafe { &*self.skb.as_raw() };
        // CAST: `u32` to `usize`, which has 64 bits.
        let linear = fields.len.wrapping_sub(fields.data_len) as usize;
        let is_linear = linear >= self.entry.start.wrapping_add(len);
        if is_linear || self.skb.is_super_packet() {
            // SAFETY: They do not change: they are in the linear part of a borrowed skb, or in pages of a super-packet,
            // which no process can write to, and nothing else does while the skb is owned.
            if let Some(bytes) = unsafe { self.entry.bytes.bytes(len) } {
                return Ok(bytes);
            }
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
        let (offset, len) = (self.entry.start.wrapping_add(offset) as c_int, len as c_int);
        // SAFETY: the skb is valid by the invariant of `RxSkb`, and the caller guarantees `to`. C checks the range
        // against the skb.
        to_result(unsafe { bindings::skb_copy_bits(self.skb.as_raw(), offset, to.cast(), len) })
    }

    /// Copies `len` bytes at `offset` of the payload to offset `at` of `memory`.
    ///
    /// # Errors
    ///
    /// As [`Memory::write`]; also `EFAULT` if the packet ends before.
    #[inline]
    pub fn copy_to_memory(&self, offset: usize, memory: &Memory, at: u64, len: usize) -> Result {
        let mut from = Cursor {
            packet: self,
            at: offset,
            contiguous: self.entry.bytes.skip(offset),
        };
        memory.for_each_piece(at, len, true, |to, len| {
            // SAFETY: `for_each_piece` passes a piece that is writable for `len` bytes until the closure returns.
            unsafe { from.copy_raw(to, len) }
        })
    }

    /// Continues CRC-32 `crc` over `len` bytes at `offset` of the payload, or over as many as there are. See
    /// [`crc32_le`](crate::util::crc32::crc32_le).
    pub fn crc32(&self, offset: usize, len: usize, crc: u32) -> u32 {
        let bound = |at: usize| self.entry.start.wrapping_add(at.min(self.len));
        let range = bound(offset)..bound(offset.saturating_add(len));
        // SAFETY: the skb is valid by the invariant of `RxSkb` and does not change while it is borrowed.
        unsafe { skb_data::crc32(self.skb.as_raw(), range, crc) }
    }
}

/// A position in the payload of a packet.
///
/// # Invariants
///
/// `contiguous` are bytes of `packet` from `at` on, or none.
struct Cursor<'a, 'b> {
    packet: &'b RxPacket<'a>,
    at: usize,
    contiguous: Contiguous,
}

impl Cursor<'_, '_> {
    /// Copies the next `len` bytes to `to`.
    ///
    /// # Safety
    ///
    /// As for [`RxPacket::copy_raw`].
    ///
    /// # Errors
    ///
    /// `EFAULT`: the packet ends before.
    #[inline]
    unsafe fn copy_raw(&mut self, mut to: *mut u8, mut len: usize) -> Result {
        let end = self.at.checked_add(len);
        if end.is_none_or(|end| end > self.packet.len) {
            return Err(EFAULT);
        }
        // Terminates: each iteration copies some bytes.
        while len != 0 {
            if let (_, 0) = self.contiguous.as_raw() {
                let at = self.packet.entry.start.wrapping_add(self.at);
                // SAFETY: The skb is valid by the invariant of `RxSkb`.
                self.contiguous = unsafe { Contiguous::find(self.packet.skb.as_raw(), at) };
            }
            let (from, available) = self.contiguous.as_raw();
            if available == 0 {
                // SAFETY: By the function's contract `to` is writable for `len` bytes.
                unsafe { self.packet.copy_raw(self.at, to, len)? };
                self.at = self.at.wrapping_add(len);
                break;
            }
            let part = len.min(available);
            // SAFETY: As above. By the type invariant the packet has `available` bytes at `from`. C copies, so a
            // concurrent access by a process is no data race in Rust.
            unsafe { bindings::ferroce_helper_memcpy(to.cast(), from.cast(), part) };
            // INVARIANT: The rest follows.
            self.contiguous = self.contiguous.skip(part);
            self.at = self.at.wrapping_add(part);
            to = to.wrapping_add(part);
            len = len.wrapping_sub(part);
        }
        Ok(())
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
