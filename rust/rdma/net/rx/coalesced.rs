// SPDX-License-Identifier: GPL-2.0

//! Consecutive packets of one received skb that are processed as one message part.
//!
//! Maps the concatenated payload to the packets. Offsets count from the first byte of the UDP payload of the
//! first packet, as if the payload of the others followed that of the first.

use crate::{
    bindings,
    mm::memory::Memory,
    net::rx::packet::RxPacket, //
};
use kernel::prelude::*;

/// One packet, or several consecutive ones.
#[derive(Clone, Copy)]
pub struct CoalescedPackets<'a> {
    first: RxPacket<'a>,
    last: RxPacket<'a>,
    packets: u16,
    /// UDP payload of all packets, in bytes.
    udp_payload_bytes: usize,
    layout: PayloadLayout,
}

/// How the payload is distributed over several packets.
#[derive(Clone, Copy)]
pub struct PayloadLayout {
    /// Offset of the payload in the first packet.
    pub start: usize,
    /// Offset of the payload in the other packets.
    pub skip: usize,
    /// Payload bytes of each packet but the last.
    pub per_packet: usize,
}

impl<'a> CoalescedPackets<'a> {
    /// Creates a sequence of one packet, or of those of a super-packet.
    #[inline]
    pub fn new(first: RxPacket<'a>) -> Self {
        let packets = match first.skb().is_super_packet() {
            true => first.skb().packets(),
            false => 1,
        };
        Self {
            first,
            last: first,
            packets,
            udp_payload_bytes: first.udp_payload_len(),
            // The first packet contains the whole payload.
            layout: PayloadLayout {
                start: 0,
                skip: 0,
                per_packet: usize::MAX,
            },
        }
    }

    /// Appends `next`, which must be the packet returned by [`CoalescedPackets::next`]. `layout` applies to
    /// all packets.
    #[inline]
    pub fn push(&mut self, next: RxPacket<'a>, layout: PayloadLayout) {
        self.udp_payload_bytes = self.udp_payload_bytes.wrapping_add(next.udp_payload_len());
        self.packets = self.packets.wrapping_add(1);
        self.last = next;
        self.layout = layout;
    }

    /// Returns the first packet.
    #[inline]
    pub fn first(&self) -> &RxPacket<'a> {
        &self.first
    }

    /// Returns the packet after the last one.
    #[inline]
    pub fn next(&self) -> Option<RxPacket<'a>> {
        self.last.next()
    }

    /// Returns the number of packets.
    #[inline]
    pub fn packets(&self) -> u16 {
        self.packets
    }

    /// Returns the UDP payload of all packets in bytes.
    #[inline]
    pub fn udp_payload_len(&self) -> usize {
        self.udp_payload_bytes
    }

    /// Copies `len` bytes at `offset` of the payload to offset `at` of `memory`.
    ///
    /// # Errors
    ///
    /// As [`Memory::write`]; also `EFAULT` if the packets end before.
    pub fn copy_to_memory(&self, offset: usize, memory: &Memory, at: u64, len: usize) -> Result {
        let mut from = self.cursor(offset);
        memory.for_each_piece(at, len, true, |to, len| {
            // SAFETY: `for_each_piece` passes a piece that is writable for `len` bytes until the closure
            // returns.
            unsafe { from.copy_raw(to, len) }
        })
    }

    /// Returns a cursor at `offset` of the payload.
    #[inline]
    fn cursor(&self, offset: usize) -> PayloadCursor<'a> {
        let mut cursor = PayloadCursor {
            packet: self.first,
            at: offset,
            left: self.layout.start.saturating_add(self.layout.per_packet),
            contiguous: None,
            layout: self.layout,
        };
        cursor.left = match cursor.left.checked_sub(offset) {
            Some(left) => left,
            None => cursor.skip_packets(offset.wrapping_sub(cursor.left)),
        };
        cursor
    }
}

/// A position in the payload of [`CoalescedPackets`].
///
/// # Invariants
///
/// `contiguous` is `None`, or bytes of `packet` from `at` on.
pub(crate) struct PayloadCursor<'a> {
    packet: RxPacket<'a>,
    /// Offset in the packet.
    at: usize,
    /// Payload bytes of the packet from `at` on.
    left: usize,
    contiguous: Option<(*const u8, usize)>,
    layout: PayloadLayout,
}

impl PayloadCursor<'_> {
    /// Advances to byte `offset` of the payload after this packet. Returns the payload bytes from there on in
    /// its packet.
    #[cold]
    fn skip_packets(&mut self, mut offset: usize) -> usize {
        // Terminates: an skb has 64 packets at most.
        while let Some(next) = self.packet.next() {
            self.packet = next;
            if let Some(left @ 1..) = self.layout.per_packet.checked_sub(offset) {
                self.at = self.layout.skip.wrapping_add(offset);
                return left;
            }
            offset = offset.wrapping_sub(self.layout.per_packet);
        }
        0
    }

    /// Copies the next `len` bytes to `to`.
    ///
    /// # Safety
    ///
    /// As for [`RxPacket::copy_raw`].
    ///
    /// # Errors
    ///
    /// `EFAULT`: the packets end before.
    #[inline]
    pub(crate) unsafe fn copy_raw(&mut self, mut to: *mut u8, mut len: usize) -> Result {
        // Terminates: each iteration but the first advances to the next packet.
        while len != 0 {
            if self.left == 0 {
                // INVARIANT: A super-packet has no next packet, so that nothing is contiguous.
                self.packet = self.packet.next().ok_or(EFAULT)?;
                (self.at, self.left) = (self.layout.skip, self.layout.per_packet);
            }
            // INVARIANT: The bytes are at `at`.
            let contiguous = self.contiguous.or_else(|| self.packet.contiguous(self.at));
            let part = len.min(self.left);
            let part = match contiguous {
                None => {
                    // SAFETY: By the function's contract `to` is writable for `len` bytes, and `part` is at most `len`.
                    unsafe { self.packet.copy_raw(self.at, to, part)? };
                    part
                }
                Some((from, available)) => {
                    let part = part.min(available);
                    // SAFETY: As above. By the type invariant the packet has `available` bytes at `from`. C copies,
                    // so a concurrent access by a process is no data race in Rust.
                    unsafe { bindings::ferroce_helper_memcpy(to.cast(), from.cast(), part) };
                    // INVARIANT: The rest follows.
                    let rest = (from.wrapping_add(part), available.wrapping_sub(part));
                    self.contiguous = Some(rest).filter(|(_, left)| *left != 0);
                    part
                }
            };
            to = to.wrapping_add(part);
            len = len.wrapping_sub(part);
            self.at = self.at.wrapping_add(part);
            self.left = self.left.wrapping_sub(part);
        }
        Ok(())
    }
}
