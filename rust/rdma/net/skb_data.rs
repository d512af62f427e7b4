// SPDX-License-Identifier: GPL-2.0

//! The data of an skb, wherever it is: in the linear part, in pages, or in skbs on the frag_list. Offsets count from
//! its `data`.

use crate::bindings;
use core::{
    ops::Range,
    ptr,
    slice, //
};

/// Bytes of an skb that are contiguous in memory.
///
/// # Invariants
///
/// `start` points to `len` initialised bytes of an skb, as long as that exists and does not change.
#[derive(Clone, Copy)]
pub(in crate::net) struct Contiguous {
    start: *const u8,
    len: usize,
}

impl Contiguous {
    /// No bytes.
    pub(in crate::net) const NONE: Self = Self {
        start: ptr::null(),
        len: 0,
    };

    /// Returns the bytes of `skb` from offset `at` on. None if there are no more, or only C finds them.
    ///
    /// # Safety
    ///
    /// `skb` must be valid.
    #[inline]
    pub(in crate::net) unsafe fn find(skb: *const bindings::sk_buff, at: usize) -> Self {
        // SAFETY: The skb is valid by the function's contract.
        let fields = unsafe { &*skb };
        // CAST: `u32` to `usize`, which has 64 bits.
        let linear = fields.len.wrapping_sub(fields.data_len) as usize;
        match linear.checked_sub(at) {
            // INVARIANT: The linear part contains the bytes.
            Some(len @ 1..) => Self {
                start: fields.data.cast_const().wrapping_add(at),
                len,
            },
            // SAFETY: By the function's contract.
            _ => unsafe { Self::in_pages(skb, at.wrapping_sub(linear)) },
        }
    }

    /// As [`Contiguous::find`], `at` bytes behind the linear part.
    ///
    /// # Safety
    ///
    /// `skb` must be valid.
    unsafe fn in_pages(skb: *const bindings::sk_buff, mut at: usize) -> Self {
        let (mut index, mut len) = (0, 0);
        // Terminates: an skb has few fragments.
        loop {
            // SAFETY: The skb is valid by the function's contract. C checks the index.
            let start = unsafe { bindings::ferroce_helper_skb_frag(skb, index, &mut len) };
            let start: *const u8 = start.cast();
            if start.is_null() {
                return Self::NONE;
            }
            // CAST: `u32` to `usize`, which has 64 bits.
            match (len as usize).checked_sub(at) {
                // INVARIANT: The fragment contains the bytes.
                Some(len @ 1..) => {
                    return Self {
                        start: start.wrapping_add(at),
                        len,
                    }
                }
                _ => at = at.wrapping_sub(len as usize),
            }
            index = index.wrapping_add(1);
        }
    }

    /// Returns the bytes behind the first `count`.
    #[inline]
    pub(in crate::net) fn skip(self, count: usize) -> Self {
        match self.len.checked_sub(count) {
            // INVARIANT: They are some of the same bytes.
            Some(len @ 1..) => Self {
                start: self.start.wrapping_add(count),
                len,
            },
            _ => Self::NONE,
        }
    }

    /// Returns where the bytes are, and how many.
    #[inline]
    pub(in crate::net) fn as_raw(self) -> (*const u8, usize) {
        (self.start, self.len)
    }

    /// Returns the first `len` bytes; `None` if there are fewer.
    ///
    /// # Safety
    ///
    /// The skb must exist, and nothing may change the bytes, while the result is used.
    #[inline]
    pub(in crate::net) unsafe fn bytes<'a>(self, len: usize) -> Option<&'a [u8]> {
        // SAFETY: By the type invariant and the function's contract. There are as many.
        (len <= self.len && len != 0).then(|| unsafe { slice::from_raw_parts(self.start, len) })
    }
}

/// Returns CRC-32 `crc` continued over the bytes in `range` of the data of `skb`, or over as many as there are. See
/// [`crc32_le`](crate::util::crc32::crc32_le).
///
/// # Safety
///
/// `skb` must be valid, and must not change meanwhile.
pub(in crate::net) unsafe fn crc32(
    skb: *const bindings::sk_buff,
    range: Range<usize>,
    mut crc: u32,
) -> u32 {
    // CAST: Offsets in an skb are small.
    let (from, to) = (range.start as u32, range.end as u32);
    let mut state: bindings::skb_seq_state = pin_init::zeroed();
    let mut piece = ptr::null();
    let mut done = 0;
    // SAFETY: The skb is valid and does not change, by the function's contract. C initialises `state`. Each piece is
    // valid until the next call of `skb_seq_read`. The loop reads until that returns 0, so C has released its mapping.
    unsafe {
        bindings::skb_prepare_seq_read(skb.cast_mut(), from, to, &mut state);
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
