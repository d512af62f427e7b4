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
use core::cell::Cell;
use kernel::prelude::*;

/// Bytes per step of a copy between two on-demand memories, on the stack.
const BOUNCE_BYTES: usize = 512;

/// The source of a copy. It records why it could not be read.
pub struct CopySource<'a> {
    memory: &'a Memory,
    offset: u64,
    failure: Cell<Option<Error>>,
}

impl<'a> CopySource<'a> {
    /// Returns the bytes from `offset` of `memory` on.
    #[inline]
    pub fn new(memory: &'a Memory, offset: u64) -> Self {
        Self {
            memory,
            offset,
            failure: Cell::new(None),
        }
    }

    /// Returns the error, as in [`Memory::read`], if the source is why a copy has failed.
    pub fn failure(&self) -> Option<Error> {
        self.failure.get()
    }
}

/// One end of a copy.
struct CopyEnd<'a> {
    memory: &'a Memory,
    at: u64,
    /// Where a source records its failure. `None`: this is the target, and is written.
    failure: Option<&'a Cell<Option<Error>>>,
}

impl CopyEnd<'_> {
    /// Returns whether this end is written.
    #[inline]
    fn is_target(&self) -> bool {
        self.failure.is_none()
    }

    /// Records that this end could not be accessed, if it is the source. Returns `error`.
    #[cold]
    fn fail(&self, error: Error) -> Error {
        if let Some(failure) = self.failure {
            failure.set(Some(error));
        }
        error
    }

    /// Returns the contiguous pieces of `len` bytes. Not for on-demand memory.
    #[inline]
    fn pieces(&self, len: usize) -> Result<PieceIter<'_>> {
        let pieces = self.memory.pinned_pieces(self.at, len, self.is_target());
        pieces.map_err(|error| self.fail(error))
    }
}

impl Memory {
    /// Copies `len` bytes of `source` to `offset`. The ranges may overlap.
    ///
    /// # Errors
    ///
    /// As in [`Memory::write`], unless [`CopySource::failure`] returns why the source failed. Some bytes may have been
    /// copied.
    #[inline]
    pub fn copy_from(&self, offset: u64, source: &CopySource<'_>, len: usize) -> Result {
        let to = self.one_piece(offset, len, true);
        let from = source.memory.one_piece(source.offset, len, false);
        match (to, from) {
            // SAFETY: Both are as long as the range. Pinned pieces stay valid while their memory is borrowed,
            // and `to` was requested for writing.
            (Some(to), Some(from)) => unsafe { copy(to, from, len) },
            _ => return self.copy_pieces_from(offset, source, len),
        }
        Ok(())
    }

    /// Like [`copy_from`](Self::copy_from), for memory of any kind.
    fn copy_pieces_from(&self, offset: u64, source: &CopySource<'_>, len: usize) -> Result {
        let to = CopyEnd {
            memory: self,
            at: offset,
            failure: None,
        };
        let from = CopyEnd {
            memory: source.memory,
            at: source.offset,
            failure: Some(&source.failure),
        };
        match (self, source.memory) {
            (Self::OnDemand(_), Self::OnDemand(_)) => bounce(&to, &from, len),
            // SAFETY: `for_each_pair` passes pieces of `len` bytes that stay present until the closure returns: `from`
            // for reading, and `to`, which is the target, for writing.
            (_, Self::OnDemand(_)) => for_each_pair(&from, &to, len, |from, to, len| unsafe {
                copy(to, from, len);
            }),
            // SAFETY: As above.
            (Self::OnDemand(_), _) => for_each_pair(&to, &from, len, |to, from, len| unsafe {
                copy(to, from, len);
            }),
            _ => {
                copy_pieces(to.pieces(len)?, from.pieces(len)?);
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

/// Calls `f` with contiguous pieces of the `len` bytes of both ends: outer pointer, inner pointer, length.
/// Both pieces are present until `f` returns, and writable if their end is the target.
///
/// # Errors
///
/// That of the end which failed, which has recorded it.
#[inline]
fn for_each_pair(
    outer: &CopyEnd<'_>,
    inner: &CopyEnd<'_>,
    len: usize,
    mut f: impl FnMut(*mut u8, *mut u8, usize),
) -> Result {
    let (outer_writes, inner_writes) = (outer.is_target(), inner.is_target());
    let mut at = inner.at;
    let mut inner_failed = false;
    let walked = outer
        .memory
        .for_each_piece(outer.at, len, outer_writes, |first, len| {
            let mut first = first;
            let walked = inner
                .memory
                .for_each_piece(at, len, inner_writes, |second, len| {
                    f(first, second, len);
                    first = first.wrapping_add(len);
                    Ok(())
                });
            at = at.wrapping_add(len as u64);
            walked.map_err(|error| {
                inner_failed = true;
                inner.fail(error)
            })
        });
    walked.map_err(|error| match inner_failed {
        true => error,
        false => outer.fail(error),
    })
}

/// Copies by way of a buffer on the stack, so that only one side is locked at a time.
fn bounce(to: &CopyEnd<'_>, from: &CopyEnd<'_>, len: usize) -> Result {
    let mut buffer = [0; BOUNCE_BYTES];
    let mut done = 0;
    while done < len {
        let part = len.wrapping_sub(done).min(BOUNCE_BYTES);
        let bytes = buffer.get_mut(..part).unwrap_or_default();
        let place = |end: &CopyEnd<'_>| end.at.wrapping_add(done as u64);
        let read = from.memory.read(place(from), bytes);
        read.map_err(|error| from.fail(error))?;
        to.memory.write(place(to), bytes)?;
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
