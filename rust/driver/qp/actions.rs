// SPDX-License-Identifier: GPL-2.0

//! Side effects of an engine run that must not happen while the engine is owned: events, timers, work items.
//!
//! An engine fills in [`Actions`] while it runs. `queue_pair` applies them after the engine is released.

use crate::qp::shared::QpShared;
use rdma::ib::event::QpEvent;
use roce::{
    time::Instant,
    wake::{
        NextWake,
        Wake, //
    }, //
};

/// Side effects to apply after an engine run.
///
/// A failure of the QP takes these steps:
///
/// 1. During the run, [`Actions::fail`] records it in `failed`, or [`Actions::fail_now`] changes the state at once
///    and sets `entered_error`.
/// 2. At the end of the run, with the engine still owned, [`Actions::commit_failure`] clears both fields. It changes
///    the state if `failed` is set. It sets `flush` if this run changed the state.
/// 3. After the engine is released, `queue_pair` reports the event in `flush` and runs both engines, which flush.
#[derive(Clone, Copy, Default)]
pub(crate) struct Actions {
    /// Step 1: the QP must go to the error state. The inner value is the event to report, if any.
    failed: Option<Option<QpEvent>>,
    /// Step 1: this run has moved the QP to the error state already.
    entered_error: bool,
    /// Step 2: the QP went to the error state, with this event. Both engines must flush.
    pub(crate) flush: Option<Option<QpEvent>>,
    /// Completions of this run call for an event of the engine's CQ. Cleared before the run ends.
    pub(crate) cq_event_due: bool,
    /// The first packet of the peer arrived before RTS.
    pub(crate) established: bool,
    /// The send queue has drained, and the consumer asked for the event.
    pub(crate) drained: bool,
    /// No more receives are taken from the SRQ: the consumer gets Last WQE Reached.
    pub(crate) last_wqe: bool,
    /// A packet to send waits for a page fault that a work item must service.
    pub(crate) tx_fault: bool,
    /// A received packet waits for a page fault that a work item must service.
    pub(crate) rx_fault: bool,
    /// The receive engine has been busy for so many runs that it should yield the CPU before the next one.
    pub(crate) wants_yield: bool,
    /// When the engine runs next without an event. Each run determines this anew.
    pub(crate) next_wake: NextWake,
    /// The engine is stopped by the tx in-flight limit, and runs again below this number of bytes.
    pub(crate) resume_below_bytes: Option<i64>,
}

impl Actions {
    /// Returns whether a loopback pass left actions for the peer's own run. Ignores what only the own run sets
    /// (`flush`, page faults), and `wants_yield`, which has an effect only if that run leaves work.
    pub(crate) fn has_any(&self) -> bool {
        self.failed.is_some()
            || self.entered_error
            || self.established
            || self.drained
            || self.last_wqe
            || self.next_wake != NextWake::NEVER
            || self.resume_below_bytes.is_some()
    }

    /// Adds the actions of an earlier run.
    pub(crate) fn merge(&mut self, earlier: &Self) {
        self.failed = earlier.failed.or(self.failed);
        self.entered_error |= earlier.entered_error;
        self.established |= earlier.established;
        self.drained |= earlier.drained;
        self.last_wqe |= earlier.last_wqe;
        self.wants_yield |= earlier.wants_yield;
        self.next_wake = self.next_wake.or_earlier(earlier.next_wake);
        self.resume_below_bytes = self.resume_below_bytes.or(earlier.resume_below_bytes);
    }

    /// Runs the engine at `at_ns`, in nanoseconds, at the latest.
    #[inline]
    pub(crate) fn wake_at(&mut self, why: Wake, at_ns: u64) {
        self.wake(NextWake::new(why, Instant::from_nanos(at_ns)));
    }

    /// As [`Actions::wake_at`].
    #[inline]
    pub(crate) fn wake(&mut self, wake: NextWake) {
        self.next_wake = self.next_wake.or_earlier(wake);
    }

    /// Records that the QP failed; the first event counts.
    pub(crate) fn fail(&mut self, event: Option<QpEvent>) {
        self.failed.get_or_insert(event);
    }

    /// As [`Actions::fail`], but changes the state at once. Called before the failed completion is visible: a
    /// consumer that has seen it expects that requests posted from then on are flushed.
    pub(crate) fn fail_now(&mut self, qp: &QpShared) {
        self.entered_error |= qp.fail();
    }

    /// Moves the QP to the error state, if it failed. Called at the end of a run, while the engine is owned:
    /// a reset waits for the owner, so the QP cannot be a new connection yet.
    pub(crate) fn commit_failure(&mut self, qp: &QpShared) {
        let failed = self.failed.take();
        // Does not report the failure if the consumer has reset the QP meanwhile.
        let entered_error = core::mem::take(&mut self.entered_error) && qp.is_failed();
        if entered_error || (failed.is_some() && qp.fail()) {
            self.flush = Some(failed.flatten());
        }
    }
}
