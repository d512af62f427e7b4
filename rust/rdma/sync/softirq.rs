// SPDX-License-Identifier: GPL-2.0

//! Softirqs of the current CPU: disabled for a while, and run early.
//!
//! A softirq that a task raises runs in ksoftirqd, a thread, which has to be scheduled first. If softirqs were disabled
//! when it was raised, it runs in the task, when they are enabled again.
//!
//! C header: [`include/linux/bottom_half.h`](srctree/include/linux/bottom_half.h)

use crate::bindings;
use kernel::{
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    },
    types::NotThreadSafe, //
};

/// The task runs no softirqs, stays on this CPU, and without PREEMPT_RT is not preempted.
///
/// For task context and softirq, with interrupts enabled.
pub(crate) struct BhDisabled(NotThreadSafe);

impl BhDisabled {
    /// Disables softirqs until the value is dropped.
    #[inline]
    pub(crate) fn new() -> Self {
        // SAFETY: Callers are in task context or softirq with interrupts enabled, as the type requires. `drop` enables
        // softirqs again, on the same CPU, because the value is not `Send`.
        unsafe { bindings::ferroce_helper_local_bh_disable() };
        Self(NotThreadSafe)
    }
}

impl Drop for BhDisabled {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `new` disabled softirqs on this CPU, and the value is not `Send`, so this is the matching
        // call.
        unsafe { bindings::ferroce_helper_local_bh_enable() };
    }
}

/// Runs a softirq early if it is the first one that a task raises here since the task slept.
///
/// A task that sleeps after each request gets it done without another thread. A task that goes on raises the softirq
/// again and again: ksoftirqd then runs once for many requests, when the task sleeps or its time is up.
pub struct OncePerWakeup {
    /// The wake-up of the task that called last, as C counts it.
    last: Atomic<u64>,
}

impl Default for OncePerWakeup {
    fn default() -> Self {
        Self {
            last: Atomic::new(0),
        }
    }
}

impl OncePerWakeup {
    /// Calls `raise`, which raises a softirq. It has run when this returns, if the current task calls this for
    /// the first time since it slept, and if another CPU has not begun with it.
    ///
    /// For any context. With interrupts, softirqs or preemption disabled, the softirq runs later; with PREEMPT_RT
    /// always, because nothing tells there whether the caller holds a spinlock.
    #[inline]
    pub fn softirq(&self, raise: impl FnOnce()) {
        // SAFETY: The function has no preconditions.
        let wakeup = unsafe { bindings::ferroce_helper_task_wakeup() };
        if wakeup == 0 || self.last.load(Relaxed) == wakeup {
            raise();
            return;
        }
        self.last.store(wakeup, Relaxed);
        let _disabled = BhDisabled::new();
        raise();
    }
}
