// SPDX-License-Identifier: GPL-2.0

//! Ownership, deferred execution and lifetime: what complements `kernel::sync` and `kernel::workqueue`.
//!
//! - [`exclusive`]: one owner at a time, without waiting; [`timer`], [`work`], [`workqueue`], [`softirq`]:
//!   run code later.
//! - [`rcu_table`], [`rcu_revocable`], [`rw_revocable`]: objects that readers find while they are being
//!   removed.
//! - [`read_section`]: in which such objects are used; [`quiesce`]: wait for readers and objects;
//!   [`percpu_counter`]: statistics; `lockdep`: annotations for lockdep.
//!
//! Every type works in softirq context; functions that sleep say so. May use `util`.

pub mod exclusive;
pub(crate) mod lockdep;
pub mod percpu_counter;
pub mod quiesce;
pub mod rcu_revocable;
pub mod rcu_table;
pub mod read_section;
mod readers;
pub mod rw_revocable;
pub mod softirq;
pub mod timer;
pub mod work;
pub mod workqueue;

pub use crate::compat::spinlock_irq::{
    new_spinlock_irq,
    SpinLockIrq, //
};
