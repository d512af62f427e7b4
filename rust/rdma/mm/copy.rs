// SPDX-License-Identifier: GPL-2.0

//! Copies between two memories, for local peers.
//!
//! Either side may be on-demand memory. The lock of an [`HmmRange`](crate::mm::hmm_range) is held while its
//! pages are copied, and never two of them at once: readers of two ranges could deadlock by way of waiting
//! writers.
//!
//! For any context except hard interrupts.

use crate::bindings;
use crate::mm::{
    extents::PieceIter,
    memory::Memory, //
};
use kernel::prelude::*;

/// Why a copy failed or was incomplete.
#[derive(Debug)]
pub enum CopyError {
    /// The source cannot be read; errors as in [`Memory::read`].
    Source(Error),
    /// The target cannot be written; errors as in [`Memory::write`].
    Target(Error),
}

/// Bytes per step of a copy between two on-demand memories, on the stack.
const BOUNCE_BYTES: usize = 512;

/// One end of a copy.
struct CopyEnd<'a> {
    memory: &'a Memory,
    at: u64,
    write: bool,
}

impl CopyEnd<'_> {
    /// Returns the contiguous pieces of `len` bytes. Not for on-demand memory.
    #[inline]
    fn pieces(&self, len: usize) -> Result<PieceIter<'_>> {
        self.memory.pinned_pieces(self.at, len, self.write)
    }
}

impl Memory {
    /// Copies `len` bytes at `source_offset` of `source` to `offset`. The ranges may overlap.
    ///
    /// # Errors
    ///
    /// Reports which side failed; some bytes may have been copied.
    #[inline]
    pub fn copy_from(
        &self,
        offset: u64,
        (source, source_offset): (&Self, u64),
        len: usize,
    ) -> Result<(), CopyError> {
        let to = CopyEnd {
            memory: self,
            at: offset,
            write: true,
        };
        let from = CopyEnd {
            memory: source,
            at: source_offset,
            write: false,
        };
        match (self, source) {
            (Self::OnDemand(_), Self::OnDemand(_)) => bounce(&to, &from, len),
            (_, Self::OnDemand(_)) => {
                // SAFETY: `for_each_pair` passes pieces of `len` bytes that stay present until the closure
                // returns: `from` for reading, and `to`, whose end has `write` set, for writing.
                let copied = for_each_pair(&from, &to, len, |from, to, len| unsafe {
                    copy(to, from, len)
                });
                copied.map_err(|error| match error {
                    PairError::Outer(error) => CopyError::Source(error),
                    PairError::Inner(error) => CopyError::Target(error),
                })
            }
            (Self::OnDemand(_), _) => {
                // SAFETY: `for_each_pair` passes pieces of `len` bytes that stay present until the closure
                // returns: `from` for reading, and `to`, whose end has `write` set, for writing.
                let copied = for_each_pair(&to, &from, len, |to, from, len| unsafe {
                    copy(to, from, len);
                });
                copied.map_err(|error| match error {
                    PairError::Outer(error) => CopyError::Target(error),
                    PairError::Inner(error) => CopyError::Source(error),
                })
            }
            _ => {
                let to = to.pieces(len).map_err(CopyError::Target)?;
                let from = from.pieces(len).map_err(CopyError::Source)?;
                match (to.whole(), from.whole()) {
                    // SAFETY: Both are as long as the range. Pinned pieces stay valid while their memory is borrowed,
                    // and `to` was requested for writing.
                    (Some(to), Some(from)) => unsafe { copy(to, from, len) },
                    _ => copy_pieces(to, from),
                }
                Ok(())
            }
        }
    }
}

/// Copies the pieces of `from` to those of `to`. Both have the same total length.
fn copy_pieces(mut to: PieceIter<'_>, mut from: PieceIter<'_>) {
    let (mut target, mut source) = (to.next(), from.next());
    while let (Some((write, room)), Some((read, left))) = (target, source) {
        let len = room.min(left);
        // SAFETY: `len` is at most the length of either piece. Pinned pieces stay valid while their memory is
        // borrowed, and `to` was requested for writing.
        unsafe { copy(write, read, len) };
        let rest = |(start, piece): (*mut u8, usize)| {
            let rest = piece.wrapping_sub(len);
            (rest != 0).then(|| (start.wrapping_add(len), rest))
        };
        target = rest((write, room)).or_else(|| to.next());
        source = rest((read, left)).or_else(|| from.next());
    }
}

/// Which end of a pair could not be accessed, and why.
enum PairError {
    Outer(Error),
    Inner(Error),
}

/// Calls `f` with contiguous pieces of the `len` bytes of both ends: outer pointer, inner pointer, length.
/// Both pieces are present until `f` returns, and writable if their end has `write` set.
#[inline]
fn for_each_pair(
    outer: &CopyEnd<'_>,
    inner: &CopyEnd<'_>,
    len: usize,
    mut f: impl FnMut(*mut u8, *mut u8, usize),
) -> Result<(), PairError> {
    let mut at = inner.at;
    let mut inner_error = None;
    outer
        .memory
        .for_each_piece(outer.at, len, outer.write, |first, len| {
            let mut first = first;
            let walked = inner
                .memory
                .for_each_piece(at, len, inner.write, |second, len| {
                    f(first, second, len);
                    first = first.wrapping_add(len);
                    Ok(())
                });
            at = at.wrapping_add(len as u64);
            walked.inspect_err(|&error| inner_error = Some(error))
        })
        .map_err(|error| inner_error.map_or(PairError::Outer(error), PairError::Inner))
}

/// Copies by way of a buffer on the stack, so that only one side is locked at a time.
fn bounce(to: &CopyEnd<'_>, from: &CopyEnd<'_>, len: usize) -> Result<(), CopyError> {
    let mut buffer = [0; BOUNCE_BYTES];
    let mut done = 0;
    while done < len {
        let part = len.wrapping_sub(done).min(BOUNCE_BYTES);
        let bytes = buffer.get_mut(..part).unwrap_or_default();
        let place = |end: &CopyEnd<'_>| end.at.wrapping_add(done as u64);
        from.memory
            .read(place(from), bytes)
            .map_err(CopyError::Source)?;
        to.memory
            .write(place(to), bytes)
            .map_err(CopyError::Target)?;
        done = done.wrapping_add(part);
    }
    Ok(())
}

/// Copies `len` bytes, which may overlap.
///
/// # Safety
///
/// `from` must be valid for reads of `len` bytes, and `to` for writes. Other code or a process may access the
/// bytes concurrently; then their values are unspecified.
#[inline]
unsafe fn copy(to: *mut u8, from: *mut u8, len: usize) {
    let disjoint = to.addr().abs_diff(from.addr()) >= len;
    // SAFETY: The caller guarantees both ranges, and `memcpy` is called only if they do not overlap. C
    // copies, so a concurrent write by a process is no data race in Rust.
    unsafe {
        if disjoint {
            bindings::ferroce_helper_memcpy(to.cast(), from.cast_const().cast(), len);
        } else {
            bindings::ferroce_helper_memmove(to.cast(), from.cast_const().cast(), len);
        }
    }
}
