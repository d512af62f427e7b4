// SPDX-License-Identifier: GPL-2.0

//! Atomic operations on registered memory.
//!
//! Owns the check that the eight bytes can be had as one word, and the instruction itself. It is
//! atomic against every processor, and so against every process that maps the page. C does it, as it
//! does all copies: no reference to the memory is ever made.

use crate::bindings;
use crate::mm::memory::Memory;
use kernel::prelude::*;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

impl Memory {
    /// Calls `f` with the word at `offset`, which is there until it returns.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the memory ends before, or the word is not aligned where it really is; `EACCES`: it
    /// is not to be written; `EAGAIN`: the page is absent.
    fn word<T>(&self, offset: u64, f: impl Fn(*mut u64) -> T) -> Result<T> {
        let mut done = None;
        self.each(offset, WORD, true, |at, len| {
            // An aligned word lies in one page, and so in one piece.
            if len != WORD || !at.cast::<u64>().is_aligned() {
                return Err(EFAULT);
            }
            done = Some(f(at.cast()));
            Ok(())
        })?;
        done.ok_or(EFAULT)
    }

    /// Makes the word at `offset` be `new` if it is `old`. Returns what it was. Fully ordered.
    ///
    /// # Errors
    ///
    /// `EFAULT`: the memory ends before, or the word is not aligned where it really is; `EACCES`: it
    /// is not to be written; `EAGAIN`: the page is absent. Nothing has changed.
    pub fn compare_swap(&self, offset: u64, old: u64, new: u64) -> Result<u64> {
        // SAFETY: The word is there, aligned, and may be written. Its owner may access it at the same
        // time, which is no data race, because C accesses it atomically.
        self.word(offset, |word| unsafe {
            bindings::ferroce_helper_cmpxchg64(word, old, new)
        })
    }

    /// Adds `add` to the word at `offset`, wrapping. Returns what it was. Fully ordered.
    ///
    /// # Errors
    ///
    /// As [`Memory::compare_swap`].
    pub fn fetch_add(&self, offset: u64, add: u64) -> Result<u64> {
        // SAFETY: See `compare_swap`.
        self.word(offset, |word| unsafe {
            bindings::ferroce_helper_fetch_add64(word, add)
        })
    }

    /// Makes the word at `offset` be `value`, at once, and after everything that was written before.
    ///
    /// # Errors
    ///
    /// As [`Memory::compare_swap`].
    pub fn store_release(&self, offset: u64, value: u64) -> Result {
        // SAFETY: See `compare_swap`.
        self.word(offset, |word| unsafe {
            bindings::ferroce_helper_smp_store_release64(word, value);
        })
    }
}
