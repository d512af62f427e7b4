// SPDX-License-Identifier: GPL-2.0

//! Moderation of completion events: one event for several completions.
//!
//! Owns an event that is due and has not been told: it is told when so many completions have come, or
//! when the time is over, whichever is first. How these two meet is in `state`. Does not know the queue.

mod state;

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    }, //
};
use rdma::{
    ib::event::CqHandle,
    sync::timer::{
        now,
        Timer,
        TimerOwner, //
    }, //
};
use state::Step;

/// How long and how many completions an event may wait for others. Zero of either: not at all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ModerationParams {
    /// Completions that one event may stand for.
    pub(crate) count: u16,
    /// Microseconds after the first of them.
    pub(crate) period: u16,
}

impl ModerationParams {
    /// Whether events wait.
    pub(crate) fn is_some(self) -> bool {
        self.count > 1 && self.period != 0
    }
}

/// Completions since the event was due; 0: no event is due.
type Held = Atomic<u32>;

/// Keeps events of one queue back.
#[pin_data]
pub(crate) struct Moderator {
    handle: CqHandle,
    held: Held,
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
    pub(crate) fn completed(self: ArcBorrow<'_, Self>, wanted: bool, patience: ModerationParams) {
        match state::completed(&self.held, wanted, patience.count.into()) {
            Step::None => {}
            Step::Tell => self.handle.notify(),
            Step::Arm => {
                let period = u64::from(patience.period).saturating_mul(1000);
                Timer::arm(self, now().saturating_add(period));
            }
        }
    }

    /// Tells what is due.
    pub(crate) fn release(&self) {
        if state::release(&self.held) {
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
