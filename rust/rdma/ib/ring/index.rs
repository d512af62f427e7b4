// SPDX-License-Identifier: GPL-2.0

//! Positions of the two ends of a ring, and the order of accesses to indices and elements.
//!
//! The indices are those of the parent module. `tests/loom` compiles this file with a model of them. Any context;
//! takes no lock.
//!
//! # Ordering
//!
//! The producer writes an element, then publishes its index with a release. The consumer loads that index with an
//! acquire, then reads the element. In the other direction the consumer releases an element after it has read it,
//! and the producer acquires the consumer's index before it writes there again.
//!
//! User space does the same. If it does not, it damages only itself: each end keeps its own position and uses the
//! other's index, masked, only as a bound. The worst effect of any value is "full" or "empty" at the wrong time.

use super::{
    smp_mb,
    Acquire,
    Release,
    Ring, //
};

impl Ring {
    /// Returns the position after the last element that the producer published. The producer's earlier writes are
    /// visible after this.
    #[inline]
    pub fn producer(&self) -> u32 {
        self.producer_index().load(Acquire) & self.index_mask()
    }

    /// Returns the position of the first element that the consumer has not released. The consumer no longer reads
    /// the elements before it.
    #[inline]
    pub fn consumer(&self) -> u32 {
        self.consumer_index().load(Acquire) & self.index_mask()
    }

    /// Publishes the elements before `index`: a consumer that sees the new index sees all earlier writes.
    #[inline]
    pub fn publish_producer(&self, index: u32) {
        let index = index & self.index_mask();
        self.producer_index().store(index, Release);
    }

    /// Tells the producer whether the consumer looks at the ring without a doorbell. A ring of another layout cannot
    /// tell. After `false`, the caller must look once more: the producer may have published elements since the last
    /// look.
    ///
    /// The producer publishes its index, and loads the word after a full barrier. So either it finds the word cleared,
    /// or its index is found after this.
    pub fn set_no_doorbell(&self, on: bool) {
        if let Some(word) = self.no_doorbell_word() {
            word.store(on.into(), Release);
            smp_mb();
        }
    }

    /// Releases the elements before `index` to the producer.
    #[inline]
    pub fn publish_consumer(&self, index: u32) {
        let index = index & self.index_mask();
        self.consumer_index().store(index, Release);
    }

    /// Returns the position after `index`.
    #[inline]
    pub fn after(&self, index: u32) -> u32 {
        self.advanced(index, 1)
    }

    /// Returns the position `count` elements after `index`.
    #[inline]
    pub fn advanced(&self, index: u32, count: u32) -> u32 {
        index.wrapping_add(count) & self.index_mask()
    }

    /// Returns the number of elements from `index` to `end`; 0 if there cannot be so many. So an impossible index of
    /// user space makes a queue empty: it does not cause work without end.
    #[inline]
    pub fn distance(&self, index: u32, end: u32) -> u32 {
        match end.wrapping_sub(index) & self.index_mask() {
            distance if distance <= self.entries() => distance,
            _ => 0,
        }
    }

    /// Lets `write` fill the element at `producer`, publishes it, and advances `producer`. Returns `None` if the
    /// ring is full.
    ///
    /// `producer` is the producer's own position. The caller serializes producers.
    #[inline]
    pub fn push(&self, producer: &mut u32, write: impl FnOnce(u32)) -> Option<()> {
        let index = *producer;
        let next = self.after(index);
        if self.distance(self.consumer(), index) == self.entries() {
            return None;
        }
        write(index);
        self.publish_producer(next);
        *producer = next;
        Some(())
    }

    /// Lets `read` copy the element at `consumer`, releases the element, and advances `consumer`. If `read` fails,
    /// the element stays the next one. Returns `None` if the ring is empty.
    ///
    /// `consumer` is the consumer's own position. The caller serializes consumers.
    #[inline]
    pub fn take<R, E>(
        &self,
        consumer: &mut u32,
        read: impl FnOnce(u32) -> Result<R, E>,
    ) -> Option<Result<R, E>> {
        let index = *consumer;
        if self.distance(index, self.producer()) == 0 {
            return None;
        }
        let taken = read(index);
        if taken.is_ok() {
            *consumer = self.after(index);
            self.publish_consumer(*consumer);
        }
        Some(taken)
    }
}
