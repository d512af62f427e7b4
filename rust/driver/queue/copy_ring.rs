// SPDX-License-Identifier: GPL-2.0

//! Resizes of rings: the waiting elements are copied to a new ring, in steps.
//!
//! Elements may be added or taken between two steps. The owner of the ring locks it during a step only, so that engines
//! do not wait long. Positions count elements since the ring was created, and wrap around.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::ib::ring::Ring;

/// Elements that one step copies.
const STEP_ENTRIES: u32 = 64;

/// The elements of a ring that its consumer has not taken.
pub(crate) struct Waiting {
    /// Index of the first.
    pub(crate) index: u32,
    /// Its position.
    pub(crate) position: u32,
    /// Their number.
    pub(crate) count: u32,
}

/// A resize.
pub(crate) struct RingResize {
    ring: Arc<Ring>,
    capacity: u32,
    /// Position of the first element of the new ring.
    start: u32,
    copied: u32,
}

impl RingResize {
    /// Begins a resize to `ring`, which is empty and may hold `capacity` elements. `position` is that of the first
    /// waiting element.
    pub(crate) fn new(ring: Arc<Ring>, capacity: u32, position: u32) -> Self {
        Self {
            ring,
            capacity,
            start: position,
            copied: position,
        }
    }

    /// Returns the number of elements copied since the resize began.
    pub(crate) fn copied(&self) -> u32 {
        self.copied.wrapping_sub(self.start)
    }

    /// Copies some of the elements that wait in `ring`. When all are copied, replaces `ring` by the new ring, which the
    /// caller then uses, and returns the indices of its consumer and its producer. Calls `copied` with the index of
    /// each element.
    ///
    /// # Errors
    ///
    /// `EINVAL` if more elements wait than fit.
    pub(crate) fn step(
        &mut self,
        ring: &mut Arc<Ring>,
        waiting: Waiting,
        copied: impl Fn(&Ring, u32),
    ) -> Result<Option<(u32, u32)>> {
        let Waiting {
            index,
            position,
            count,
        } = waiting;
        if count > self.capacity {
            return Err(EINVAL);
        }
        let end = position.wrapping_add(count);
        // Elements that were taken meanwhile need not be copied.
        if end.wrapping_sub(self.copied) > count {
            self.copied = position;
        }
        for _ in 0..STEP_ENTRIES {
            let to = self.copied();
            if self.copied == end {
                let mask = self.ring.index_mask();
                let ends = (position.wrapping_sub(self.start) & mask, to & mask);
                self.ring.publish_consumer(ends.0);
                self.ring.publish_producer(ends.1);
                core::mem::swap(ring, &mut self.ring);
                return Ok(Some(ends));
            }
            let from = index.wrapping_add(self.copied.wrapping_sub(position));
            ring.copy_element(from, &self.ring, to);
            copied(&self.ring, to);
            self.copied = self.copied.wrapping_add(1);
        }
        Ok(None)
    }
}
