// SPDX-License-Identifier: GPL-2.0

//! A bounded FIFO in kernel memory, for the completions of a kernel consumer. The caller locks it.

use core::ops::Range;
use kernel::prelude::*;
use rdma::util::alloc::{
    gfp_user,
    Table, //
};

/// A FIFO of fixed capacity. Adding a value does not allocate.
///
/// Positions count up without limit. A value is in the slot of its position modulo the capacity.
pub(crate) struct Fifo<T> {
    slots: Table<Option<T>>,
    /// Position of the next value to add.
    produced: usize,
    /// Position of the oldest value.
    consumed: usize,
    /// Positions without a value, while a removal is in progress. Values before the gap have not been
    /// examined yet.
    gap: Option<Range<usize>>,
}

impl<T> Fifo<T> {
    /// Creates a FIFO for `capacity` values.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(capacity: u32) -> Result<Self> {
        // CAST: `u32` to `usize`, on 64 bits.
        let capacity = capacity as usize;
        let mut slots = Table::with_capacity(capacity, gfp_user())?;
        for _ in 0..capacity {
            slots.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self {
            slots,
            produced: 0,
            consumed: 0,
            gap: None,
        })
    }

    /// Adds a value. Returns it if the FIFO is full.
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        let next = self.produced.wrapping_add(1);
        match self.slot(self.produced) {
            Some(slot) if slot.is_none() => {
                *slot = Some(value);
                self.produced = next;
                Ok(())
            }
            _ => Err(value),
        }
    }

    /// Takes the oldest value.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.skip_gap();
        let value = self.slot(self.consumed)?.take()?;
        self.consumed = self.consumed.wrapping_add(1);
        Some(value)
    }

    /// Begins to remove values that are in the FIFO now. The caller then calls [`Fifo::remove_step`] until it
    /// returns true. Only one removal at a time.
    pub(crate) fn begin_removal(&mut self) {
        self.gap = Some(self.produced..self.produced);
    }

    /// Examines up to `count` values, newest first, and drops those that are `unwanted`. The others keep
    /// their order, even if values are added or taken between two steps. Returns whether the removal is
    /// complete.
    pub(crate) fn remove_step(&mut self, count: u32, unwanted: impl Fn(&T) -> bool) -> bool {
        for _ in 0..count {
            self.skip_gap();
            let Some(Range { start, end }) = self.gap.clone() else {
                return true;
            };
            let start = start.wrapping_sub(1);
            let mut gap = start..end;
            if let Some(value) = self.slot(start).and_then(Option::take) {
                if !unwanted(&value) {
                    gap.end = end.wrapping_sub(1);
                    // The slot is the last of the gap, or the one that the value was just taken from.
                    if let Some(slot) = self.slot(gap.end) {
                        *slot = Some(value);
                    }
                }
            }
            self.gap = Some(gap);
        }
        self.skip_gap();
        self.gap.is_none()
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> u32 {
        let gap = self.gap.clone().unwrap_or(0..0);
        let all = self.produced.wrapping_sub(self.consumed);
        // CAST: At most the capacity, a `u32`.
        all.wrapping_sub(gap.end.wrapping_sub(gap.start)) as u32
    }

    /// Returns the maximum number of values.
    pub(crate) fn capacity(&self) -> u32 {
        // CAST: The capacity was a `u32`.
        self.slots.len() as u32
    }

    fn slot(&mut self, position: usize) -> Option<&mut Option<T>> {
        let index = position.checked_rem(self.slots.len())?;
        self.slots.get_mut(index)
    }

    /// Ends the removal when no value before the gap is left.
    fn skip_gap(&mut self) {
        if let Some(gap) = self.gap.take_if(|gap| gap.start == self.consumed) {
            self.consumed = gap.end;
        }
    }
}
