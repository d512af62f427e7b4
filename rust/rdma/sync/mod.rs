// SPDX-License-Identifier: GPL-2.0

//! Ownership and waiting: who runs when, what is found under RCU, and how its end is awaited.
//!
//! Every type here works in softirq context; what sleeps says so.
//!
//! May use: `util`.

pub mod exclusive;
pub(crate) mod lockdep;
pub mod percpu_counter;
pub mod quiesce;
pub mod rcu_revocable;
pub mod rcu_table;
pub mod rw_revocable;
pub mod timer;
pub mod work;
pub mod workqueue;
