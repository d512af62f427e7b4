// SPDX-License-Identifier: GPL-2.0

//! Where the two ends of a ring are.
//!
//! Owns what an index means, and in which order index and elements are touched. Does not know the
//! kernel, nor where the indices lie: they are those of the parent module, and `tests/loom` compiles
//! this file over a model of them, and checks that.
//!
//! # Why elements are whole
//!
//! Who has written an element publishes it with a release; who looks for it acquires. So does the
//! consumer in the other direction when it gives an element back, and the producer before it
//! writes there again. User space does the same, or harms nobody but itself: each end keeps its
//! own position and takes from the other's index only how far it may go, masked, so the worst that
//! any value can say is "full" or "empty" at the wrong time.

use super::{
    Acquire,
    Release,
    Ring, //
};

impl Ring {
    /// The position after the last element published by the producer. What the producer wrote
    /// before is visible after this.
    #[inline]
    pub fn producer(&self) -> u32 {
        self.producer_index().load(Acquire) & self.mask()
    }

    /// The position of the first element that the consumer has not released. The consumer has done
    /// with what stands before.
    #[inline]
    pub fn consumer(&self) -> u32 {
        self.consumer_index().load(Acquire) & self.mask()
    }

    /// Publishes the elements before `index`: everything written up to now is visible to whoever
    /// sees the new index.
    #[inline]
    pub fn publish_producer(&self, index: u32) {
        let index = index & self.mask();
        self.producer_index().store(index, Release);
    }

    /// Releases the elements before `index` to the producer.
    #[inline]
    pub fn publish_consumer(&self, index: u32) {
        let index = index & self.mask();
        self.consumer_index().store(index, Release);
    }

    /// The position after `index`.
    #[inline]
    pub fn after(&self, index: u32) -> u32 {
        index.wrapping_add(1) & self.mask()
    }

    /// Elements from `index` up to `end`; at most as many as fit, whatever these are.
    #[inline]
    pub fn distance(&self, index: u32, end: u32) -> u32 {
        end.wrapping_sub(index) & self.mask()
    }

    /// Has `write` fill the element at `producer`, publishes it and moves on. `None` if there is no
    /// room.
    ///
    /// `producer` is the producer's own position; there is one producer at a time.
    #[inline]
    pub fn push(&self, producer: &mut u32, write: impl FnOnce(u32)) -> Option<()> {
        let index = *producer;
        let next = self.after(index);
        if next == self.consumer() {
            return None;
        }
        write(index);
        self.publish_producer(next);
        *producer = next;
        Some(())
    }

    /// Has `read` copy the element at `consumer`, releases it and moves on, unless `read` refuses it: then it stays
    /// the next. `None` if nothing is published.
    ///
    /// `consumer` is the consumer's own position; there is one consumer at a time.
    #[inline]
    pub fn take<R, E>(
        &self,
        consumer: &mut u32,
        read: impl FnOnce(u32) -> Result<R, E>,
    ) -> Option<Result<R, E>> {
        let index = *consumer;
        if index == self.producer() {
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
