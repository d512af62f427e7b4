// SPDX-License-Identifier: GPL-2.0

//! Waiting for RCU readers, for RCU callbacks and for objects. Everything here sleeps, except taking and
//! dropping a [`LiveRef`].
//!
//! C headers: [`include/linux/rcupdate.h`](srctree/include/linux/rcupdate.h),
//! [`include/linux/completion.h`](srctree/include/linux/completion.h)

use crate::bindings;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Full,
                Relaxed, //
            },
            Atomic, //
        },
        Arc,
        Completion, //
    }, //
};

/// Waits until every callback that was passed to `call_rcu()` before has run. Sleeps.
pub fn rcu_barrier() {
    // SAFETY: The caller is in process context, by the documentation of this file.
    unsafe { bindings::rcu_barrier() };
}

/// Waits until every current RCU read-side critical section has ended. Faster than `synchronize_rcu()`, and
/// more expensive for other CPUs.
pub fn synchronize_rcu_expedited() {
    // SAFETY: The caller is in process context, by the documentation of this file. A caller under RCU would
    // wait for itself; debug kernels report that.
    unsafe { bindings::synchronize_rcu_expedited() };
}

/// Counts live objects, so that module exit can wait for the last one.
///
/// An object that is being dropped by a softirq or a work item executes code of the module until the drop has
/// finished.
pub struct LiveCount(Arc<Count>);

#[pin_data]
struct Count {
    /// Number of [`LiveRef`]s, plus one for the [`LiveCount`].
    refs: Atomic<i64>,
    #[pin]
    empty: Completion,
}

impl LiveCount {
    /// Creates a count without objects.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        let count = Arc::pin_init(
            pin_init!(Count {
                refs: Atomic::new(1),
                empty <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self(count))
    }

    /// Counts one more object. For any context.
    pub fn join(&self) -> LiveRef {
        self.0.refs.add(1, Relaxed);
        LiveRef(self.0.clone())
    }

    /// Waits until no object is left, and until the code that dropped the last ones has finished, if it ran
    /// under RCU, in softirq or as an RCU callback. Sleeps.
    pub fn wait(&self) {
        self.0.put();
        self.0.empty.wait_for_completion();
        synchronize_rcu_expedited();
        rcu_barrier();
    }
}

impl Count {
    fn put(&self) {
        if self.refs.fetch_sub(1, Full) == 1 {
            self.empty.complete_all();
        }
    }
}

/// Held by an object that a [`LiveCount`] counts.
pub struct LiveRef(Arc<Count>);

impl Drop for LiveRef {
    fn drop(&mut self) {
        self.0.put();
    }
}
