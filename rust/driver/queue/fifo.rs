// SPDX-License-Identifier: GPL-2.0

//! Bounded queues in our own memory.
//!
//! Owns the room for as many entries as it was made for, so that adding one allocates nothing. Knows
//! neither locks nor what it holds.

use kernel::prelude::*;
use rdma::util::alloc::gfp_user;

/// A queue of at most as many values as it was made for. Indices run free.
pub(crate) struct Fifo<T> {
    slots: KVVec<Option<T>>,
    produced: usize,
    consumed: usize,
}

impl<T> Fifo<T> {
    /// Room for `capacity` values.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(capacity: u32) -> Result<Self> {
        // CAST: `u32` to `usize`, on 64 bits.
        let capacity = capacity as usize;
        let mut slots = KVVec::with_capacity(capacity, gfp_user())?;
        for _ in 0..capacity {
            slots.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self {
            slots,
            produced: 0,
            consumed: 0,
        })
    }

    /// Adds a value; gives it back if there is no room.
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        let at = self.produced.checked_rem(self.slots.len());
        match at.and_then(|at| self.slots.get_mut(at)) {
            Some(slot) if slot.is_none() => {
                *slot = Some(value);
                self.produced = self.produced.wrapping_add(1);
                Ok(())
            }
            _ => Err(value),
        }
    }

    /// The oldest value.
    pub(crate) fn first(&self) -> Option<&T> {
        let at = self.consumed.checked_rem(self.slots.len())?;
        self.slots.get(at)?.as_ref()
    }

    /// Takes the oldest value.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let at = self.consumed.checked_rem(self.slots.len())?;
        let value = self.slots.get_mut(at)?.take()?;
        self.consumed = self.consumed.wrapping_add(1);
        Some(value)
    }

    /// Drops the values that are `unwanted`. Takes as long as there are values.
    pub(crate) fn remove(&mut self, unwanted: impl Fn(&T) -> bool) {
        for _ in 0..self.len() {
            let Some(value) = self.pop() else {
                break;
            };
            if !unwanted(&value) {
                // There is the room that it had.
                let _ = self.push(value);
            }
        }
    }

    /// Values in it.
    pub(crate) fn len(&self) -> u32 {
        // CAST: No more than there is room for.
        self.produced.wrapping_sub(self.consumed) as u32
    }

    /// Most values that can be in it.
    pub(crate) fn capacity(&self) -> u32 {
        // CAST: As many as were asked for, by a `u32`.
        self.slots.len() as u32
    }
}
