// SPDX-License-Identifier: GPL-2.0

//! Packets that wait.
//!
//! Owns their order, and how much memory they may take. Does not know whom they wait for.

use super::RxSkb;
use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::Opaque, //
};

/// Packets that wait, first in, first out, some of them in one buffer.
///
/// # Invariants
///
/// Every buffer in the queue has the invariants of [`RxSkb`].
#[pin_data(PinnedDrop)]
pub struct SkbQueue {
    #[pin]
    head: Opaque<bindings::sk_buff_head>,
    /// Bytes of memory in which they wait, with all that belongs to a buffer.
    bytes: Atomic<i32>,
    limit: i32,
}

// SAFETY: The queue has its own lock.
unsafe impl Send for SkbQueue {}
// SAFETY: See `Send`.
unsafe impl Sync for SkbQueue {}

impl SkbQueue {
    /// A queue for `limit` bytes of memory, or some more if several bring the last at once.
    pub fn new(limit: i32) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: C initialises all of it, in place.
            head <- Opaque::ffi_init(|head| unsafe {
                bindings::ferroce_helper_skb_queue_head_init(head);
            }),
            bytes: Atomic::new(0),
            limit,
        })
    }

    /// Appends a packet. For any context. `false`: the queue was full, and the packet is gone.
    pub fn push(&self, skb: RxSkb) -> bool {
        if self.bytes.load(Relaxed) >= self.limit {
            skb.refuse();
            return false;
        }
        self.bytes.add(skb.memory(), Relaxed);
        // INVARIANT: An `RxSkb` goes in.
        // SAFETY: Initialised, and the packet was ours.
        unsafe { bindings::skb_queue_tail(self.head.get(), skb.into_raw()) };
        true
    }

    /// Puts back a packet that was the first.
    pub fn unpop(&self, skb: RxSkb) {
        self.bytes.add(skb.memory(), Relaxed);
        // INVARIANT: An `RxSkb` goes in.
        // SAFETY: Initialised, and the packet was ours.
        unsafe { bindings::skb_queue_head(self.head.get(), skb.into_raw()) };
    }

    /// Takes the first packet out. For any context.
    #[inline]
    pub fn pop(&self) -> Option<RxSkb> {
        // SAFETY: Initialised.
        let skb = NonNull::new(unsafe { bindings::skb_dequeue(self.head.get()) }).map(RxSkb)?;
        self.bytes.add(skb.memory().wrapping_neg(), Relaxed);
        Some(skb)
    }

    /// Buffers that wait. With nothing to synchronise with, the answer may be old.
    #[inline]
    fn buffers(&self) -> u32 {
        // SAFETY: Initialised.
        unsafe { bindings::ferroce_helper_skb_queue_len_lockless(self.head.get()) }
    }

    /// Whether it is empty. With nothing to synchronise with, the answer may be old.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buffers() == 0
    }

    /// Frees the packets that are there now. Others may bring more meanwhile.
    pub fn purge(&self) {
        // Not until it is empty: those who bring packets may be faster than we are.
        for _ in 0..self.buffers() {
            match self.pop() {
                Some(skb) => skb.refuse(),
                None => return,
            }
        }
    }
}

#[pinned_drop]
impl PinnedDrop for SkbQueue {
    fn drop(self: Pin<&mut Self>) {
        // Ends: nobody brings any more.
        while let Some(skb) = self.pop() {
            skb.refuse();
        }
    }
}
