// SPDX-License-Identifier: GPL-2.0

//! Per-CPU statistics counters that only grow.
//!
//! An addition writes only memory of its own CPU. A read adds up the values of all CPUs.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h)

use crate::bindings;
use core::ptr::NonNull;
use kernel::prelude::*;

/// An array of counters.
///
/// # Invariants
///
/// `words` was allocated by `__alloc_percpu` with `len` words, and is freed by the drop.
pub struct PercpuCounters {
    words: NonNull<u64>,
    len: usize,
}

// SAFETY: Per-CPU memory belongs to no task.
unsafe impl Send for PercpuCounters {}
// SAFETY: Each CPU adds to its own words only, in one instruction or with interrupts disabled. Other CPUs
// read whole words.
unsafe impl Sync for PercpuCounters {}

impl PercpuCounters {
    /// Allocates `len` counters with value 0. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(len: usize) -> Result<Self> {
        // SAFETY: The caller may sleep. C returns zeroed memory for `len` words, or null.
        let words = unsafe { bindings::ferroce_helper_alloc_percpu64(len) };
        // INVARIANT: The memory was just allocated for `len` words.
        Ok(Self {
            words: NonNull::new(words).ok_or(ENOMEM)?,
            len,
        })
    }

    /// Adds `amount` to the counter at `index`; does nothing if there is none. For any context.
    #[inline]
    pub fn add(&self, index: usize, amount: u64) {
        if let Some(word) = self.word(index) {
            // SAFETY: `word` returns a per-CPU pointer inside the allocation.
            unsafe { bindings::ferroce_helper_this_cpu_add64(word, amount) }
        }
    }

    /// Returns the sum over all CPUs of the counter at `index`; 0 if there is none. Not a snapshot: other
    /// CPUs may add meanwhile.
    pub fn sum(&self, index: usize) -> u64 {
        self.word(index).map_or(0, |word| {
            // SAFETY: `word` returns a per-CPU pointer inside the allocation.
            unsafe { bindings::ferroce_helper_percpu_sum64(word) }
        })
    }

    /// Returns the per-CPU pointer of the counter at `index`. It must not be dereferenced.
    #[inline]
    fn word(&self, index: usize) -> Option<*mut u64> {
        (index < self.len).then(|| self.words.as_ptr().wrapping_add(index))
    }
}

impl Drop for PercpuCounters {
    fn drop(&mut self) {
        // SAFETY: By the type invariant `words` is an allocation that is freed only here. Exclusive access
        // means that no CPU uses it.
        unsafe { bindings::free_percpu(self.words.as_ptr().cast()) }
    }
}
