// SPDX-License-Identifier: GPL-2.0

//! Queues of received packets, with a limit in bytes for each queue and for all together.
//!
//! For any context: the C queue has its own lock.

use crate::bindings;
use crate::net::rx::skb::{
    RxCb,
    RxSkb,
    SplitPackets, //
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

/// Bytes in all queues, not counting the first [`RESERVED_QUEUE_BYTES`] of each. Queued packets are charged
/// to no socket, so their total is limited, as for UDP (`net.ipv4.udp_mem`).
static TOTAL_BYTES: Atomic<i64> = Atomic::new(0);

/// Bytes that every queue may hold, whatever the total. A queue that is processed continuously rarely holds
/// more.
const RESERVED_QUEUE_BYTES: i32 = 32 << 10;

/// The total is limited to the machine's memory divided by this number.
const MEMORY_DIVISOR: u64 = 8;

/// Bytes of all [`KeptSkb`]s. They count apart from the queues: packets that a peer makes a QP keep must not take the
/// room of other QPs' queues.
static KEPT_BYTES: Atomic<i64> = Atomic::new(0);

/// As [`MEMORY_DIVISOR`], for [`KEPT_BYTES`].
const KEPT_MEMORY_DIVISOR: u64 = 64;

/// A received packet outside of any queue.
pub struct KeptSkb {
    skb: RxSkb,
    _charge: Charge,
}

impl KeptSkb {
    /// Counts `skb`. `None` if as many packets are kept as may be; the packet is then dropped.
    pub fn new(skb: RxSkb) -> Option<Self> {
        if is_exceeded(&KEPT_BYTES, KEPT_MEMORY_DIVISOR) {
            skb.drop_packet();
            return None;
        }
        let bytes = skb.memory();
        KEPT_BYTES.add(bytes.into(), Relaxed);
        Some(Self {
            skb,
            _charge: Charge(bytes),
        })
    }

    /// Returns the packet, which no longer counts.
    pub fn into_skb(self) -> RxSkb {
        self.skb
    }
}

/// Bytes that count in [`KEPT_BYTES`] as long as this exists.
struct Charge(i32);

impl Drop for Charge {
    fn drop(&mut self) {
        KEPT_BYTES.add(i64::from(self.0).wrapping_neg(), Relaxed);
    }
}

/// Returns whether the total has reached its limit.
fn is_total_exceeded() -> bool {
    is_exceeded(&TOTAL_BYTES, MEMORY_DIVISOR)
}

/// Returns whether `bytes` has reached the machine's memory divided by `divisor`.
fn is_exceeded(bytes: &Atomic<i64>, divisor: u64) -> bool {
    // SAFETY: The helper reads a global number and has no preconditions.
    let memory = unsafe { bindings::ferroce_helper_memory_bytes() };
    // CAST: Not negative, because a packet is counted before it can be dequeued.
    bytes.load(Relaxed) as u64 >= memory / divisor
}

/// A FIFO of received skbs, each with one or more packets.
///
/// # Invariants
///
/// Every skb in the queue satisfies the invariants of [`RxSkb`].
#[pin_data(PinnedDrop)]
pub struct SkbQueue {
    #[pin]
    head: Opaque<bindings::sk_buff_head>,
    /// Memory that the queued skbs occupy, in bytes.
    bytes: Atomic<i32>,
    limit_bytes: i32,
}

// SAFETY: The C queue has its own lock, and owns skbs that belong to no task.
unsafe impl Send for SkbQueue {}
// SAFETY: As for `Send`.
unsafe impl Sync for SkbQueue {}

impl SkbQueue {
    /// Creates a queue for `limit_bytes` of memory. Concurrent callers may exceed the limit by one skb each.
    pub fn new(limit_bytes: i32) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: C initialises the whole queue head in place.
            head <- Opaque::ffi_init(|head| unsafe {
                bindings::ferroce_helper_skb_queue_head_init(head);
            }),
            bytes: Atomic::new(0),
            limit_bytes,
        })
    }

    /// Appends a packet. For any context. Returns false if the queue is full; the packet is then dropped.
    pub fn push(&self, mut skb: RxSkb) -> bool {
        let bytes = self.bytes.load(Relaxed);
        if bytes >= self.limit_bytes || (bytes >= RESERVED_QUEUE_BYTES && is_total_exceeded()) {
            skb.drop_packet();
            return false;
        }
        self.charge(&mut skb);
        // INVARIANT: The skb comes from an `RxSkb`.
        // SAFETY: The queue is initialised, and `into_raw` passes the ownership of the skb to it.
        unsafe { bindings::skb_queue_tail(self.head.get(), skb.into_raw()) };
        true
    }

    /// Puts a dequeued packet back to the front, regardless of the limit.
    pub fn push_front(&self, mut skb: RxSkb) {
        self.charge(&mut skb);
        // INVARIANT: The skb comes from an `RxSkb`.
        // SAFETY: The queue is initialised, and `into_raw` passes the ownership of the skb to it.
        unsafe { bindings::skb_queue_head(self.head.get(), skb.into_raw()) };
    }

    /// Puts the packets of a dequeued super-packet to the front, in their order and regardless of the limit.
    pub fn push_front_all(&self, packets: SplitPackets) {
        for packet in packets.reversed() {
            self.push_front(packet);
        }
    }

    /// Dequeues the first packet. For any context. A packet that another context adds meanwhile may be missed.
    #[inline]
    pub fn pop(&self) -> Option<RxSkb> {
        // The lock costs more than the rest of a run that finds nothing.
        if self.is_empty() {
            return None;
        }
        // SAFETY: The queue is initialised. C passes the ownership of the skb to the caller.
        let skb = NonNull::new(unsafe { bindings::skb_dequeue(self.head.get()) }).map(RxSkb)?;
        self.uncharge(&skb);
        Some(skb)
    }

    /// Counts a packet before it is queued.
    #[inline]
    fn charge(&self, skb: &mut RxSkb) {
        let memory = skb.memory();
        let in_total = self.bytes.fetch_add(memory, Relaxed) >= RESERVED_QUEUE_BYTES;
        if in_total {
            TOTAL_BYTES.add(memory.into(), Relaxed);
        }
        let rx_cb = skb.rx_cb();
        skb.set_rx_cb(RxCb { in_total, ..rx_cb });
    }

    /// Stops counting a dequeued packet.
    #[inline]
    fn uncharge(&self, skb: &RxSkb) {
        let memory = skb.memory();
        self.bytes.add(memory.wrapping_neg(), Relaxed);
        if skb.rx_cb().in_total {
            TOTAL_BYTES.add(i64::from(memory).wrapping_neg(), Relaxed);
        }
    }

    /// Returns the number of queued skbs. Without synchronisation the value may be outdated.
    #[inline]
    pub fn buffers(&self) -> u32 {
        // SAFETY: The queue is initialised; C reads the length without the lock.
        unsafe { bindings::ferroce_helper_skb_queue_len_lockless(self.head.get()) }
    }

    /// Returns whether the queue is empty. Without synchronisation the value may be outdated.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buffers() == 0
    }

    /// Passes the skbs behind the first one to `f`, and drops them. Only the context that dequeues may call it. Others
    /// may be added meanwhile.
    pub fn purge_rest(&self, mut f: impl FnMut(&RxSkb)) {
        let Some(first) = self.pop() else {
            return;
        };
        // Bounded, because packets may be added faster than this removes them.
        for _ in 0..self.buffers() {
            let Some(skb) = self.pop() else {
                break;
            };
            f(&skb);
            skb.drop_packet();
        }
        self.push_front(first);
    }

    /// Drops the packets that are queued now. Others may be added meanwhile.
    pub fn purge(&self) {
        // Bounded, because packets may be added faster than this removes them.
        for _ in 0..self.buffers() {
            match self.pop() {
                Some(skb) => skb.drop_packet(),
                None => return,
            }
        }
    }
}

#[pinned_drop]
impl PinnedDrop for SkbQueue {
    fn drop(self: Pin<&mut Self>) {
        // Terminates: access is exclusive, so no packet is added.
        while let Some(skb) = self.pop() {
            skb.drop_packet();
        }
    }
}
