// SPDX-License-Identifier: GPL-2.0

//! State that all QPs of a device share.
//!
//! - [`state`]: the port: netdev, namespace, key table, AHs, counters. [`query`]: `query_port`.
//! - [`congestion`]: settings of congestion control. [`counters`]: port and per-QP statistics. [`ah`]: address handles.
//!   [`workqueues`]: work queues of the module. [`impair`]: faults for tests.
//!
//! May use `limits`, `abi`, `mem` and `queue`.

pub(crate) mod ah;
pub(crate) mod congestion;
pub(crate) mod counters;
pub(crate) mod impair;
pub(crate) mod query;
pub(crate) mod state;
pub(crate) mod workqueues;
