// SPDX-License-Identifier: GPL-2.0

//! `alloc_workqueue()`, which is a macro since 7.0, and its flag for a queue whose items run on the CPU that queued
//! them. Older kernels have no such flag: a queue without `WQ_UNBOUND` does so.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

#[cfg(not(has_workqueue_noprof))]
pub(crate) use crate::bindings::alloc_workqueue;
#[cfg(has_workqueue_noprof)]
pub(crate) use crate::bindings::alloc_workqueue_noprof as alloc_workqueue;

#[cfg(not(has_workqueue_percpu))]
pub(crate) const WQ_PERCPU: kernel::bindings::wq_flags = 0;
#[cfg(has_workqueue_percpu)]
pub(crate) use kernel::bindings::wq_flags_WQ_PERCPU as WQ_PERCPU;
