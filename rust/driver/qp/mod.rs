// SPDX-License-Identifier: GPL-2.0

//! The queue pair: two engines, one for each direction, their inboxes, work items and timer.
//!
//! [`queue_pair`] runs the engines; [`rc`], [`uc`] and [`ud`] are the services; [`any_qp`] is the closed list of them.
//!
//! May use: `abi`, `mem`, `queue`, `port`, `packet`.

pub(crate) mod actions;
pub(crate) mod any_qp;
pub(crate) mod engine;
pub(crate) mod modify;
pub(crate) mod post;
pub(crate) mod queue_pair;
pub(crate) mod rc;
pub(crate) mod recv_context;
pub(crate) mod shared;
pub(crate) mod tx_limit;
pub(crate) mod uc;
pub(crate) mod ud;
