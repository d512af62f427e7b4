// SPDX-License-Identifier: GPL-2.0

//! Moderation of completion events: one event for several completions.
//!
//! Owns an event that is due and has not been told: it is told when so many completions have come, or
//! when the time is over, whichever is first. Does not know the queue.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    }, //
};
use rdma::{
    event::CqHandle,
    timer::{
        now,
        Timer,
        TimerOwner, //
    }, //
};

/// How long and how many completions an event may wait for others. Zero of either: not at all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// Completions that one event may stand for.
    pub(crate) count: u16,
    /// Microseconds after the first of them.
    pub(crate) period: u16,
}

impl Patience {
    /// Whether events wait.
    pub(crate) fn is_some(self) -> bool {
        self.count > 1 && self.period != 0
    }
}

/// Keeps events of one queue back.
#[pin_data]
pub(crate) struct Moderator {
    handle: CqHandle,
    /// Completions since the event was due; 0: no event is due.
    held: Atomic<u32>,
    #[pin]
    timer: Timer<Self>,
}

rdma::impl_has_timer! {
    impl HasTimer for Moderator { self.timer }
}

impl Moderator {
    /// No event is due.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(handle: CqHandle) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                handle,
                held: Atomic::new(0),
                timer <- Timer::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// A completion has come; `wanted`: the consumer wants an event. For any context; call it without
    /// a lock.
    pub(crate) fn completed(self: ArcBorrow<'_, Self>, wanted: bool, patience: Patience) {
        let mut held = self.held.load(Relaxed);
        loop {
            if held == 0 && !wanted {
                return;
            }
            let now_held = held.saturating_add(1);
            let due = now_held >= u32::from(patience.count);
            match self
                .held
                .cmpxchg(held, if due { 0 } else { now_held }, Full)
            {
                Ok(_) if due => return self.handle.notify(),
                Ok(0) => {
                    let period = u64::from(patience.period).saturating_mul(1000);
                    return Timer::arm(self, now().saturating_add(period));
                }
                Ok(_) => return,
                Err(other) => held = other,
            }
        }
    }

    /// Tells what is due.
    pub(crate) fn release(&self) {
        if self.held.load(Acquire) != 0 && self.held.xchg(0, Full) != 0 {
            self.handle.notify();
        }
    }

    /// Tells nothing any more. Sleeps. Nothing completes from here on.
    pub(crate) fn stop(&self) {
        self.timer.cancel();
    }
}

impl TimerOwner for Moderator {
    fn expired(self: ArcBorrow<'_, Self>) {
        self.release();
    }
}
