// SPDX-License-Identifier: GPL-2.0

//! Counters that every CPU has for itself.
//!
//! Owns numbers that only grow. Adding to one touches no memory that another CPU writes; reading one
//! adds up what all CPUs have. Does not know what is counted.
//!
//! C header: [`include/linux/percpu.h`](srctree/include/linux/percpu.h)

use crate::bindings;
use core::ptr::NonNull;
use kernel::prelude::*;

/// Some counters.
///
/// # Invariants
///
/// `words` comes from `__alloc_percpu` for `len` words, and is freed when this is dropped.
pub struct PercpuCounters {
    words: NonNull<u64>,
    len: usize,
}

// SAFETY: Memory per CPU belongs to no task.
unsafe impl Send for PercpuCounters {}
// SAFETY: A CPU adds to its own words only, in one instruction or with interrupts off; others read
// whole words.
unsafe impl Sync for PercpuCounters {}

impl PercpuCounters {
    /// `len` counters, all at 0. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(len: usize) -> Result<Self> {
        // SAFETY: May sleep. The memory is zeroed.
        let words = unsafe { bindings::ferroce_helper_alloc_percpu64(len) };
        // INVARIANT: It was just allocated.
        Ok(Self {
            words: NonNull::new(words).ok_or(ENOMEM)?,
            len,
        })
    }

    /// Adds `amount` to the counter at `index`, if there is one. For any context.
    #[inline]
    pub fn add(&self, index: usize, amount: u64) {
        if let Some(word) = self.word(index) {
            // SAFETY: Within the allocation, see `word`.
            unsafe { bindings::ferroce_helper_this_cpu_add64(word, amount) }
        }
    }

    /// What all CPUs have added to the counter at `index`; 0 if there is none. Not a moment's: others may
    /// add meanwhile.
    pub fn sum(&self, index: usize) -> u64 {
        self.word(index).map_or(0, |word| {
            // SAFETY: Within the allocation, see `word`.
            unsafe { bindings::ferroce_helper_percpu_sum64(word) }
        })
    }

    /// The counter at `index`, as C names memory per CPU: not to be followed.
    #[inline]
    fn word(&self, index: usize) -> Option<*mut u64> {
        (index < self.len).then(|| self.words.as_ptr().wrapping_add(index))
    }
}

impl Drop for PercpuCounters {
    fn drop(&mut self) {
        // SAFETY: By the invariant; nobody else has it.
        unsafe { bindings::free_percpu(self.words.as_ptr().cast()) }
    }
}
