// SPDX-License-Identifier: GPL-2.0

//! A work queue of one's own, for work that may sleep for long.
//!
//! Owns the queue. Work that waits for a process (to give memory, to answer for a file system) must
//! not fill the queues that the rest of the kernel uses.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    prelude::*,
    workqueue::Queue, //
};

/// Lets others have the processor now and then, in the middle of what takes long. Not where nothing may
/// sleep.
pub fn cond_resched() {
    // SAFETY: May sleep, as the caller may.
    unsafe { crate::bindings::ferroce_helper_cond_resched() };
}

/// A work queue. When it is dropped, everything in it has run.
pub struct Workqueue(NonNull<bindings::workqueue_struct>);

// SAFETY: Work queues have their own locks.
unsafe impl Send for Workqueue {}
// SAFETY: See `Send`.
unsafe impl Sync for Workqueue {}

impl Workqueue {
    /// A queue that runs as many items at a time as there can be.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &'static CStr) -> Result<Self> {
        Self::with_flags(name, bindings::wq_flags_WQ_UNBOUND)
    }

    /// A queue that runs items on the CPU that they are queued on, and before what is less urgent.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn at_once(name: &'static CStr) -> Result<Self> {
        let flags = bindings::wq_flags_WQ_HIGHPRI
            | bindings::wq_flags_WQ_PERCPU
            | bindings::wq_flags_WQ_MEM_RECLAIM;
        Self::with_flags(name, flags)
    }

    fn with_flags(name: &'static CStr, flags: bindings::wq_flags) -> Result<Self> {
        // CAST: 2048.
        let most = bindings::wq_consts_WQ_MAX_ACTIVE as c_int;
        // SAFETY: The format takes one string.
        let raw = unsafe {
            bindings::alloc_workqueue_noprof(c"%s".as_char_ptr(), flags, most, name.as_char_ptr())
        };
        NonNull::new(raw).map(Self).ok_or(ENOMEM)
    }
}

impl Deref for Workqueue {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        // SAFETY: The queue is there until this is dropped.
        unsafe { Queue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for Workqueue {
    fn drop(&mut self) {
        // SAFETY: Ours, and nobody can put anything in any more. Waits for what is in it.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}
