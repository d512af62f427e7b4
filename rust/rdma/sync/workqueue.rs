// SPDX-License-Identifier: GPL-2.0

//! Workqueues owned by the module, for work that may sleep for long.
//!
//! Work that waits for a process (to fault in memory, to serve a file system) must not fill the system
//! workqueues.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use crate::compat::workqueue::{
    alloc_workqueue,
    WQ_PERCPU, //
};
use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    prelude::*,
    workqueue::Queue, //
};

/// Yields the CPU if the scheduler requests it, for loops that run long. May sleep.
pub fn cond_resched() {
    // SAFETY: The caller may sleep, by the function's documentation; a violation is reported, and corrupts
    // nothing here.
    unsafe { crate::bindings::ferroce_helper_cond_resched() };
}

/// Returns whether the scheduler wants to run another task on this CPU. Softirqs are then left to ksoftirqd.
#[inline]
pub fn need_resched() -> bool {
    // SAFETY: The function has no preconditions.
    unsafe { crate::bindings::ferroce_helper_need_resched() }
}

/// A workqueue. Its drop waits until all queued work has run.
pub struct Workqueue(NonNull<bindings::workqueue_struct>);

// SAFETY: Workqueues do their own locking.
unsafe impl Send for Workqueue {}
// SAFETY: As for `Send`: C does the locking.
unsafe impl Sync for Workqueue {}

impl Workqueue {
    /// Creates an unbound queue with the largest number of concurrent items.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &'static CStr) -> Result<Self> {
        Self::with_flags(name, bindings::wq_flags_WQ_UNBOUND)
    }

    /// Creates a high-priority queue that runs items on the CPU that queued them. It has a rescuer
    /// (`WQ_MEM_RECLAIM`).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn highpri(name: &'static CStr) -> Result<Self> {
        let flags = bindings::wq_flags_WQ_HIGHPRI | WQ_PERCPU | bindings::wq_flags_WQ_MEM_RECLAIM;
        Self::with_flags(name, flags)
    }

    fn with_flags(name: &'static CStr, flags: bindings::wq_flags) -> Result<Self> {
        // CAST: The constant is 2048, or 512.
        let max_active = bindings::wq_consts_WQ_MAX_ACTIVE as c_int;
        // SAFETY: The format string takes one string argument, which is passed and NUL-terminated.
        let raw =
            unsafe { alloc_workqueue(c"%s".as_char_ptr(), flags, max_active, name.as_char_ptr()) };
        NonNull::new(raw).map(Self).ok_or(ENOMEM)
    }
}

impl Deref for Workqueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: The queue exists until `self` is dropped, and the borrow ends before that.
        unsafe { Queue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for Workqueue {
    fn drop(&mut self) {
        // SAFETY: The queue came from `alloc_workqueue`, and `self` owns it. Exclusive access means that no
        // caller can queue more work. C runs the queued work before it frees the queue.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}
