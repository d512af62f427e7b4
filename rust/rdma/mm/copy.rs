// SPDX-License-Identifier: GPL-2.0

//! Copies from memory to memory.
//!
//! Owns the walk over two memories at a time. Either may be on demand, and what is locked while its pages
//! are used is never locked twice: readers of two chunks could wait for each other by way of writers.

use crate::bindings;
use crate::mm::{
    extents::Pieces,
    memory::Memory, //
};
use kernel::prelude::*;

/// Why bytes were not copied, or not all of them.
#[derive(Debug)]
pub enum CopyError {
    /// The memory they are in cannot be read; errors as of [`Memory::read`].
    Source(Error),
    /// The memory they are for cannot be written; errors as of [`Memory::write`].
    Target(Error),
}

/// Bytes that are copied at a time from memory on demand to memory on demand.
const BOUNCE: usize = 512;

/// One end of a copy.
struct End<'a> {
    memory: &'a Memory,
    at: u64,
    write: bool,
}

impl End<'_> {
    /// Its pieces, if it stays where it is.
    fn pieces(&self, len: usize) -> Result<Pieces<'_>> {
        self.memory.pieces(self.at, len, self.write)
    }
}

impl Memory {
    /// Copies `len` bytes at `source_offset` of `source` to `offset`. They may overlap. For any context
    /// but hard interrupts.
    ///
    /// # Errors
    ///
    /// Which of the two could not be accessed; some bytes may have been copied.
    #[inline]
    pub fn copy_from(
        &self,
        offset: u64,
        (source, source_offset): (&Self, u64),
        len: usize,
    ) -> Result<(), CopyError> {
        let to = End {
            memory: self,
            at: offset,
            write: true,
        };
        let from = End {
            memory: source,
            at: source_offset,
            write: false,
        };
        match (self, source) {
            (Self::OnDemand(_), Self::OnDemand(_)) => bounce(&to, &from, len),
            (_, Self::OnDemand(_)) => {
                // SAFETY: The pieces are as `copy` needs them.
                let copied = each_pair(&from, &to, len, |from, to, len| unsafe {
                    copy(to, from, len)
                });
                copied.map_err(|broken| match broken {
                    CopyBroken::Outer(error) => CopyError::Source(error),
                    CopyBroken::Inner(error) => CopyError::Target(error),
                })
            }
            (Self::OnDemand(_), _) => {
                // SAFETY: As above.
                let copied = each_pair(&to, &from, len, |to, from, len| unsafe {
                    copy(to, from, len);
                });
                copied.map_err(|broken| match broken {
                    CopyBroken::Outer(error) => CopyError::Target(error),
                    CopyBroken::Inner(error) => CopyError::Source(error),
                })
            }
            _ => {
                let to = to.pieces(len).map_err(CopyError::Target)?;
                let from = from.pieces(len).map_err(CopyError::Source)?;
                copy_pieces(to, from);
                Ok(())
            }
        }
    }
}

/// Copies what `from` has to where `to` is, piece by piece of either. Both are as long together.
fn copy_pieces(mut to: Pieces<'_>, mut from: Pieces<'_>) {
    let (mut target, mut source) = (to.next(), from.next());
    while let (Some((write, room)), Some((read, left))) = (target, source) {
        let len = room.min(left);
        // SAFETY: Both pieces are there, and the target's may be written, because that is what was asked
        // for.
        unsafe { copy(write, read, len) };
        let rest = |(start, all): (*mut u8, usize)| {
            let rest = all.wrapping_sub(len);
            (rest != 0).then(|| (start.wrapping_add(len), rest))
        };
        target = rest((write, room)).or_else(|| to.next());
        source = rest((read, left)).or_else(|| from.next());
    }
}

/// Which end of a pair could not be accessed.
enum CopyBroken {
    Outer(Error),
    Inner(Error),
}

/// Calls `f` with pieces of the `len` bytes of both ends, which are there until it returns, and may be
/// written where that was asked for.
#[inline]
fn each_pair(
    outer: &End<'_>,
    inner: &End<'_>,
    len: usize,
    mut f: impl FnMut(*mut u8, *mut u8, usize),
) -> Result<(), CopyBroken> {
    let mut at = inner.at;
    let mut broken = None;
    outer
        .memory
        .each(outer.at, len, outer.write, |first, len| {
            let mut first = first;
            let walked = inner.memory.each(at, len, inner.write, |second, len| {
                f(first, second, len);
                first = first.wrapping_add(len);
                Ok(())
            });
            at = at.wrapping_add(len as u64);
            walked.inspect_err(|&error| broken = Some(error))
        })
        .map_err(|error| broken.map_or(CopyBroken::Outer(error), CopyBroken::Inner))
}

/// Copies by way of the stack.
fn bounce(to: &End<'_>, from: &End<'_>, len: usize) -> Result<(), CopyError> {
    let mut buffer = [0; BOUNCE];
    let mut done = 0;
    while done < len {
        let part = len.wrapping_sub(done).min(BOUNCE);
        let bytes = buffer.get_mut(..part).unwrap_or_default();
        let place = |end: &End<'_>| end.at.wrapping_add(done as u64);
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
/// `from` is valid for reading, and `to` for writing, that many bytes. Others may be using them at the
/// same time; then nobody may rely on what is read.
#[inline]
unsafe fn copy(to: *mut u8, from: *mut u8, len: usize) {
    let apart = to.addr().abs_diff(from.addr()) >= len;
    // SAFETY: As the function requires. C copies, so that it does not matter to us what a user does to
    // the bytes meanwhile.
    unsafe {
        if apart {
            bindings::ferroce_helper_memcpy(to.cast(), from.cast_const().cast(), len);
        } else {
            bindings::ferroce_helper_memmove(to.cast(), from.cast_const().cast(), len);
        }
    }
}
