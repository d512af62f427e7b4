// SPDX-License-Identifier: GPL-2.0

//! Waiting until nobody is left: RCU readers, RCU callbacks, objects.
//!
//! Everything here sleeps.
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

pub use kernel::sync::rcu::rcu_barrier;

/// Waits until every RCU read-side critical section that runs now has ended; faster than
/// `synchronize_rcu()`, and dearer for the other CPUs.
pub fn synchronize_rcu_expedited() {
    // SAFETY: May be called from process context.
    unsafe { bindings::synchronize_rcu_expedited() };
}

/// Counts objects, so that the last one can be waited for.
///
/// For module exit: an object that is on its way out of a softirq or a work item runs code of the
/// module until it is gone.
pub struct LiveCount(Arc<Count>);

#[pin_data]
struct Count {
    /// Objects, and one for the [`LiveCount`].
    members: Atomic<i64>,
    #[pin]
    empty: Completion,
}

impl LiveCount {
    /// Nobody.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        let count = Arc::pin_init(
            pin_init!(Count {
                members: Atomic::new(1),
                empty <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self(count))
    }

    /// A new member. For any context.
    pub fn join(&self) -> LiveRef {
        self.0.members.add(1, Relaxed);
        LiveRef(self.0.clone())
    }

    /// Waits until no member is left, and until the code that dropped the last ones has run to its
    /// end, where it ran under RCU, in softirq or as an RCU callback.
    pub fn wait(&self) {
        self.0.leave();
        self.0.empty.wait_for_completion();
        synchronize_rcu_expedited();
        rcu_barrier();
    }
}

impl Count {
    fn leave(&self) {
        if self.members.fetch_sub(1, Full) == 1 {
            self.empty.complete_all();
        }
    }
}

/// Proof that its owner counts as a member of a [`LiveCount`].
pub struct LiveRef(Arc<Count>);

impl Drop for LiveRef {
    fn drop(&mut self) {
        self.0.leave();
    }
}
