// SPDX-License-Identifier: GPL-2.0

//! CQ moderation: one event for several completions.
//!
//! A delayed event is sent when enough completions have arrived or the timer expires, whichever is first.
//! `state` is the lock-free state machine of the two. [`Cq`](crate::queue::cq::Cq) reports completions in any
//! context, without a lock; the timer expires in softirq.

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
use state::EventAction;

/// Limits of the delay of an event. Moderation is disabled if the period is 0, or the count is 0 or 1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ModerationParams {
    /// Completions that share one event.
    pub(crate) count: u16,
    /// Longest delay after the first completion, in microseconds.
    pub(crate) period: u16,
}

impl ModerationParams {
    /// Returns whether events are delayed.
    pub(crate) fn is_enabled(self) -> bool {
        self.count > 1 && self.period != 0
    }
}

/// Event after a completion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub(crate) enum CqEvent {
    /// None now: the consumer did not ask, or is notified of this completion later.
    None,
    /// The consumer must be notified.
    Due,
}

/// Completions that the delayed event will report; 0: none is delayed.
type PendingCompletions = Atomic<u32>;

/// Delays the events of one CQ.
#[pin_data]
pub(crate) struct Moderator {
    handle: CqHandle,
    pending: PendingCompletions,
    #[pin]
    timer: Timer<Self>,
}

rdma::impl_has_timer! {
    impl HasTimer for Moderator { self.timer }
}

impl Moderator {
    /// Creates a moderator without a delayed event.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(handle: CqHandle) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                handle,
                pending: Atomic::new(0),
                timer <- Timer::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Handles a completion. `notify`: the consumer has armed the CQ for it. Callable from any context,
    /// without a lock.
    pub(crate) fn on_completion(
        self: ArcBorrow<'_, Self>,
        notify: bool,
        params: ModerationParams,
    ) -> CqEvent {
        match state::on_completion(&self.pending, notify, params.count.into()) {
            EventAction::None => {}
            EventAction::Notify => return CqEvent::Due,
            EventAction::ArmTimer => {
                let delay_ns = u64::from(params.period).saturating_mul(1000);
                Timer::arm(self, now().saturating_add(delay_ns));
            }
        }
        CqEvent::None
    }

    /// Sends the delayed event, if there is one.
    pub(crate) fn notify_pending(&self) {
        if state::take_pending(&self.pending) {
            // Several completions: where the consumer spreads its work to.
            self.handle.notify(false);
        }
    }

    /// Stops the timer. Sleeps. The CQ gets no further completions.
    pub(crate) fn stop(&self) {
        self.timer.cancel();
    }
}

impl TimerOwner for Moderator {
    fn expired(self: ArcBorrow<'_, Self>) {
        self.notify_pending();
    }
}
