// SPDX-License-Identifier: GPL-2.0

//! What an engine leaves for after its run: side effects that it must not cause while it owns its state.
//!
//! An engine fills in [`Actions`](Aftermath) while it runs; `queue_pair` applies them once the engine is free again.

use crate::qp::shared::QpShared;
use rdma::ib::event::QpEvent;

/// What a half leaves behind after its turn: what it could not do while it was running.
#[derive(Clone, Copy, Default)]
pub(crate) struct Actions {
    /// The queue pair has to go to the error state, for this reason if there is one to tell.
    failed: Option<Option<QpEvent>>,
    /// It has gone there already: who sees the completion that says so may rely on it.
    has_failed: bool,
    /// It has gone there, for that reason, and both halves have to flush.
    pub(crate) flush: Option<Option<QpEvent>>,
    /// The peer's first packet came before the state was RTS.
    pub(crate) established: bool,
    /// The send queue has drained, and the consumer wants to know.
    pub(crate) drained: bool,
    /// No more receives are taken from the shared queue, and the consumer wants to know.
    pub(crate) last_wqe: bool,
    /// The half waits for memory, which has to be brought.
    pub(crate) absent: bool,
    /// The half has had work for so long that a thread should run before it goes on.
    pub(crate) wants_yield: bool,
    /// When the half wants its next turn, in nanoseconds.
    pub(crate) wake_at: Option<u64>,
    /// Below how many bytes on their way the half that is held back wants its next turn.
    pub(crate) resume_below: Option<i64>,
}

impl Actions {
    /// Whether anything is to be done.
    pub(crate) fn is_some(&self) -> bool {
        self.failed.is_some()
            || self.has_failed
            || self.established
            || self.drained
            || self.last_wqe
            || self.absent
            || self.wake_at.is_some()
            || self.resume_below.is_some()
    }

    /// Adds what another turn has left behind, before this one.
    pub(crate) fn merge(&mut self, earlier: &Self) {
        self.failed = earlier.failed.or(self.failed);
        self.has_failed |= earlier.has_failed;
        self.established |= earlier.established;
        self.drained |= earlier.drained;
        self.last_wqe |= earlier.last_wqe;
        self.absent |= earlier.absent;
        self.wants_yield |= earlier.wants_yield;
        self.wake_at = self.wake_at.or(earlier.wake_at);
        self.resume_below = self.resume_below.or(earlier.resume_below);
    }

    /// Notes that the queue pair has failed; the first reason counts.
    pub(crate) fn fail(&mut self, event: Option<QpEvent>) {
        self.failed.get_or_insert(event);
    }

    /// As [`Actions::fail`], with the state changed at once: to be called before the completion is visible that
    /// says so. Whoever has seen it expects that what he posts then is flushed.
    pub(crate) fn fail_now(&mut self, qp: &QpShared) {
        self.has_failed |= qp.fail();
    }

    /// At the end of a turn: the queue pair goes to the error state, if it has failed. Not later, or it could
    /// be another connection's by then: going to RESET waits for the turn.
    pub(crate) fn take_effect(&mut self, qp: &QpShared) {
        let failed = self.failed.take();
        // A consumer who has meanwhile taken it to RESET does not hear of it.
        let has_failed = core::mem::take(&mut self.has_failed) && qp.is_failed();
        if has_failed || (failed.is_some() && qp.fail()) {
            self.flush = Some(failed.flatten());
        }
    }
}
