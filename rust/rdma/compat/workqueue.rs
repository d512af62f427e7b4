// SPDX-License-Identifier: GPL-2.0

//! `alloc_workqueue()`, which is a macro since 7.0.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

#[cfg(not(has_workqueue_noprof))]
pub(crate) use crate::bindings::alloc_workqueue;
#[cfg(has_workqueue_noprof)]
pub(crate) use crate::bindings::alloc_workqueue_noprof as alloc_workqueue;
