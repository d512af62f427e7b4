// SPDX-License-Identifier: GPL-2.0

//! Readers that never wait, and a writer that excludes them and waits until they have left.
//!
//! Without PREEMPT_RT, a reader with softirqs disabled is not preempted, so the writer spins. With PREEMPT_RT, a writer
//! of higher priority may preempt a reader on the same CPU and would spin for ever, so the writer sleeps. The order of
//! accesses is in `counted` and `locked`; `tests/loom/readers.rs` checks both.
//!
//! For task context or softirq. Readers have softirqs disabled: a softirq inside a reader could wait for that reader.

#[cfg(not(CONFIG_PREEMPT_RT))]
#[path = "readers/counted.rs"]
mod order;
#[cfg(CONFIG_PREEMPT_RT)]
#[path = "readers/locked.rs"]
mod order;
#[cfg(CONFIG_PREEMPT_RT)]
mod readers_lock;

use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::{
            Acquire,
            Relaxed,
            Release, //
        },
        Atomic, //
    }, //
};

#[cfg(not(CONFIG_PREEMPT_RT))]
use {
    core::hint::spin_loop,
    kernel::sync::atomic::ordering::Full, //
};

/// The state of the readers.
#[cfg(not(CONFIG_PREEMPT_RT))]
type ReaderState = Atomic<i32>;

/// The state of the readers.
#[cfg(CONFIG_PREEMPT_RT)]
#[pin_data]
struct ReaderState {
    admitted: Atomic<bool>,
    #[pin]
    lock: readers_lock::ReadersLock,
}

/// Returns the state of excluded readers.
#[cfg(not(CONFIG_PREEMPT_RT))]
#[inline]
fn excluded() -> impl PinInit<ReaderState> {
    ReaderState::new(order::EXCLUDED)
}

/// Returns the state of excluded readers.
#[cfg(CONFIG_PREEMPT_RT)]
#[inline]
fn excluded() -> impl PinInit<ReaderState> {
    pin_init!(ReaderState {
        admitted: Atomic::new(false),
        lock <- readers_lock::ReadersLock::new(),
    })
}

/// Readers of a value. There is one writer at a time.
#[pin_data]
pub(crate) struct Readers {
    #[pin]
    state: ReaderState,
}

impl Readers {
    /// Creates excluded readers.
    pub(crate) fn new_excluded() -> impl PinInit<Self> {
        pin_init!(Self { state <- excluded() })
    }

    /// Becomes a reader, unless readers are excluded. Undone by [`Readers::leave`].
    #[inline]
    pub(crate) fn try_enter(&self) -> bool {
        order::try_enter(&self.state)
    }

    /// Stops being a reader.
    #[inline]
    pub(crate) fn leave(&self) {
        order::leave(&self.state);
    }

    /// Returns whether readers are admitted. For the writer.
    #[inline]
    pub(crate) fn are_admitted(&self) -> bool {
        order::are_admitted(&self.state)
    }

    /// Admits readers, which must be excluded. For the writer.
    #[inline]
    pub(crate) fn admit(&self) {
        order::admit(&self.state);
    }

    /// Excludes readers, and waits until those before have left. For the writer.
    #[inline]
    pub(crate) fn exclude(&self) {
        order::exclude(&self.state);
    }
}
