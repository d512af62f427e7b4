// SPDX-License-Identifier: GPL-2.0

//! The entries of a super-packet: where each begins, and how large it is.
//!
//! Each entry is followed by a record with the size of the next one; after the last entry is the record of the first.
//! So the UDP payload begins with the headers of a packet, as that of any other packet, and an entry can be added
//! without a change of what was written.

use crate::{
    bindings,
    net::{
        skb_data::Contiguous,
        super_packet::format::{
            EntrySize,
            MAX_PACKETS, //
        }, //
    }, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Length of a record in bytes.
pub(in crate::net) const RECORD_LEN: usize = 4;

/// An entry, and where it begins in the data of the skb.
#[derive(Clone, Copy)]
pub(in crate::net) struct Entry {
    pub(in crate::net) start: usize,
    pub(in crate::net) size: EntrySize,
    /// The bytes from `start` on.
    pub(in crate::net) bytes: Contiguous,
}

impl EntrySize {
    /// Returns the record of an entry of this size.
    #[inline]
    pub(in crate::net) fn record(self) -> [u8; RECORD_LEN] {
        let ([l0, l1], [p0, p1]) = (self.len.to_be_bytes(), self.packets.to_be_bytes());
        [l0, l1, p0, p1]
    }

    #[inline]
    fn of_record([l0, l1, p0, p1]: [u8; RECORD_LEN]) -> Self {
        Self {
            len: u16::from_be_bytes([l0, l1]),
            packets: u16::from_be_bytes([p0, p1]),
        }
    }
}

impl Entry {
    /// Returns the first entry of the super-packet `skb`, whose UDP payload begins at `start` in its data. `None` if it
    /// is malformed.
    ///
    /// # Safety
    ///
    /// `skb` must be valid, and must not change while the entry is used.
    pub(in crate::net) unsafe fn first(
        skb: *const bindings::sk_buff,
        start: usize,
    ) -> Option<Self> {
        // SAFETY: The skb is valid by the function's contract.
        unsafe {
            let size = EntrySize::of_record(read_record(skb, end(skb)?)?);
            Self::new(skb, start, size, Contiguous::NONE)
        }
    }

    /// Returns the entry after this one; `None` after the last one.
    ///
    /// # Errors
    ///
    /// `EINVAL`: what follows is malformed.
    ///
    /// # Safety
    ///
    /// `skb` must be that of this entry, valid, and must not change while the entry is used.
    #[inline]
    pub(in crate::net) unsafe fn next(
        &self,
        skb: *const bindings::sk_buff,
    ) -> Result<Option<Self>> {
        let at = self.start.wrapping_add(self.size.len.into());
        // SAFETY: The skb is valid and does not change, by the function's contract.
        unsafe {
            // An entry does not end behind the last record.
            if end(skb) == Some(at) {
                return Ok(None);
            }
            self.follow(skb, at).map(Some).ok_or(EINVAL)
        }
    }

    /// Returns the entry whose record, behind this one, is at `at`. `None` if it is malformed.
    ///
    /// # Safety
    ///
    /// As for [`Entry::next`].
    #[inline]
    unsafe fn follow(&self, skb: *const bindings::sk_buff, at: usize) -> Option<Self> {
        let rest = self.bytes.skip(self.size.len.into());
        // SAFETY: The skb is valid and does not change, by the function's contract.
        unsafe {
            let record = rest.bytes(RECORD_LEN).and_then(|bytes| bytes.first_chunk());
            let record = match record {
                Some(record) => *record,
                None => read_record(skb, at)?,
            };
            let start = at.checked_add(RECORD_LEN)?;
            Self::new(
                skb,
                start,
                EntrySize::of_record(record),
                rest.skip(RECORD_LEN),
            )
        }
    }

    /// Returns the entry of this size at `start`, where `bytes` are, if they are known. `None` if the entry is empty,
    /// ends behind the records, or has no possible number of packets.
    ///
    /// # Safety
    ///
    /// `skb` must be valid.
    #[inline]
    unsafe fn new(
        skb: *const bindings::sk_buff,
        start: usize,
        size: EntrySize,
        bytes: Contiguous,
    ) -> Option<Self> {
        // SAFETY: The skb is valid by the function's contract.
        let end = unsafe { end(skb)? };
        let is_counted = (1..=MAX_PACKETS).contains(&size.packets);
        if size.len == 0 || !is_counted || start.checked_add(size.len.into())? > end {
            return None;
        }
        let bytes = match bytes.as_raw() {
            // SAFETY: As above.
            (_, 0) => unsafe { Contiguous::find(skb, start) },
            _ => bytes,
        };
        Some(Self { start, size, bytes })
    }
}

/// Reads the record at `at`.
///
/// # Safety
///
/// `skb` must be valid.
unsafe fn read_record(skb: *const bindings::sk_buff, at: usize) -> Option<[u8; RECORD_LEN]> {
    let mut record = [0; RECORD_LEN];
    // CAST: Offsets in an skb are small.
    let (at, len) = (at as c_int, RECORD_LEN as c_int);
    // SAFETY: The skb is valid by the function's contract. C checks the range, and `record` has that length.
    let read = unsafe { bindings::skb_copy_bits(skb, at, record.as_mut_ptr().cast(), len) };
    to_result(read).ok().map(|()| record)
}

/// Returns where the last record begins.
///
/// # Safety
///
/// `skb` must be valid.
#[inline]
unsafe fn end(skb: *const bindings::sk_buff) -> Option<usize> {
    // SAFETY: By the function's contract. CAST: `u32` to `usize`, which has 64 bits.
    unsafe { (*skb).len as usize }.checked_sub(RECORD_LEN)
}
