// SPDX-License-Identifier: GPL-2.0

//! Packets that wait.
//!
//! Owns their order, and how much memory they may take, in each queue and in all together. Does not know whom they wait
//! for.

use crate::bindings;
use crate::net::rx::skb::{
    Notes,
    RxSkb, //
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::Opaque, //
};

/// Bytes that wait in all queues, beyond the first [`UNCOUNTED`] of each. Nobody is charged for a packet that waits, so
/// there is a limit to the sum, as UDP has one (`net.ipv4.udp_mem`).
static SUM: Atomic<i64> = Atomic::new(0);

/// Bytes that may wait in a queue however many wait in others. One that is emptied all the time hardly ever has more.
const UNCOUNTED: i32 = 32 << 10;

/// The limit to the sum: an eighth of the machine's memory.
const SHARE: u64 = 8;

/// Whether the sum has reached its limit.
fn all_full() -> bool {
    // SAFETY: Reads a number.
    let memory = unsafe { bindings::ferroce_helper_memory_bytes() };
    // CAST: Never below 0, as a packet is counted before anybody can take it out.
    SUM.load(Relaxed) as u64 >= memory / SHARE
}

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
    pub fn push(&self, mut skb: RxSkb) -> bool {
        let bytes = self.bytes.load(Relaxed);
        if bytes >= self.limit || (bytes >= UNCOUNTED && all_full()) {
            skb.refuse();
            return false;
        }
        self.enter(&mut skb);
        // INVARIANT: An `RxSkb` goes in.
        // SAFETY: Initialised, and the packet was ours.
        unsafe { bindings::skb_queue_tail(self.head.get(), skb.into_raw()) };
        true
    }

    /// Puts back a packet that was the first.
    pub fn unpop(&self, mut skb: RxSkb) {
        self.enter(&mut skb);
        // INVARIANT: An `RxSkb` goes in.
        // SAFETY: Initialised, and the packet was ours.
        unsafe { bindings::skb_queue_head(self.head.get(), skb.into_raw()) };
    }

    /// Takes the first packet out. For any context.
    #[inline]
    pub fn pop(&self) -> Option<RxSkb> {
        // SAFETY: Initialised.
        let skb = NonNull::new(unsafe { bindings::skb_dequeue(self.head.get()) }).map(RxSkb)?;
        self.leave(&skb);
        Some(skb)
    }

    /// Counts a packet that is going to wait.
    #[inline]
    fn enter(&self, skb: &mut RxSkb) {
        let memory = skb.memory();
        let in_sum = self.bytes.fetch_add(memory, Relaxed) >= UNCOUNTED;
        if in_sum {
            SUM.add(memory.into(), Relaxed);
        }
        let notes = skb.notes();
        skb.note(Notes { in_sum, ..notes });
    }

    /// Counts a packet that has waited.
    #[inline]
    fn leave(&self, skb: &RxSkb) {
        let memory = skb.memory();
        self.bytes.add(memory.wrapping_neg(), Relaxed);
        if skb.notes().in_sum {
            SUM.add(i64::from(memory).wrapping_neg(), Relaxed);
        }
    }

    /// Buffers that wait. With nothing to synchronise with, the answer may be old.
    #[inline]
    pub fn buffers(&self) -> u32 {
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
