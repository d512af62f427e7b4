// SPDX-License-Identifier: GPL-2.0

//! Packets of one received buffer that are taken together, as one.
//!
//! Owns where the bytes of their payload are. Does not know what they are, nor why they belong together.
//!
//! Offsets count from the first byte of the UDP payload of the first packet, as if the payload of the others
//! followed that of the first.

use crate::{
    mm::memory::Memory,
    net::rx::packet::RxPacket, //
};
use kernel::prelude::*;

/// One packet, or several that follow each other.
#[derive(Clone, Copy)]
pub struct CoalescedPackets<'a> {
    first: RxPacket<'a>,
    last: RxPacket<'a>,
    packets: u16,
    /// UDP payload of all packets.
    bytes: usize,
    cut: PayloadLayout,
}

/// How the payload is cut, if there are several packets.
#[derive(Clone, Copy)]
pub struct PayloadLayout {
    /// Where it begins in the first packet.
    pub start: usize,
    /// Where it begins in the others.
    pub skip: usize,
    /// How much of it is in each but the last.
    pub each: usize,
}

impl<'a> CoalescedPackets<'a> {
    /// One packet.
    #[inline]
    pub fn new(first: RxPacket<'a>) -> Self {
        Self {
            first,
            last: first,
            packets: 1,
            bytes: first.udp_payload_len(),
            // All of it is in the first.
            cut: PayloadLayout {
                start: 0,
                skip: 0,
                each: usize::MAX,
            },
        }
    }

    /// Appends the packet after the last, which is [`CoalescedPackets::next`]. The payload of all is cut like this.
    #[inline]
    pub fn push(&mut self, next: RxPacket<'a>, cut: PayloadLayout) {
        self.bytes = self.bytes.wrapping_add(next.udp_payload_len());
        self.packets = self.packets.wrapping_add(1);
        self.last = next;
        self.cut = cut;
    }

    /// The first packet.
    #[inline]
    pub fn first(&self) -> &RxPacket<'a> {
        &self.first
    }

    /// The packet after the last.
    #[inline]
    pub fn next(&self) -> Option<RxPacket<'a>> {
        self.last.next()
    }

    /// Number of packets.
    #[inline]
    pub fn packets(&self) -> u16 {
        self.packets
    }

    /// Bytes of UDP payload of all packets.
    #[inline]
    pub fn udp_payload_len(&self) -> usize {
        self.bytes
    }

    /// Copies `len` bytes at `offset` of the payload to byte `at` of `memory`.
    ///
    /// # Errors
    ///
    /// As [`Memory::write`]; `EFAULT` as well if the packets end before.
    pub fn copy_to_memory(&self, offset: usize, memory: &Memory, at: u64, len: usize) -> Result {
        let mut from = self.cursor(offset);
        memory.for_each_piece(at, len, true, |to, len| {
            // SAFETY: The piece is there and may be written, until the closure returns.
            unsafe { from.copy_raw(to, len) }
        })
    }

    /// Where the bytes at `offset` are.
    #[inline]
    fn cursor(&self, offset: usize) -> PayloadCursor<'a> {
        let mut cursor = PayloadCursor {
            packet: self.first,
            at: offset,
            left: self.cut.start.saturating_add(self.cut.each),
            cut: self.cut,
        };
        cursor.left = match cursor.left.checked_sub(offset) {
            Some(left) => left,
            None => cursor.pass(offset.wrapping_sub(cursor.left)),
        };
        cursor
    }
}

/// A place in a run.
pub(crate) struct PayloadCursor<'a> {
    packet: RxPacket<'a>,
    /// Where in the packet.
    at: usize,
    /// Bytes from there on that are the run's.
    left: usize,
    cut: PayloadLayout,
}

impl PayloadCursor<'_> {
    /// Goes to byte `offset` of the packets after this one. Returns how many there are in its packet.
    #[cold]
    fn pass(&mut self, mut offset: usize) -> usize {
        // Ends: a buffer has 64 packets at most.
        while let Some(next) = self.packet.next() {
            self.packet = next;
            if let Some(left @ 1..) = self.cut.each.checked_sub(offset) {
                self.at = self.cut.skip.wrapping_add(offset);
                return left;
            }
            offset = offset.wrapping_sub(self.cut.each);
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
    /// `EFAULT`: there are not so many.
    #[inline]
    pub(crate) unsafe fn copy_raw(&mut self, mut to: *mut u8, mut len: usize) -> Result {
        // Ends: each round but the first goes to the next packet.
        while len != 0 {
            if self.left == 0 {
                self.packet = self.packet.next().ok_or(EFAULT)?;
                (self.at, self.left) = (self.cut.skip, self.cut.each);
            }
            let part = len.min(self.left);
            // SAFETY: As the function requires, for the first `part` bytes.
            unsafe { self.packet.copy_raw(self.at, to, part)? };
            to = to.wrapping_add(part);
            len = len.wrapping_sub(part);
            self.at = self.at.wrapping_add(part);
            self.left = self.left.wrapping_sub(part);
        }
        Ok(())
    }
}
