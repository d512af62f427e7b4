// SPDX-License-Identifier: GPL-2.0

//! Atomic operations on registered memory.
//!
//! C executes the instruction, so it is atomic against all CPUs, including processes that map the page. No
//! Rust reference to the memory is created. For any context except hard interrupts.

use crate::bindings;
use crate::mm::memory::Memory;
use kernel::prelude::*;

/// Operand size of IBA atomic operations.
const WORD_BYTES: usize = size_of::<u64>();

impl Memory {
    /// Calls `f` with a pointer to the word at `offset`, which is present and writable until `f` returns.
    ///
    /// # Errors
    ///
    /// - `EFAULT`: the word is beyond the end of the memory, or its kernel address is not aligned.
    /// - `EACCES`: the memory is read-only.
    /// - `EAGAIN`: the page is absent.
    fn with_word<T>(&self, offset: u64, f: impl Fn(*mut u64) -> T) -> Result<T> {
        let mut result = None;
        self.for_each_piece(offset, WORD_BYTES, true, |at, len| {
            // An aligned word lies in one page, so in one piece.
            if len != WORD_BYTES || !at.cast::<u64>().is_aligned() {
                return Err(EFAULT);
            }
            result = Some(f(at.cast()));
            Ok(())
        })?;
        result.ok_or(EFAULT)
    }

    /// Replaces the word at `offset` by `new` if it equals `old`. Returns the previous value. Fully ordered.
    ///
    /// # Errors
    ///
    /// The memory is unchanged.
    ///
    /// - `EFAULT`: the word is beyond the end of the memory, or its kernel address is not aligned.
    /// - `EACCES`: the memory is read-only.
    /// - `EAGAIN`: the page is absent.
    pub fn compare_swap(&self, offset: u64, old: u64, new: u64) -> Result<u64> {
        // SAFETY: `with_word` passes an aligned pointer that is valid for reads and writes until the closure
        // returns. The process may access the word concurrently; C accesses it atomically, so that is no data
        // race.
        self.with_word(offset, |word| unsafe {
            bindings::ferroce_helper_cmpxchg64(word, old, new)
        })
    }

    /// Adds `add` to the word at `offset`, wrapping. Returns the previous value. Fully ordered.
    ///
    /// # Errors
    ///
    /// As [`Memory::compare_swap`].
    pub fn fetch_add(&self, offset: u64, add: u64) -> Result<u64> {
        // SAFETY: As in `compare_swap`: `with_word` passes a valid aligned pointer, and C accesses the word
        // atomically.
        self.with_word(offset, |word| unsafe {
            bindings::ferroce_helper_fetch_add64(word, add)
        })
    }

    /// Stores `value` to the word at `offset` in one access, after all earlier writes.
    ///
    /// # Errors
    ///
    /// As [`Memory::compare_swap`].
    pub fn store_release(&self, offset: u64, value: u64) -> Result {
        // SAFETY: As in `compare_swap`: `with_word` passes a valid aligned pointer, and C accesses the word
        // atomically.
        self.with_word(offset, |word| unsafe {
            bindings::ferroce_helper_smp_store_release64(word, value);
        })
    }
}
